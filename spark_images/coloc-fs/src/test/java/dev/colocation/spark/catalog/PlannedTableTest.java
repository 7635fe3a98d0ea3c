package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class PlannedTableTest {
  /** The larger of what rows and files say, never nothing: the size of a join is the product of its sides'. */
  @ParameterizedTest
  @CsvSource({"300000,28,12000000000,12000000000", "3000000,28,31000000,84000000", "0,28,5000,5000", "0,28,0,1", "-4,28,-5,1",
      "9000000000000000000,28,0,28000000000000"})
  void sizeIsTheLargerOfRowsAndFiles(long rows, int rowBytes, long fileBytes, long expected) {
    assertEquals(expected, PlannedTable.sizeInBytes(rows, rowBytes, fileBytes));
  }
}
