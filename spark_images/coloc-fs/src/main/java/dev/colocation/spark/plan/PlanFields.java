package dev.colocation.spark.plan;

import org.apache.spark.sql.execution.SparkPlan;

/** Operators of Spark by the names of their fields, since versions add fields, so that constructors differ. */
final class PlanFields {
  private PlanFields() {}

  /** A copy of the operator with another value in a field. */
  static SparkPlan with(SparkPlan node, String field, Object value) {
    Object[] values = new Object[node.productArity()];
    for (int place = 0; place < values.length; place++) {
      values[place] = node.productElementName(place).equals(field) ? value : node.productElement(place);
    }
    return node.makeCopy(values);
  }
}
