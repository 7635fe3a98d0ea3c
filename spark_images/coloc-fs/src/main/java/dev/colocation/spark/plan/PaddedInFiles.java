package dev.colocation.spark.plan;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.colocation.spark.fs.ColocPath;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark pads the values of CHAR columns in every query, which hides that rows are bucketed by them. Where the table's manifest
 * records that files hold padded values, there is nothing to pad.
 */
public final class PaddedInFiles extends Rule<LogicalPlan> {
  /** Option of a relation: lengths of its CHAR columns whose values are padded, by names in files, as JSON. */
  public static final String OPTION = "colocation.padded";

  private static final String FUNCTION = "readSidePadding";
  private static final ObjectMapper JSON = new ObjectMapper();

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return UnknownSpark.orAsPlanned(plan, PaddedInFiles::withoutPadding);
  }

  private static LogicalPlan withoutPadding(LogicalPlan plan) {
    Map<ExprId, Integer> lengths = new HashMap<>();
    CollectionConverters.asJava(plan.collectLeaves()).forEach(leaf -> addLengths(leaf, lengths));
    return lengths.isEmpty() ? plan : plan.transformAllExpressions(
        Replacing.each(StaticInvoke.class, call -> withoutPadding(call, lengths)));
  }

  private static void addLengths(LogicalPlan leaf, Map<ExprId, Integer> lengths) {
    if (leaf instanceof LogicalRelation logical && logical.relation() instanceof HadoopFsRelation relation
        && ColocPath.isRootOf(relation)) {
      Option<String> option = relation.options().get(OPTION);
      JsonNode padded = read(option.isEmpty() ? "{}" : option.get());
      for (Attribute column : CollectionConverters.asJava(logical.output())) {
        if (padded.has(column.name())) {
          lengths.put(column.exprId(), padded.path(column.name()).asInt());
        }
      }
    }
  }

  private static JsonNode read(String option) {
    try {
      return JSON.readTree(option);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException("the catalog writes JSON: " + option, error);
    }
  }

  private static Expression withoutPadding(StaticInvoke call, Map<ExprId, Integer> lengths) {
    List<Expression> arguments = CollectionConverters.asJava(call.arguments());
    boolean isPadding = call.functionName().equals(FUNCTION) && arguments.size() == 2
        && arguments.get(0) instanceof Attribute column && lengths.containsKey(column.exprId())
        && arguments.get(1) instanceof Literal length && lengths.get(column.exprId()).equals(length.value());
    return isPadding ? arguments.get(0) : call;
  }
}
