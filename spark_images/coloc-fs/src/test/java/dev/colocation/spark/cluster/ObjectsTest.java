package dev.colocation.spark.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.fs.Buckets;
import dev.colocation.spark.fs.Manifest;
import dev.colocation.spark.fs.Settings;
import java.io.IOException;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What is read of the API server's objects, which others have written. */
final class ObjectsTest {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String DIGEST = "ab".repeat(32);

  private static JsonNode json(String text) throws JsonProcessingException {
    return JSON.readTree(text.replace('\'', '"'));
  }

  private static ColocatedTable table(String spec, String status) throws JsonProcessingException {
    return ColocatedTable.parse(json("{'metadata': {'namespace': 'shop', 'name': 'orders', 'uid': '0123456789', "
        + "'resourceVersion': '7'}, 'spec': {'columns': [{'name': 'k', 'type': 'LONG'}], 'bucketedBy': ['k']" + spec
        + "}, 'status': {" + status + "}}"));
  }

  private static String snapshot(int id, String time) {
    return "{'id': " + id + ", 'manifest': 'sha256:" + DIGEST + "', 'committedAt': '" + time + "', 'rows': 5}";
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "401 | gone | start the application again",
      "403 | User \"ann\" cannot get it | ask for ClusterRole colocation-user",
      "403 | exceeded quota | the cluster refuses it: exceeded quota",
      "404 | '' | does not know ColocatedTables",
      "400 | strict decoding error: unknown field \"spec.x\" | of an older release than this jar",
      "410 | gone | the API server answered 410: gone"})
  void refusalsNameTheCure(int status, String message, String words) throws JsonProcessingException {
    KubernetesApi.Answer answer =
        new KubernetesApi.Answer(status, JsonNodeFactory.instance.objectNode().put("message", message), Optional.empty());
    Exception refusal = assertThrows(Exception.class, () -> KubernetesApi.checked("ColocatedTable shop/orders", answer));
    assertTrue(refusal.getMessage().contains("ColocatedTable shop/orders") && refusal.getMessage().contains(words), refusal.getMessage());
  }

  @Test
  void ofATableWhoseRowsAreReplacedOnlyTheNewestSnapshotCounts() throws JsonProcessingException {
    ColocatedTable table = table("", "'snapshot': " + snapshot(3, "2026-11-21T03:00:00Z") + ", 'history': ["
        + snapshot(2, "2026-11-21T02:00:00Z") + ", 7], 'commits': 'gone'");
    assertTrue(table.statusError().contains("status.history[1]") && table.statusError().contains("status.commits"));
    ColocatedTable replaced = table.toBeReplaced();
    assertEquals(List.of(3L), replaced.snapshots().stream().map(Snapshot::id).toList());
    assertEquals("", replaced.statusError());
  }

  /** The next id has to be exact, too. */
  @ParameterizedTest
  @CsvSource({"7, 7", "9007199254740991, 0"})
  void idOfAnInvalidSnapshotCountsWhileThereIsRoomForMore(long id, long last) throws JsonProcessingException {
    assertEquals(last, table("", "'snapshot': {'id': " + id + "}").lastId());
  }

  /** The operator has yet to accept the table, and will write its columns itself. */
  @Test
  void aCommitReportsNoColumnsWhereNoneWereAccepted() throws JsonProcessingException {
    String columns = "'columns': [{'name': 'k', 'type': 'bigint', 'nullable': false}]";
    assertEquals(Optional.empty(), table(", " + columns, "").columnsToReport());
    assertTrue(table(", " + columns, "'columns': [{'name': 'k', 'type': 'int'}]").columnsToReport().isPresent());
  }

  @Test
  void snapshotsAreFoundByNumberAndByTime() throws JsonProcessingException {
    ColocatedTable table = table("", "'snapshot': " + snapshot(3, "2026-11-21T03:00:00Z") + ", 'history': ["
        + snapshot(2, "2026-11-21T02:00:00Z") + "]");
    assertEquals(3, table.snapshot().orElseThrow().id());
    assertEquals(2, table.ofVersion("2").id());
    assertEquals(2, table.ofTime(Instant.parse("2026-11-21T02:59:59Z")).id());
    assertEquals(3, table.ofTime(Instant.parse("2026-11-21T03:00:00Z")).id());
    Exception missing = assertThrows(ColocationException.class, () -> table.ofVersion("7"));
    assertEquals("table shop.orders keeps no snapshot 7; it keeps: 3 (2026-11-21T03:00:00Z), 2 (2026-11-21T02:00:00Z). "
        + "spec.retention sets how long snapshots are kept", missing.getMessage());
    assertThrows(ColocationException.class, () -> table.ofTime(Instant.parse("2026-11-21T01:00:00Z")));
  }

  @Test
  void invalidStatusIsRefusedWhenRowsAreRead() throws JsonProcessingException {
    for (String spoilt : List.of(
        "'snapshot': {'id': 1, 'manifest': 'x', 'committedAt': '2026-11-21T03:00:00Z'}",
        "'snapshot': {'id': 'one', 'manifest': 'sha256:" + DIGEST + "', 'committedAt': '2026-11-21T03:00:00Z'}",
        "'snapshot': " + snapshot(1, "soon"),
        "'history': [" + snapshot(1, "2026-11-21T03:00:00") + "]",
        "'snapshot': 5")) {
      ColocatedTable table = table("", spoilt);
      assertEquals("shop.orders", table.fullName());
      for (Executable wanted : List.<Executable>of(
          table::requireSnapshots, () -> table.ofVersion("1"), () -> table.ofTime(Instant.now()))) {
        Exception error = assertThrows(ColocationException.class, wanted);
        assertTrue(error.getMessage().startsWith("InvalidStatus: the status of table shop.orders cannot be understood: "));
      }
    }
  }

  @Test
  void refusalIsTheOperatorsMessage() throws JsonProcessingException {
    assertEquals("the operator has not accepted it yet", table("", "").refusal());
    assertEquals("", table("", "'accepted': true").refusal());
    assertEquals("SchemaMismatch: 10 should be 8", table("", "'accepted': false, 'conditions': [{'type': 'Accepted', "
        + "'reason': 'SchemaMismatch', 'message': '10 should be 8'}]").refusal());
  }

  /** It stays in its group, where it is ready; the reason for the refusal is still reported. */
  @Test
  void refusedMoveDoesNotStopLoads() throws JsonProcessingException {
    String refused = "'accepted': false, 'conditions': [{'type': 'Ready', 'status': '%s', 'reason': 'Reconciled'}, "
        + "{'type': 'Accepted', 'status': 'False', 'reason': 'SchemaMismatch', 'message': '3 should be 2'}]";
    assertEquals("", table("", refused.replace("%s", "True")).refusal());
    assertEquals("SchemaMismatch: 3 should be 2", table("", refused.replace("%s", "False")).refusal());
    JsonNode status = new ObjectMapper().readTree(("{" + refused.replace("%s", "True") + "}").replace('\'', '"'));
    assertEquals("SchemaMismatch: 3 should be 2", ColocatedTable.judgement(status));
  }

  /** Its rows are in the recycle bin, or in the folder of a lost table: an answer without them would be wrong. */
  @ParameterizedTest
  @CsvSource(delimiter = '|', quoteCharacter = '"', value = {
      "colocation.dev/recovers | | true",
      "colocation.dev/recovers | 'accepted': false | true",
      "colocation.dev/recovers | 'accepted': true | false",
      "colocation.dev/recovers | 'snapshot': {'id': 1, 'manifest': 'sha256:@', 'committedAt': '2026-11-21T03:00:00Z'} | false",
      "colocation.dev/adopts | | true",
      "colocation.dev/adopts | 'accepted': false | true",
      "colocation.dev/adopts | 'accepted': true | false",
      "colocation.dev/adopts | 'snapshot': {'id': 1, 'manifest': 'sha256:@', 'committedAt': '2026-11-21T03:00:00Z'} | false",
      "colocation.dev/other | | false"})
  void recoveringTableIsNotReadAsEmpty(String annotation, String status, boolean isRefused)
      throws JsonProcessingException {
    ColocatedTable table = ColocatedTable.parse(json(("{'metadata': {'namespace': 'shop', 'name': 'orders', 'uid': '0123456789', "
        + "'annotations': {'" + annotation + "': 'x'}}, 'spec': {}, 'status': {" + (status == null ? "" : status) + "}}")
        .replace("@", DIGEST)));
    if (isRefused) {
      Exception error = assertThrows(ColocationException.class, table::requireRecovered);
      assertTrue(error.getMessage().startsWith("table shop.orders is being brought back "));
    } else {
      table.requireRecovered();
    }
  }

  @Test
  void placingGroupOfATable() throws JsonProcessingException {
    assertEquals(new Names.GroupKey("shop", "sales"), table(", 'colocateWith': 'sales'", "").group());
    assertEquals(new Names.GroupKey("shop", "old"), table(", 'colocateWith': 'sales'", "'group': 'old'").group());
    assertEquals(new Names.GroupKey("shop", "orders-01234567"), table("", "").group());
    Names.GroupKey other = table(", 'colocateWith': 'accounts/sales'", "").group();
    assertEquals(new Names.GroupKey("accounts", "sales"), other);
    assertEquals("sales.accounts-spark-shared", other.configMapIn("shop"));
    assertEquals("sales-spark", other.configMapIn("accounts"));
    assertEquals("accounts/sales", other.referenceFrom("shop"));
  }

  @Test
  void columnsFollowTheSpecWhereFilesFit() throws JsonProcessingException {
    List<Manifest.Column> stored = List.of(new Manifest.Column("k", "bigint", true, ""), new Manifest.Column("v", "int", true, ""));
    ColocatedTable renamed = table(", 'columns': [{'name': 'k', 'type': 'LONG'}, {'name': 'w', 'type': 'int', 'storedAs': 'v'}, "
        + "{'name': 'added', 'type': 'string'}]", "");
    assertEquals(renamed.layout().columns(), renamed.shownColumns(stored));
    assertEquals(stored, table("", "").shownColumns(stored));
    ColocatedTable strict = table(", 'columns': [{'name': 'k', 'type': 'LONG'}, {'name': 'v', 'type': 'int', 'nullable': false}]", "");
    assertEquals(stored, strict.shownColumns(stored));
  }

  @Test
  void filesAreComparedWithTheGroup() throws JsonProcessingException {
    ColocationGroup group = ColocationGroup.parse(json("{'metadata': {'namespace': 'shop', 'name': 'sales'}, 'spec': "
        + "{'bucketKey': ['LONG'], 'buckets': 8, 'replicas': 2, 'allowedNamespaces': ['lake']}}"));
    List<Manifest.Column> columns = List.of(new Manifest.Column("K", "bigint", true, ""), new Manifest.Column("s", "varchar(9)", true, ""));
    TableLayout byKey = new TableLayout(columns, List.of("k"), List.of(), List.of());
    assertEquals("", group.inconsistency(byKey, Buckets.asGroup(8)));
    assertEquals("the files have 4 buckets, the group has 8", group.inconsistency(byKey, Buckets.asGroup(4)));
    assertEquals("the files are bucketed by (string), the group by (bigint)",
        group.inconsistency(new TableLayout(columns, List.of("s"), List.of(), List.of()), Buckets.asGroup(8)));
    assertEquals("", group.refusal("lake"));
    assertEquals("NamespaceNotAllowed: group shop/sales allows namespaces [lake], and this is namespace hut; add it to "
        + "allowedNamespaces of the group", group.refusal("hut"));
  }

  @Test
  void replicaStateIsReportedOnlyWhenKnown() throws JsonProcessingException {
    String group = "{'metadata': {'namespace': 'shop', 'name': 'sales'}, 'spec': {'bucketKey': ['bigint'], 'buckets': 8}, "
        + "'status': {'stable': false, 'unstableBuckets': [{'bucket': 1, 'replicas': {'a': 'missing'}}], "
        + "'unstableBucketCount': COUNT}}";
    assertEquals(Optional.of("missing"), ColocationGroup.parse(json(group.replace("COUNT", "1"))).state(1, "a"));
    assertEquals(Optional.of("complete"), ColocationGroup.parse(json(group.replace("COUNT", "1"))).state(2, "a"));
    assertEquals(Optional.empty(), ColocationGroup.parse(json(group.replace("COUNT", "30"))).state(2, "a"));
  }

  /** Executors also know the agents that were not ready. */
  @Test
  void plansHaveAllAgents() throws IOException {
    ColocationGroup group = ColocationGroup.parse(json(
        "{'metadata': {'namespace': 'shop', 'name': 'sales'}, 'spec': {'bucketKey': ['LONG'], 'buckets': 8, 'replicas': 2}}"));
    Map<String, String> ready = Map.of("node-1", "https://10.0.0.1:8440");
    Map<String, String> others = Map.of("node-2", "https://10.0.0.2:8440");
    ClusterView.PlacingGroup placing = new ClusterView.PlacingGroup(group, ready, others, "", Optional.empty());
    Configuration configuration = new Configuration(false);
    configuration.set(Settings.TABLE_PREFIX + "shop.orders", "sales");
    configuration.set(Settings.GROUP_PREFIX + "shop.sales", placing.asSetting("sales"));
    Settings.Group known = new Settings(configuration).groupOf("shop", "orders");
    assertEquals(List.of(ready, others), List.of(known.agents(), known.others()));
  }

  /** Only where it means this object, since any editor of a table can write any name there. */
  @ParameterizedTest
  @CsvSource({"order-items, order_items, order_items", "order-items, Order-Items, Order-Items", "order-items, orders, order-items",
      "order-items, '', order-items", "order-items, order_items_, order-items", "orders, ORDERS, ORDERS"})
  void sqlNameOfATable(String object, String annotation, String shown) {
    ObjectNode metadata = JSON.createObjectNode().put("name", object);
    assertEquals(object, ColocatedTable.sqlName(metadata));
    metadata.putObject("annotations").put("colocation.dev/sql-name", annotation);
    assertEquals(shown, ColocatedTable.sqlName(metadata));
  }

  @Test
  void requestsContainValidNamesOnly() {
    assertTrue(Names.isObject("line-items.v2"));
    for (String name : List.of("", "a/b", "..", "a?b", "A", "a b", "-a", "a%2f")) {
      assertFalse(Names.isObject(name), name);
    }
  }
}
