package dev.colocation.spark.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.cluster.ColocatedTable;
import dev.colocation.spark.cluster.ColocationException;
import dev.colocation.spark.cluster.KubernetesApi;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** CREATE and ALTER TABLE while others write the same table, and while answers of the API server are lost. */
final class TableWriterTest {
  private static final ObjectMapper JSON = new ObjectMapper();

  private int version = 1;
  private int replicas = 1;
  private int writesOfOthers;
  private int patches;
  private int reads;
  private int lost;
  private String request = "";
  private String uid = "0123";
  private String successor = "";
  private int failure = 500;
  private boolean isJudged = true;
  private String manifest = "";
  private String replaced = "";

  /** Before each change another client writes the table, as often as the test sets; every change is accepted. */
  private KubernetesApi.Answer answer(String what, String method, String path, JsonNode body) {
    if (Thread.currentThread().isInterrupted() && !method.equals("POST")) {
      return status(KubernetesApi.NO_ANSWER);
    }
    if (method.equals("DELETE")) {
      return deleted(body.path("preconditions").path("uid").asText());
    }
    reads += method.equals("GET") ? 1 : 0;
    if (method.equals("GET") && uid.isEmpty()) {
      return status(404);
    }
    if (method.equals("POST")) {
      boolean isThere = !request.isEmpty();
      request = isThere ? request : request(body);
      return isThere || lost-- > 0 ? new KubernetesApi.Answer(409, JSON.createObjectNode(), Optional.empty()) : table();
    }
    if (method.equals("PATCH")) {
      patches++;
      replaced = body.path("metadata").path("annotations").path(ColocatedTable.REPLACES).asText();
      if (writesOfOthers > 0) {
        writesOfOthers--;
        version++;
        replicas++;
      }
      JsonNode known = body.path("metadata").path("resourceVersion");
      if (!known.isMissingNode() && known.asInt() != version) {
        return new KubernetesApi.Answer(409, JSON.createObjectNode().put("message", "modified"), Optional.empty());
      }
      version++;
      replicas = body.path("spec").path("replicas").asInt();
      request = request(body);
      if (lost-- > 0) {
        return answer(what, method, path, body);
      }
    }
    return table();
  }

  /** Its answer may be lost or the request dropped, as the test sets; another client may create a table right after. */
  private KubernetesApi.Answer deleted(String wanted) {
    if (!wanted.equals(uid)) {
      return status(uid.isEmpty() ? 404 : 409);
    }
    if (failure == 503) {
      return status(503);
    }
    uid = successor;
    if (failure == KubernetesApi.NO_ANSWER) {
      throw new IllegalStateException("no answer");
    }
    return status(failure);
  }

  private static KubernetesApi.Answer status(int status) {
    return new KubernetesApi.Answer(status, JSON.createObjectNode().put("message", "as set"), Optional.empty());
  }

  private static String request(JsonNode body) {
    return body.path("metadata").path("annotations").path("colocation.dev/request").asText();
  }

  private KubernetesApi.Answer table() {
    ObjectNode table = JSON.createObjectNode();
    table.putObject("metadata").put("resourceVersion", String.valueOf(version)).put("generation", 1).put("uid", uid)
        .putObject("annotations").put("colocation.dev/request", request);
    table.putObject("spec").put("replicas", replicas);
    if (!manifest.isEmpty()) {
      table.putObject("status").putObject("snapshot").put("manifest", manifest);
    }
    if (isJudged) {
      table.withObject("/status").put("accepted", true).put("observedGeneration", 1);
    }
    return new KubernetesApi.Answer(200, table, Optional.empty());
  }

  private void setReplicas(String wanted) {
    new TableWriter(this::answer, 60).change("shop", "orders", object -> TableChanges.patch(
        object.path("spec"), List.of(), TableChange.setProperty("replication_num", wanted)));
  }

  @Test
  void changesAreComputedAgainAfterAConflict() {
    writesOfOthers = 2;
    setReplicas("7");
    assertEquals(7, replicas);
    assertEquals(3, patches);
  }

  /** The webhook takes columns that the files do not fit only when all rows of the named manifest are replaced. */
  @ParameterizedTest
  @CsvSource({"true, columns, sha256:1, sha256:1", "true, columns, '', ''", "true, replicas, sha256:1, ''", "false, columns, sha256:1, ''"})
  void onlyAReplacementWithOtherColumnsNamesWhatItReplaces(boolean replacesRows, String field, String committed, String named) {
    manifest = committed;
    TableWriter writer = new TableWriter(this::answer, 60);
    Function<JsonNode, ObjectNode> change = object -> JSON.createObjectNode().put(field, 3);
    if (replacesRows) {
      writer.replace("shop", "orders", change);
    } else {
      writer.change("shop", "orders", change);
    }
    assertEquals(List.of(1, named), List.of(patches, replaced));
  }

  /** The client sends a request again whose answer was lost, and gets the answer that the table exists. */
  @Test
  void lostAnswerOfCreateStillCreates() {
    lost = 1;
    assertTrue(new TableWriter(this::answer, 60).create("shop", "orders", JSON.createObjectNode(), Map.of()));
    assertFalse(new TableWriter(this::answer, 60).create("shop", "orders", JSON.createObjectNode(), Map.of()));
  }

