package dev.colocation.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.BindReferences;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.package$;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.codegen.Block;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.Inline;
import org.apache.spark.sql.catalyst.expressions.codegen.JavaCode$;
import org.apache.spark.sql.catalyst.expressions.codegen.SubExprCodes;
import org.apache.spark.sql.catalyst.plans.physical.Distribution;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.CodegenSupport;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.SortAggregateExec;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StringType;
import scala.Option;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's sort-based aggregate, all in one phase, as part of the generated code of its stage; before 4.3, Spark has that
 * only without grouping keys. The keys and the buffers of one group are fields of the generated class. A row of another
 * key gives out the group before it, the end of the rows the last one.
 *
 * <p>Functions that have no generated code, or whose buffers are not of fixed size (collect_list, max of a string), run
 * in Spark's own iterator over sorted rows.
 */
public final class SortedAggregateExec extends SparkPlan implements CodegenSupport {
  private static final long serialVersionUID = 1L;

  private final SortAggregateExec plain;
  private transient CodegenSupport parent;

  /** While code is generated: whether a group is under way, its keys and, for each function, its buffers. */
  private transient String begun;

  private transient List<ExprCode> groupKeys;
  private transient List<List<ExprCode>> buffers;
  private transient String giveOut;
  private transient String empty;

  /**
   * Makes the operator, of what {@link SortAggregateExec} is made of, as Spark's transformations do.
   *
   * @param grouping plain columns of the child, in the order by which its rows are sorted
   * @param functions all in Complete mode
   */
  public SortedAggregateExec(
      Option<Seq<Expression>> distribution, boolean streaming, Option<Object> shufflePartitions,
      Seq<NamedExpression> grouping, Seq<AggregateExpression> functions, Seq<Attribute> results, int bufferOffset,
      Seq<NamedExpression> output, SparkPlan child) {
    plain = new SortAggregateExec(
        distribution, streaming, shufflePartitions, grouping, functions, results, bufferOffset, output, child);
  }

  private SortedAggregateExec(SortAggregateExec plain) {
    this.plain = plain;
  }

  /** The same in Spark's own operator, without generated code. */
  public SortAggregateExec plain() {
    return plain;
  }

  @Override
  public Seq<SparkPlan> children() {
    return plain.children();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return new SortedAggregateExec((SortAggregateExec) plain.withNewChildren(newChildren));
  }

  @Override
  public Seq<Attribute> output() {
    return plain.output();
  }

  @Override
  public AttributeSet producedAttributes() {
    return plain.producedAttributes();
  }

  @Override
  public Seq<Distribution> requiredChildDistribution() {
    return plain.requiredChildDistribution();
  }

  @Override
  public Seq<Seq<SortOrder>> requiredChildOrdering() {
    return plain.requiredChildOrdering();
  }

  @Override
  public Partitioning outputPartitioning() {
    return plain.outputPartitioning();
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return plain.outputOrdering();
  }

  @Override
  public Map<String, SQLMetric> metrics() {
    return plain.metrics();
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return plain.execute();
  }

  @Override
  public String simpleString(int maxFields) {
    return named(plain.simpleString(maxFields));
  }

  @Override
  public String verboseString(int maxFields) {
    return named(plain.verboseString(maxFields));
  }

  private String named(String description) {
    return description.replaceFirst("^" + plain.nodeName(), nodeName());
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof SortedAggregateExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof SortedAggregateExec that && plain.equals(that.plain);
  }

  @Override
  public int hashCode() {
    return plain.hashCode();
  }

  @Override
  public int productArity() {
    return plain.productArity();
  }

  @Override
  public Object productElement(int index) {
    return plain.productElement(index);
  }

  @Override
  public CodegenSupport parent() {
    return parent;
  }

  @Override
  public void parent_$eq(CodegenSupport operator) {
    parent = operator;
  }

  @Override
  public Seq<RDD<InternalRow>> inputRDDs() {
    return child().inputRDDs();
  }

