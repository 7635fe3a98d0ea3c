package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.TypeNames;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Clauses of CREATE TABLE and ALTER TABLE become specs, or errors for what no table can be. */
final class StatementsTest {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String BEFORE = "{'colocateWith': 'sales', 'replicas': 2, 'recycleAfterSeconds': 3600}";

  private static JsonNode json(String text) throws JsonProcessingException {
    return JSON.readTree(text.replace('\'', '"'));
  }

  /** Whole numbers as JSON has them, whatever Java class holds them. */
  private static void assertSpec(String expected, ObjectNode actual) throws JsonProcessingException {
    assertEquals(json(expected), JSON.readTree(actual.toString()));
  }

  private static void assertRefused(String message, Executable statement) {
    ColocationException error = assertThrows(ColocationException.class, statement);
    assertEquals("not possible for a ColocatedTable: " + message, error.getMessage());
    assertEquals("Refused", error.getCondition());
  }

  @Test
  void errorsHaveAConditionAndNoClassName() {
    ColocationException error = new ColocationException("SchemaMismatch: group sales has 6 buckets");
    assertEquals("SchemaMismatch", error.getCondition());
    assertEquals("SchemaMismatch: group sales has 6 buckets", error.toString());
    assertEquals(Map.of("message", error.getMessage()), error.getMessageParameters());
    assertEquals("KD000", error.getSqlState());
  }

  @Test
  void tablesNeedBuckets() {
    String key = "it has no bucket key, by which rows are distributed; give CLUSTERED BY (<columns>) INTO <n> BUCKETS, or of a DataFrame "
        + "write.bucketBy(<n>, <columns>) or writeTo(…).partitionedBy(bucket(<n>, <column>)); where there is no word for it, as in "
        + "pipelines, property 'clustered_by' = '<columns>'";
    assertRefused("colocation.shop.ordrs would be a new table, and " + key + "; if a table that exists was meant, "
        + "SHOW TABLES IN colocation.shop lists those that there are",
        () -> TableDefinition.spec("colocation.shop.ordrs", "colocation.shop", new Column[0], new Transform[0], Map.of()));
    assertRefused(key,
        () -> TableDefinition.replacement(new Column[0], new Transform[] {Expressions.identity("day")}, Map.of()));
  }

  @Test
  void columnsNeedTypesThatFilesCanHold() {
    for (String type : List.of("BIGINT", "decimal(15, 2)", "varchar(9)", "timestamp_ltz", "array<array<int>>",
        "struct<a: int, b: string>", "map<string,int>", "variant", "binary", "interval day to second", "string collate UNICODE")) {
      assertTrue(TypeNames.isAllowed(type), type);
    }
    for (String type : List.of("interval year to day", "time(6)", "bigint(3)", "", "interval", "void")) {
      assertFalse(TypeNames.isAllowed(type), type);
    }
  }

  private static final String COLUMNS = "{'bucketedBy': ['k'], 'partitionedBy': ['dt'], 'columns': [{'name': 'k', 'type': "
      + "'bigint', 'nullable': false}, {'name': 'v', 'type': 'int', 'storedAs': 'w'}, {'name': 'dt', 'type': 'date'}]}";

  private static final List<String> HELD = List.of("k", "W", "dt");

  private static String names(TableChange... changes) throws JsonProcessingException {
    return String.join(" ", TableChanges.patch(json(COLUMNS), HELD, changes).path("columns").findValuesAsText("name"));
  }

  @Test
  void columnsAreAddedAtTheirPlace() throws JsonProcessingException {
    assertEquals("v k dt",
        names(TableChange.updateColumnPosition(new String[] {"k"}, TableChange.ColumnPosition.after("v"))));
    String partition = "a place by FIRST or AFTER for or behind dt, a column of PARTITIONED BY; these come last, in that order: "
        + "leave it out, or name another column";
    assertEquals("v k dt",
        names(TableChange.updateColumnPosition(new String[] {"v"}, TableChange.ColumnPosition.first())));
    assertRefused(partition,
        () -> names(TableChange.updateColumnPosition(new String[] {"v"}, TableChange.ColumnPosition.after("dt"))));
    assertRefused(partition,
        () -> names(TableChange.updateColumnPosition(new String[] {"dt"}, TableChange.ColumnPosition.first())));
    assertRefused("column v AFTER itself; name another column",
        () -> names(TableChange.updateColumnPosition(new String[] {"v"}, TableChange.ColumnPosition.after("V"))));
  }

  @Test
  void columnsTakeCommentsAndNull() throws JsonProcessingException {
    JsonNode changed = TableChanges.patch(json(COLUMNS), HELD, TableChange.updateColumnComment(new String[] {"K"}, "the key"),
        TableChange.updateColumnNullability(new String[] {"k"}, true)).path("columns").get(0);
    assertEquals(json("{'name': 'k', 'type': 'bigint', 'nullable': true, 'comment': 'the key'}"), changed);
  }

