package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.execution.CodegenSupport;
import org.apache.spark.sql.execution.window.WindowExec;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The generated code of a {@link SortedWindowExec}. The first row of a partition empties the buffers; each row is taken into them,
 * and goes on with their results.
 */
final class SortedWindowCode extends GroupCode {
  private final SortedWindowExec operator;
  private final WindowExec plain;
  private final List<DeclarativeAggregate> functions;
  private final String begun;
  private final List<ExprCode> partitionKeys;
  private final List<List<ExprCode>> buffers;

  /** Adds fields to the generated class. */
  SortedWindowCode(SortedWindowExec operator, List<DeclarativeAggregate> functions, CodegenContext context) {
    super(context);
    this.operator = operator;
    this.plain = operator.plain();
    this.functions = functions;
    begun = field(CodeGenerator.JAVA_BOOLEAN(), "partitionBegun");
    partitionKeys = each(plain.partitionSpec(), key -> value(key.dataType(), "partitionKey"));
    buffers = functions.stream()
        .map(function -> each(function.initialValues(), initial -> value(initial.dataType(), "windowBuffer"))).toList();
  }

  @Override
  String produce() {
    return ((CodegenSupport) plain.child()).produce(context, operator);
  }

  /** Takes one row, and gives it out with the functions' values. */
  @Override
  String consume(Seq<ExprCode> input) {
    context.INPUT_ROW_$eq(null);
    context.currentVars_$eq(input);
    RowKeys keys = keys(operator, plain.partitionSpec(), plain.child().output(), partitionKeys);
    return code("""
        %s
        if (!(%s && %s)) {
          %s = true;
          %s
          %s
        }
        %s
        """, keys.evaluated(), begun, keys.same(), begun, keys.remembered(), emptied(), taken(input));
  }

  private String emptied() {
    context.currentVars_$eq(null);
    StringBuilder emptied = new StringBuilder();
    for (int function = 0; function < functions.size(); function++) {
      Seq<ExprCode> values = sequence(each(functions.get(function).initialValues(), initial -> initial.genCode(context)));
      emptied.append(operator.evaluateVariables(values)).append("\n").append(assignments(buffers.get(function), values));
    }
    return emptied.toString();
  }

  private String taken(Seq<ExprCode> input) {
    List<ExprCode> known = flat(buffers);
    known.addAll(CollectionConverters.asJava(input));
    List<Attribute> columns = new ArrayList<>();
    functions.forEach(function -> columns.addAll(CollectionConverters.asJava(function.aggBufferAttributes())));
    columns.addAll(CollectionConverters.asJava(plain.child().output()));
    context.currentVars_$eq(sequence(known));
    StringBuilder taken = new StringBuilder();
    for (int function = 0; function < functions.size(); function++) {
      Seq<ExprCode> values = sequence(
          each(bound(functions.get(function).updateExpressions(), sequence(columns)), update -> update.genCode(context)));
      taken.append(operator.evaluateVariables(values)).append("\n").append(assignments(buffers.get(function), values));
    }
    List<Expression> evaluations = functions.stream().map(DeclarativeAggregate::evaluateExpression).toList();
    List<ExprCode> results = each(bound(sequence(evaluations), sequence(columns)), result -> result.genCode(context));
    List<ExprCode> output = new ArrayList<>(CollectionConverters.asJava(input));
    output.addAll(results);
    return taken.append(operator.evaluateVariables(sequence(results))).append("\n")
        .append(operator.consume(context, sequence(output), null)).toString();
  }
}
