package dev.colocation.spark.plan;

import dev.colocation.spark.plan.WindowValue.Aggregated;
import dev.colocation.spark.plan.WindowValue.Known;
import dev.colocation.spark.plan.WindowValue.Neighbour;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.JavaCode$;
import org.apache.spark.sql.execution.CodegenSupport;
import org.apache.spark.sql.execution.window.WindowExec;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The generated code of a {@link SortedWindowExec}. The first row of a partition empties the buffers; each row is taken into them,
 * and goes on with their results.
 */
class SortedWindowCode extends GroupCode {
  final SortedWindowExec operator;
  final WindowExec plain;
  final List<WindowValue> values;
  final String begun;
  final List<ExprCode> partitionKeys;

  private final List<DeclarativeAggregate> functions;
  private final List<List<ExprCode>> buffers;
  private final List<RowsBefore> rowsBefore;

  /** Adds fields to the generated class. */
  SortedWindowCode(SortedWindowExec operator, List<WindowValue> values, CodegenContext context) {
    super(context);
    this.operator = operator;
    this.plain = operator.plain();
    this.values = values;
    begun = field(CodeGenerator.JAVA_BOOLEAN(), "partitionBegun");
    partitionKeys = each(plain.partitionSpec(), key -> value(key.dataType(), "partitionKey"));
    functions = values.stream().filter(Aggregated.class::isInstance).map(value -> ((Aggregated) value).function()).toList();
    buffers = functions.stream()
        .map(function -> each(function.initialValues(), initial -> value(initial.dataType(), "windowBuffer"))).toList();
    rowsBefore = values.stream().map(value -> value instanceof Neighbour neighbour && value.known() == Known.AT_ROW
        ? new RowsBefore(neighbour) : null).toList();
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
    String begin = code("if (!(%s && %s)) {\n%s}\n", begun, keys.same(), begin(keys));
    List<ExprCode> output = new ArrayList<>(CollectionConverters.asJava(input));
    String taken = taken(input);
    output.addAll(atRow(input));
    return keys.evaluated() + begin + taken + evaluated(output.subList(input.size(), output.size()))
        + operator.consume(context, sequence(output), null);
  }

  /** Begins a partition. */
  final String begin(RowKeys keys) {
    StringBuilder emptied = new StringBuilder(code("%s = true;\n%s\n%s", begun, keys.remembered(), emptied()));
    rowsBefore.stream().filter(before -> before != null).forEach(before -> emptied.append(before.count).append(" = 0;\n"));
    return emptied.toString();
  }

  private String emptied() {
    context.currentVars_$eq(null);
    StringBuilder emptied = new StringBuilder();
    for (int function = 0; function < functions.size(); function++) {
      Seq<ExprCode> initial = sequence(each(functions.get(function).initialValues(), value -> value.genCode(context)));
      emptied.append(operator.evaluateVariables(initial)).append("\n").append(assignments(buffers.get(function), initial));
    }
    return emptied.toString();
  }

  /** Takes a row into the buffers. */
  final String taken(Seq<ExprCode> input) {
    knowing(input);
    StringBuilder taken = new StringBuilder();
    for (int function = 0; function < functions.size(); function++) {
      Seq<ExprCode> updated = sequence(
          each(bound(functions.get(function).updateExpressions(), columns()), update -> update.genCode(context)));
      taken.append(operator.evaluateVariables(updated)).append("\n").append(assignments(buffers.get(function), updated));
    }
    return taken.toString();
  }

  /** The values that are known with a row, after it was taken, in the order of all values. */
  final List<ExprCode> atRow(Seq<ExprCode> input) {
    knowing(input);
    List<ExprCode> found = new ArrayList<>();
    for (int place = 0; place < values.size(); place++) {
      WindowValue value = values.get(place);
      if (value.known() == Known.AT_ROW) {
        found.add(value instanceof Aggregated one ? result(one) : rowsBefore.get(place).taken());
      }
    }
    return found;
  }

  /** What an aggregate's buffers make. */
  final ExprCode result(Aggregated aggregated) {
    return each(bound(sequence(List.of(aggregated.function().evaluateExpression())), columns()), result -> result.genCode(context)).get(0);
  }

  /** Of the rows that come from below. */
  final ExprCode ofInput(Expression expression) {
    return each(bound(sequence(List.of(expression)), columns()), column -> column.genCode(context)).get(0);
  }

  final String evaluated(List<ExprCode> codes) {
    return operator.evaluateVariables(sequence(codes)) + "\n";
  }

  /** Makes expressions refer to the buffers and to a row's columns; to the buffers alone without one. */
  final void knowing(Seq<ExprCode> input) {
    List<ExprCode> known = flat(buffers);
    known.addAll(CollectionConverters.asJava(input));
    context.INPUT_ROW_$eq(null);
    context.currentVars_$eq(sequence(known));
  }

  private Seq<Attribute> columns() {
    List<Attribute> columns = new ArrayList<>();
    functions.forEach(function -> columns.addAll(CollectionConverters.asJava(function.aggBufferAttributes())));
    columns.addAll(CollectionConverters.asJava(plain.child().output()));
    return sequence(columns);
  }

  /** A column of the last rows of a partition, in a ring. */
  private final class RowsBefore {
    final String count;
    private final Neighbour neighbour;
    private final DataType type;
    private final String next;
    private final String nulls;
    private final String ring;

    RowsBefore(Neighbour neighbour) {
      this.neighbour = neighbour;
      type = neighbour.input().dataType();
      count = field(CodeGenerator.JAVA_INT(), "rowsBefore");
      next = field(CodeGenerator.JAVA_INT(), "nextBefore");
      nulls = array(CodeGenerator.JAVA_BOOLEAN(), "nullsBefore");
      ring = array(CodeGenerator.javaType(type), "valuesBefore");
    }

    private String array(String of, String name) {
      return context.addMutableState(
          of + "[]", name, array -> code("%s = new %s[%d];", array, of, neighbour.rows()), true, true);
    }

    /** The value for a row, whose column is kept then. A string may be a view of memory that the next rows overwrite. */
    ExprCode taken() {
      ExprCode input = ofInput(neighbour.input());
      ExprCode otherwise = ofInput(neighbour.otherwise());
      String isNull = context.freshName("isNullBefore");
      String value = context.freshName("valueBefore");
      String kept = type instanceof StringType ? code("%s ? null : %s.clone()", input.isNull(), input.value()) : input.value().toString();
      String taken = code("""
          %1$s
          boolean %2$s;
          %3$s %4$s;
          if (%5$s == %6$d) {
            %2$s = %7$s[%8$s];
            %4$s = %9$s[%8$s];
          } else {
            %5$s++;
            %10$s
            %2$s = %11$s;
            %4$s = %12$s;
          }
          %7$s[%8$s] = %13$s;
          %9$s[%8$s] = %14$s;
          %8$s = %8$s + 1 == %6$d ? 0 : %8$s + 1;
          """, input.code(), isNull, CodeGenerator.javaType(type), value, count, neighbour.rows(), nulls, next, ring,
          otherwise.code(), otherwise.isNull(), otherwise.value(), input.isNull(), kept);
      return new ExprCode(block(taken), JavaCode$.MODULE$.isNullVariable(isNull), JavaCode$.MODULE$.variable(value, type));
    }
  }
}
