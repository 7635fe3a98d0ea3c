package dev.colocation.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.colocation.spark.fs.ManifestEncoder;
import dev.colocation.spark.fs.ManifestStore;
import org.junit.jupiter.api.Test;

class FramedParentTest {
  /** A commit goes on top of a manifest of format 2 as of any other. */
  @Test
  void readsFormat2() throws Exception {
    ObjectNode manifest = new ObjectMapper().createObjectNode().put("formatVersion", 1).put("snapshotId", 7).put("buckets", 8);
    ArrayNode files = manifest.putArray("files");
    for (int number = 0; number < ManifestEncoder.FRAMED_FROM_FILES; number++) {
      files.addObject().put("path", String.format("data/part-%d_%05d.parquet", number, number % 8)).put("bucket", number % 8)
          .put("rows", 1).put("bytes", number).put("sha256", "00").putObject("partition");
    }
    ManifestEncoder.Stored stored = ManifestEncoder.encode(manifest, 2);
    assertTrue(ManifestStore.isFramed(stored.content()));
    StoredManifest parent = StoredManifest.decode(stored.content(), stored.sha256());
    assertEquals(7, parent.snapshotId());
    assertEquals(files.size(), parent.files().size());
  }
}