  /** CREATE TABLE … AS, which the operator does not judge in time, or which is cancelled while it waits for that. */
  @ParameterizedTest
  @CsvSource({"false", "true"})
  void failedStatementDropsItsOwnTableOnly(boolean isCancelled) {
    isJudged = false;
    failure = 200;
    TableWriter writer = new TableWriter(this::answer, isCancelled ? 60 : 1);
    if (isCancelled) {
      Thread.currentThread().interrupt();
    }
    Exception error =
        assertThrows(ColocationException.class, () -> writer.create("shop", "orders", JSON.createObjectNode(), Map.of()));
    assertTrue(reads < 10, reads + " reads: it pauses between them");
    new TableWriter(this::answer, 60).takeBack("shop", "orders", error);
    assertEquals("0123", uid, "it is not another statement's");
    writer.takeBack("shop", "orders", error);
    assertEquals("", uid);
    assertEquals(isCancelled, Thread.interrupted(), "Spark still sees the interrupt");
  }

  @Test
  void lostAnswerOfChangeIsNotAppliedTwice() {
    lost = 1;
    new TableWriter(this::answer, 60).change("shop", "orders", object -> {
      int before = object.path("spec").path("replicas").asInt();
      return JSON.createObjectNode().put("replicas", before + 1);
    });
    assertEquals(2, replicas);
  }

  /** The request is carried out, but its answer does not show it. */
  @ParameterizedTest
  @CsvSource({"500,", "0,", "500,4567", "0,4567", "200,"})
  void droppedTableIsGoneAfterAnyAnswer(int answer, String another) {
    failure = answer;
    successor = another == null ? "" : another;
    new TableWriter(this::answer, 60).delete("shop", "orders", "0123");
    assertEquals(successor, uid);
    new TableWriter(this::answer, 60).delete("shop", "orders", "0123");
    assertEquals(successor, uid, "another table of the name stays");
  }

  @Test
  void presentTableMeansFailedDrop() {
    failure = 503;
    Exception error = assertThrows(
        ColocationException.class, () -> new TableWriter(this::answer, 60).delete("shop", "orders", "0123"));
    assertTrue(error.getMessage().endsWith("the API server answered 503: as set"), error.getMessage());
  }

  private static TableWriter.Changed changed(String before, String after) {
    ObjectNode patch = JSON.createObjectNode().put("comment", "new");
    patch.putArray("columns").add("new");
    patch.putArray("sortedBy").add("k");
    patch.put("replicas", 2);
    return new TableWriter.Changed(object(before, 1), object(after, 1), patch);
  }

  private static JsonNode object(String spec, long snapshot) {
    ObjectNode object = JSON.createObjectNode();
    try {
      object.set("spec", JSON.readTree(spec.replace('\'', '"')));
    } catch (java.io.IOException error) {
      throw new IllegalArgumentException(error);
    }
    object.putObject("status").putObject("snapshot").put("id", snapshot);
    return object;
  }

  /** Not what somebody else has changed since, nor how files are once others have committed such files. */
  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "{'columns': ['new'], 'sortedBy': ['k'], 'comment': 'new', 'replicas': 2} | 1 | "
          + "{'comment':null,'columns':['old'],'sortedBy':null,'replicas':1}",
      "{'columns': ['theirs'], 'comment': 'new', 'replicas': 3} | 1 | {'comment':null}",
      "{'columns': ['new'], 'sortedBy': ['k'], 'comment': 'new', 'replicas': 2} | 2 | {'comment':null,'replicas':1}",
      "{'columns': ['old'], 'replicas': 1} | 1 | {}"})
  void changeIsUndoneUnlessOthersRelyOnIt(String now, long snapshot, String undo) {
    TableWriter.Changed changed = changed(
        "{'columns': ['old'], 'replicas': 1}", "{'columns': ['new'], 'sortedBy': ['k'], 'comment': 'new', 'replicas': 2}");
    assertEquals(undo.replace('\'', '"'), TableChanges.undo(changed, object(now, snapshot)).toString());
  }

  @ParameterizedTest
  @CsvSource({"0, 1", "1, 8"})
  void othersChangesSurviveAnUndo(int ofOthers, int expected) {
    TableWriter writer = new TableWriter(this::answer, 60);
    TableWriter.Changed changed = writer.replace("shop", "orders", object -> JSON.createObjectNode().put("replicas", 7));
    writesOfOthers = ofOthers;
    writer.undo("shop", "orders", changed);
    assertEquals(expected, replicas);
  }

  @Test
  void aTableThatWasDroppedMeanwhileIsNotChanged() {
    uid = "";
    Exception error = assertThrows(ColocationException.class, () -> setReplicas("7"));
    assertEquals("ColocatedTable shop/orders was dropped by someone else", error.getMessage());
  }

  @Test
  void endlessConflictsFail() {
    writesOfOthers = Integer.MAX_VALUE;
    long started = System.nanoTime();
    Exception error = assertThrows(ColocationException.class, () -> setReplicas("7000"));
    assertTrue(error.getMessage().endsWith("the API server answered 409: modified"), error.getMessage());
    assertEquals(10, patches);
    assertTrue(System.nanoTime() - started > 1_500_000_000L, "each pause is longer than the one before");
  }
}