  @Test
  void columnsWithoutFilesCanBeDropped() throws JsonProcessingException {
    assertEquals("k dt",
        String.join(" ", TableChanges.patch(json(COLUMNS), List.of("k", "v", "dt"), TableChange.deleteColumn(new String[] {"V"}, false))
            .path("columns").findValuesAsText("name")));
  }

  @Test
  void changesThatFilesDoNotFitAreRefused() throws JsonProcessingException {
    String[] v = {"v"};
    assertRefused("DROP COLUMN or REPLACE COLUMNS of v; files hold it: use CREATE OR REPLACE TABLE … AS SELECT with the columns "
        + "that stay", () -> names(TableChange.deleteColumn(v, false)));
    assertRefused("DROP COLUMN or REPLACE COLUMNS of k; the table is laid out by it: use CREATE OR REPLACE TABLE … AS SELECT with "
        + "the columns that stay", () -> names(TableChange.deleteColumn(new String[] {"k"}, true)));
    assertRefused("there is no column x", () -> names(TableChange.deleteColumn(new String[] {"x"}, false)));
    assertEquals("", names(TableChange.deleteColumn(new String[] {"x"}, true)));
    assertRefused("ALTER TABLE of field v.x; files hold v as it is: add a column, or use CREATE TABLE … AS SELECT, "
        + "a table of another name, with the changed column", () -> names(TableChange.renameColumn(new String[] {"v", "x"}, "y")));
    assertRefused("RENAME COLUMN k, which is in bucketedBy: files are laid out by its name; use another name in queries (AS), or "
        + "CREATE TABLE … AS SELECT a table of another name", () -> names(TableChange.renameColumn(new String[] {"k"}, "n")));
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', quoteCharacter = '"', value = {
      "hive.stored-as | ORC | STORED AS ORC; files of a ColocatedTable are Parquet: leave STORED AS out, of a DataFrame format or using",
      "provider | orc | USING orc; files of a ColocatedTable are Parquet: leave USING out, of a DataFrame format or using",
      "location | /x | EXTERNAL, LOCATION or option path; nodes keep the files, in folders of the table's name: leave it out, "
          + "and write the rows with INSERT",
      "owner.team | x | property or clause 'owner.team'; allowed: colocate_with, replication_num, clustered_by, buckets, "
          + "sorted_by, recycle_after_seconds, retention_seconds, retention_snapshots, compaction_enabled, "
          + "compaction_max_files_per_bucket; leave it out",
      "compaction_enabled | yes | compaction_enabled='yes'; allowed: true or false",
      "recycle_after_seconds | -1 | recycle_after_seconds='-1'; allowed: a whole number from 0",
      "replication_num | many | replication_num='many'; allowed: a whole number from 0"})
  void unsupportedClausesAreRefused(String key, String value, String message) {
    assertRefused(message, () -> TableDefinition.setProperty(JSON.createObjectNode(), key, value));
  }

  @Test
  void propertiesAreFieldsOfTheSpec() throws JsonProcessingException {
    ObjectNode spec = JSON.createObjectNode();
    Map.of("colocate_with", "sales", "replication_num", "2", "sorted_by", "s, k", "recycle_after_seconds", "3600",
        "provider", "PARQUET", "hive.stored-as", "parquet", "retention_snapshots", "3", "comment", "all orders")
        .forEach((key, value) -> TableDefinition.setProperty(spec, key, value));
    assertSpec("{'colocateWith': 'sales', 'replicas': 2, 'sortedBy': ['s', 'k'], 'recycleAfterSeconds': 3600, "
        + "'retention': {'snapshots': 3}, 'comment': 'all orders'}", spec);
    assertEquals("{colocate_with=sales, comment=all orders, recycle_after_seconds=3600, replication_num=2, retention_snapshots=3, "
        + "sorted_by=s,k}", TableProperty.givenBy(spec).toString());
  }

  /** Of {@code OPTIONS (…)}, and of options of {@code catalog.createTable}, Spark makes two properties. */
  @Test
  void optionsOfADefinitionAreProperties() throws JsonProcessingException {
    assertSpec("{'columns': [], 'colocateWith': 'sales'}", TableDefinition.replacement(new Column[0], new Transform[0],
        Map.of("Colocate_With", "sales", "option.Colocate_With", "sales")));
    assertRefused("option 'compression'; allowed: colocate_with, replication_num, clustered_by, buckets, sorted_by, "
        + "recycle_after_seconds, retention_seconds, retention_snapshots, compaction_enabled, compaction_max_files_per_bucket; leave it out",
        () -> TableDefinition.replacement(new Column[0], new Transform[0],
            Map.of("compression", "zstd", "option.compression", "zstd")));
  }

  /** As Spark's own, which need its logger. */
  private static Transform transform(String name, String column) {
    NamedReference reference = () -> new String[] {column};
    return new Transform() {
      @Override
      public String name() {
        return name;
      }

      @Override
      public NamedReference[] references() {
        return new NamedReference[] {reference};
      }

      @Override
      public Expression[] arguments() {
        return references();
      }
    };
  }

  /** A pipeline's table has no other words for it; each run sets all properties again. */
  @Test
  void bucketsCanBeProperties() throws JsonProcessingException {
    Transform[] byDay = {transform("identity", "dt")};
    Transform[] byKey = {transform("bucket", "k")};
    Map<String, String> key = Map.of("Clustered_By", "k, l", "buckets", "8", "sorted_by", "k, s");
    ObjectNode spec = TableDefinition.replacement(new Column[0], byDay, key);
    assertSpec("{'columns': [], 'partitionedBy': ['dt'], 'sortedBy': ['k', 's'], 'bucketedBy': ['k', 'l'], 'buckets': 8}", spec);
    assertSpec("{'columns': [], 'partitionedBy': [], 'sortedBy': [], 'bucketedBy': ['k']}",
        TableDefinition.replacement(new Column[0], new Transform[0], Map.of("clustered_by", "k")));
    assertSpec("{}", TableChanges.patch(spec, HELD, TableChange.setProperty("clustered_by", "K,l"),
        TableChange.setProperty("buckets", "8"), TableChange.setProperty("sorted_by", "k,s"),
        TableChange.setProperty("provider", "Parquet")));
    assertRefused("ALTER TABLE of property 'buckets', since files are laid out as they were written; use CREATE OR REPLACE TABLE with "
        + "CLUSTERED BY, SORTED BY and a query of all rows",
        () -> TableChanges.patch(spec, HELD, TableChange.setProperty("buckets", "9")));
    assertRefused("both CLUSTERED BY and property 'clustered_by'; give one of them",
        () -> TableDefinition.replacement(new Column[0], byKey, Map.of("clustered_by", "k")));
    assertRefused("property 'buckets' without property 'clustered_by'; give both, or CLUSTERED BY (<columns>) INTO <n> BUCKETS",
        () -> TableDefinition.replacement(new Column[0], byDay, Map.of("buckets", "8")));
    assertThrows(ColocationException.class, () -> TableDefinition.replacement(new Column[0], byDay, Map.of()));
  }

  @Test
  void unsupportedChangesAreNamedAsInSql() {
    assertRefused("ALTER TABLE CLUSTER BY; allowed: SET and UNSET TBLPROPERTIES, ADD, DROP, RENAME and ALTER COLUMN, COMMENT ON TABLE",
        () -> TableChanges.patch(json(BEFORE), HELD, TableChange.clusterBy(new NamedReference[0])));
    assertEquals("DROP CONSTRAINT", TableChanges.inSql("DropConstraint"));
  }

  @Test
  void groupNamesFollowTheRulesOfTableNames() throws JsonProcessingException {
    assertSpec("{'colocateWith': 'web-shop/sales-eu'}",
        TableChanges.patch(json(BEFORE), HELD, TableChange.setProperty("colocate_with", "WEB_SHOP/sales_eu")));
  }

  @Test
  void propertiesCanBeAltered() throws JsonProcessingException {
    assertSpec("{'recycleAfterSeconds': 5}",
        TableChanges.patch(json(BEFORE), HELD, TableChange.setProperty("recycle_after_seconds", "5")));
    assertSpec("{'colocateWith': '', 'recycleAfterSeconds': null}", TableChanges.patch(json(BEFORE), HELD,
        TableChange.removeProperty("colocate_with"), TableChange.removeProperty("recycle_after_seconds")));
    assertSpec("{'retention': {'seconds': 5}, 'comment': 'new'}", TableChanges.patch(json(BEFORE), HELD,
        TableChange.setProperty("retention_seconds", "5"), TableChange.setProperty("comment", "new")));
    assertRefused("ALTER TABLE of property 'x'; allowed: colocate_with, replication_num, recycle_after_seconds, "
        + "retention_seconds, retention_snapshots, compaction_enabled, compaction_max_files_per_bucket",
        () -> TableChanges.patch(json(BEFORE), HELD, TableChange.removeProperty("x")));
    assertRefused("ALTER TABLE of property 'sorted_by', since files are laid out as they were written; use CREATE OR REPLACE "
        + "TABLE with CLUSTERED BY, SORTED BY and a query of all rows",
        () -> TableChanges.patch(json(BEFORE), HELD, TableChange.setProperty("sorted_by", "k")));
  }
}
