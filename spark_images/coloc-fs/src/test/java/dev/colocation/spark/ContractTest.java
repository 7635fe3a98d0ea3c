package dev.colocation.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.colocation.spark.catalog.ReaderContractTest;
import dev.colocation.spark.cluster.ClusterContractTest;
import dev.colocation.spark.explain.QueryLineContractTest;
import dev.colocation.spark.fs.ManifestContractTest;
import java.io.IOException;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Every file of cases has a reader here. */
final class ContractTest {
  @Test
  void everyRuleIsChecked() throws IOException {
    TreeSet<String> read = new TreeSet<>();
    Stream.of(ManifestContractTest.RULES, ClusterContractTest.RULES, ReaderContractTest.RULES, QueryLineContractTest.RULES)
        .map(Map::keySet).forEach(read::addAll);
    assertEquals(Contract.names(), read);
  }
}
