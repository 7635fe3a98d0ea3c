package dev.colocation.spark.explain;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import scala.Option;

/**
 * What the catalog decided of a table, as it notes it in plans.
 *
 * @param group {@code <namespace>/<name>}; empty = none
 * @param bucketed whether Spark reads it by its buckets
 * @param reason why not; of a bucketed table what qualifies that. Empty = none
 */
public record KnownTable(String name, String group, boolean bucketed, String reason, List<String> bucketedBy) {
  /** Option of the relation, whose value is {@link #asOption}. */
  public static final String OPTION = "colocation.table";

  private static final ObjectMapper JSON = new ObjectMapper();

  public KnownTable {
    bucketedBy = List.copyOf(bucketedBy);
  }

  /** Of a relation; empty for those of other catalogs. */
  public static Optional<KnownTable> of(HadoopFsRelation relation) {
    Option<String> noted = relation.options().get(OPTION);
    return noted.isEmpty() ? Optional.empty() : Optional.of(parse(noted.get()));
  }

  private static KnownTable parse(String noted) {
    try {
      return JSON.readValue(noted, KnownTable.class);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException("the catalog notes its tables as JSON: " + noted, error);
    }
  }

  public String asOption() {
    return JSON.valueToTree(this).toString();
  }

  /** The table and its group, for reasons. */
  public String place() {
    return name + " is in " + (group.isEmpty() ? "no group" : group);
  }
}