  private CodegenSupport child() {
    return (CodegenSupport) plain.child();
  }

  @Override
  public boolean supportCodegen() {
    return CollectionConverters.asJava(plain.aggregateBufferAttributes()).stream()
            .allMatch(buffer -> isOfFixedSize(buffer.dataType()))
        && CollectionConverters.asJava(plain.aggregateExpressions()).stream()
            .allMatch(expression -> expression.aggregateFunction() instanceof DeclarativeAggregate);
  }

  /** Others may be views of memory that the next rows overwrite. */
  private static boolean isOfFixedSize(DataType type) {
    return CodeGenerator.isPrimitiveType(type) || type instanceof DecimalType;
  }

  /** All columns, evaluated before a row comes here. */
  @Override
  public AttributeSet usedInputs() {
    return inputSet();
  }

  @Override
  public String doProduce(CodegenContext context) {
    context.INPUT_ROW_$eq(null);
    context.currentVars_$eq(null);
    begun = field(context, CodeGenerator.JAVA_BOOLEAN(), "groupBegun");
    groupKeys = each(plain.groupingExpressions(), key -> value(context, type(key), "groupKey", ""));
    buffers = each(plain.aggregateExpressions(), function ->
        each(function(function).initialValues(), initial -> buffer(context, initial)));
    // First, because whoever refers to a variable afterwards would take over the code that it still has.
    empty = function(context, "emptyBuffers", evaluateVariables(sequence(flat(buffers))));
    giveOut = giveOutFunction(context);
    return """
        %s
        if (%s) {
          %s = false;
          %s();
        }
        """.formatted(child().produce(context, this), begun, begun, giveOut);
  }

  @Override
  public String doConsume(CodegenContext context, Seq<ExprCode> input, ExprCode row) {
    context.INPUT_ROW_$eq(null);
    context.currentVars_$eq(input);
    List<ExprCode> keys = each(bound(plain.groupingExpressions(), plain.child().output()), key -> key.genCode(context));
    StringBuilder same = new StringBuilder(begun);
    StringBuilder remember = new StringBuilder();
    for (int index = 0; index < keys.size(); index++) {
      DataType type = type(plain.groupingExpressions().apply(index));
      same.append(" && ").append(isSame(context, type, keys.get(index), groupKeys.get(index)));
      remember.append(remembering(type, keys.get(index), groupKeys.get(index)));
    }
    return """
        %s
        if (!(%s)) {
          if (%s) {
            %s();
          }
          %s = true;
          %s
          %s();
        }
        %s
        """.formatted(evaluateVariables(sequence(keys)), same, begun, giveOut, begun, remember, empty,
            update(context, input));
  }

  /** A function of the generated class that gives the group's result to the operator above. */
  private String giveOutFunction(CodegenContext context) {
    context.currentVars_$eq(sequence(flat(buffers)));
    List<Expression> evaluations =
        each(plain.aggregateExpressions(), expression -> function(expression).evaluateExpression());
    List<Attribute> buffered = each(plain.aggregateBufferAttributes(), Attribute.class::cast);
    List<ExprCode> values =
        each(bound(sequence(evaluations), sequence(buffered)), evaluation -> evaluation.genCode(context));
    String evaluate = evaluateVariables(sequence(values));

    List<ExprCode> known = new ArrayList<>(groupKeys);
    known.addAll(values);
    List<Attribute> attributes = new ArrayList<>(each(plain.groupingExpressions(), NamedExpression::toAttribute));
    attributes.addAll(CollectionConverters.asJava(plain.aggregateAttributes()));
    context.currentVars_$eq(sequence(known));
    Seq<ExprCode> results =
        sequence(each(bound(plain.resultExpressions(), sequence(attributes)), result -> result.genCode(context)));
    return function(context, "giveOutGroup", String.join("\n",
        metricTerm(context, "numOutputRows") + ".add(1);",
        evaluate,
        evaluateNondeterministicVariables(output(), results, plain.resultExpressions()),
        consume(context, results, null)));
  }

