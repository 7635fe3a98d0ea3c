package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.codegen.Block;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.SubExprCodes;
import org.apache.spark.sql.execution.CodegenSupport;
import org.apache.spark.sql.execution.aggregate.SortAggregateExec;
import org.apache.spark.sql.types.DataType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The generated code of a {@link SortedAggregateExec}. Whether a group is under way, its keys and its buffers are fields
 * of the generated class. A row of another key gives out the group before it, the end of the rows the last one.
 */
final class SortedAggregateCode extends GroupCode {
  private final SortedAggregateExec operator;
  private final SortAggregateExec plain;
  private final String begun;
  private final List<ExprCode> groupKeys;

  /** Of each function; their code sets them to the values of an empty group. */
  private final List<List<ExprCode>> buffers;

  private final String empty;
  private final String giveOut;

  /** Adds fields and functions to the generated class. */
  SortedAggregateCode(SortedAggregateExec operator, CodegenContext context) {
    super(context);
    this.operator = operator;
    this.plain = operator.plain();
    begun = field(CodeGenerator.JAVA_BOOLEAN(), "groupBegun");
    groupKeys = each(plain.groupingExpressions(), key -> value(type(key), "groupKey"));
    buffers = each(plain.aggregateExpressions(), function ->
        each(function(function).initialValues(), this::buffer));
    // First, because code that refers to a variable afterwards would take over the code that it still has.
    empty = function("emptyBuffers", operator.evaluateVariables(sequence(flat(buffers))));
    giveOut = giveOutFunction();
  }

  /** Reads all rows, then gives out the last group, when the row that the end of the rows below may have given out was taken. */
  @Override
  String produce() {
    return code("""
        %s
        if (shouldStop()) return;
        if (%s) {
          %s = false;
          %s();
        }
        """, ((CodegenSupport) plain.child()).produce(context, operator), begun, begun, giveOut);
  }

  @Override
  String consume(Seq<ExprCode> input) {
    context.INPUT_ROW_$eq(null);
    context.currentVars_$eq(input);
    RowKeys keys = keys(operator, plain.groupingExpressions(), plain.child().output(), groupKeys);
    return code("""
        %s
        if (!(%s && %s)) {
          if (%s) {
            %s();
          }
          %s = true;
          %s
          %s();
        }
        %s
        """, keys.evaluated(), begun, keys.same(), begun, giveOut, begun, keys.remembered(), empty, update(input));
  }

  /** A function of the generated class that gives the group's result to the operator above. */
  private String giveOutFunction() {
    context.currentVars_$eq(sequence(flat(buffers)));
    List<Expression> evaluations =
        each(plain.aggregateExpressions(), expression -> function(expression).evaluateExpression());
    List<Attribute> buffered = each(plain.aggregateBufferAttributes(), Attribute.class::cast);
    List<ExprCode> values =
        each(bound(sequence(evaluations), sequence(buffered)), evaluation -> evaluation.genCode(context));
    String evaluate = operator.evaluateVariables(sequence(values));

    List<ExprCode> known = new ArrayList<>(groupKeys);
    known.addAll(values);
    List<Attribute> attributes = new ArrayList<>(each(plain.groupingExpressions(), NamedExpression::toAttribute));
    attributes.addAll(CollectionConverters.asJava(plain.aggregateAttributes()));
    context.currentVars_$eq(sequence(known));
    Seq<ExprCode> results =
        sequence(each(bound(plain.resultExpressions(), sequence(attributes)), result -> result.genCode(context)));
    return function("giveOutGroup", String.join("\n",
        operator.metricTerm(context, "numOutputRows") + ".add(1);",
        evaluate,
        operator.evaluateNondeterministicVariables(operator.output(), results, plain.resultExpressions()),
        operator.consume(context, results, null)));
  }

  /** Takes a row into the group's buffers. */
  private String update(Seq<ExprCode> input) {
    List<ExprCode> known = flat(buffers);
    known.addAll(CollectionConverters.asJava(input));
    List<Attribute> attributes = new ArrayList<>(CollectionConverters.asJava(plain.aggregateBufferAttributes()));
    attributes.addAll(CollectionConverters.asJava(plain.child().output()));
    context.currentVars_$eq(sequence(known));

    List<Seq<Expression>> updates = each(plain.aggregateExpressions(), expression ->
        bound(function(expression).updateExpressions(), sequence(attributes)));
    SubExprCodes common = context.subexpressionEliminationForWholeStageCodegen(
        sequence(updates.stream().flatMap(update -> CollectionConverters.asJava(update).stream()).toList()));
    String evaluateCommon = context.evaluateSubExprEliminationState(common.states().values());
    List<Block> blocks = new ArrayList<>();
    for (int index = 0; index < updates.size(); index++) {
      Seq<Expression> update = updates.get(index);
      Seq<ExprCode> values = context.withSubExprEliminationExprs(
          common.states(), () -> sequence(each(update, expression -> expression.genCode(context))));
      blocks.add(block(operator.evaluateVariables(values) + "\n" + assignments(buffers.get(index), values)));
    }
    return evaluateCommon + "\n" + plain.generateEvalCodeForAggFuncs(
        context, input, sequence(attributes), sequence(updates),
        sequence(each(plain.aggregateExpressions(), expression -> expression.aggregateFunction().prettyName())),
        sequence(blocks), common);
  }

  private ExprCode buffer(Expression initial) {
    ExprCode value = initial.genCode(context);
    ExprCode field = value(initial.dataType(), "groupBuffer");
    Block code = block(value.code().toString() + "\n" + assignment(field, value));
    return new ExprCode(code, field.isNull(), field.value());
  }

  private static DataType type(NamedExpression column) {
    return ((Expression) column).dataType();
  }

  private static DeclarativeAggregate function(AggregateExpression expression) {
    return (DeclarativeAggregate) expression.aggregateFunction();
  }
}