  /** Takes a row into the group's buffers. */
  private String update(CodegenContext context, Seq<ExprCode> input) {
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
      blocks.add(block(evaluateVariables(values) + "\n" + assignments(buffers.get(index), values)));
    }
    return evaluateCommon + "\n" + plain.generateEvalCodeForAggFuncs(
        context, input, sequence(attributes), sequence(updates),
        sequence(each(plain.aggregateExpressions(), expression -> expression.aggregateFunction().prettyName())),
        sequence(blocks), common);
  }

  /** All of a function's buffers change together, after all new values are known. */
  private static String assignments(List<ExprCode> buffers, Seq<ExprCode> values) {
    StringBuilder code = new StringBuilder();
    for (int index = 0; index < buffers.size(); index++) {
      code.append(assignment(buffers.get(index), values.apply(index)));
    }
    return code.toString();
  }

  private static String assignment(ExprCode target, ExprCode source) {
    return "%s = %s;\n%s = %s;\n".formatted(target.isNull(), source.isNull(), target.value(), source.value());
  }

  private static String isSame(CodegenContext context, DataType type, ExprCode key, ExprCode group) {
    String equal = context.genEqual(type, key.value().toString(), group.value().toString());
    return "%s == %s && (%s || %s)".formatted(key.isNull(), group.isNull(), key.isNull(), equal);
  }

  /** A string may be a view of memory that the next rows overwrite. */
  private static String remembering(DataType type, ExprCode key, ExprCode group) {
    return !(type instanceof StringType) ? assignment(group, key)
        : "%s = %s;\n%s = %s ? null : %s.clone();\n".formatted(
            group.isNull(), key.isNull(), group.value(), key.isNull(), key.value());
  }

  private ExprCode buffer(CodegenContext context, Expression initial) {
    ExprCode value = initial.genCode(context);
    ExprCode field = value(context, initial.dataType(), "groupBuffer", "");
    return new ExprCode(block(value.code().toString() + "\n" + assignment(field, value)), field.isNull(), field.value());
  }

  private static ExprCode value(CodegenContext context, DataType type, String name, String code) {
    String isNull = field(context, CodeGenerator.JAVA_BOOLEAN(), name + "IsNull");
    String value = field(context, CodeGenerator.javaType(type), name);
    return new ExprCode(block(code), JavaCode$.MODULE$.isNullGlobal(isNull), JavaCode$.MODULE$.global(value, type));
  }

  private static String field(CodegenContext context, String type, String name) {
    return context.addMutableState(type, name, context.addMutableState$default$3(), false, true);
  }

  private static String function(CodegenContext context, String name, String body) {
    String fresh = context.freshName(name);
    String code = "private void %s() throws java.io.IOException {\n%s\n}\n".formatted(fresh, body);
    return context.addNewFunction(fresh, code, false);
  }

  private static Block block(String code) {
    return new CodeBlock(sequence(List.of("", "")), sequence(List.of(new Inline(code))));
  }

  private static DataType type(NamedExpression column) {
    return ((Expression) column).dataType();
  }

  private static DeclarativeAggregate function(AggregateExpression expression) {
    return (DeclarativeAggregate) expression.aggregateFunction();
  }

  private static Seq<Expression> bound(Seq<?> expressions, Seq<Attribute> input) {
    return sequence(each(expressions, expression -> BindReferences.bindReference(
        (Expression) expression, package$.MODULE$.AttributeSeq(input), false)));
  }

  private static <T, R> List<R> each(Seq<T> sequence, Function<? super T, ? extends R> mapping) {
    return CollectionConverters.asJava(sequence).stream().map(mapping).collect(Collectors.toCollection(ArrayList::new));
  }

  private static <T> List<T> flat(List<List<T>> lists) {
    return lists.stream().flatMap(List::stream).collect(Collectors.toCollection(ArrayList::new));
  }

  private static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
