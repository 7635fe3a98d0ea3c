package dev.colocation.spark.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BindReferences;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.Block;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.Inline;
import org.apache.spark.sql.catalyst.expressions.codegen.JavaCode$;
import org.apache.spark.sql.catalyst.expressions.package$;
import org.apache.spark.sql.execution.CodegenSupport;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StringType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** What generated code of operators has in common whose rows come group by group: keys and buffers are fields of the generated class. */
abstract class GroupCode {
  final CodegenContext context;

  GroupCode(CodegenContext context) {
    this.context = context;
    context.INPUT_ROW_$eq(null);
    context.currentVars_$eq(null);
  }

  /** Reads all rows. */
  abstract String produce();

  /** Takes one row. */
  abstract String consume(Seq<ExprCode> input);

  /**
   * Code about a row's keys.
   *
   * @param evaluated computes them
   * @param same whether they are those of the group
   * @param remembered makes them those of the group
   */
  record RowKeys(String evaluated, String same, String remembered) {}

  /**
   * A row's keys, compared with the group's.
   *
   * @param grouping columns of the rows
   * @param group fields that have the keys of the group
   */
  RowKeys keys(CodegenSupport operator, Seq<?> grouping, Seq<Attribute> columns, List<ExprCode> group) {
    List<ExprCode> keys = each(bound(grouping, columns), key -> key.genCode(context));
    List<String> same = new ArrayList<>();
    StringBuilder remembered = new StringBuilder();
    for (int index = 0; index < keys.size(); index++) {
      DataType type = ((Expression) grouping.apply(index)).dataType();
      same.add(isSame(type, keys.get(index), group.get(index)));
      remembered.append(remembering(type, keys.get(index), group.get(index)));
    }
    return new RowKeys(operator.evaluateVariables(sequence(keys)), String.join(" && ", same), remembered.toString());
  }

  /** Whether a buffer of this type can be a field: others may be views of memory that the next rows overwrite. */
  static boolean isOfFixedSize(DataType type) {
    return CodeGenerator.isPrimitiveType(type) || type instanceof DecimalType;
  }

  /** All of a function's buffers change together, after all new values are known. */
  static String assignments(List<ExprCode> buffers, Seq<ExprCode> values) {
    StringBuilder code = new StringBuilder();
    for (int index = 0; index < buffers.size(); index++) {
      code.append(assignment(buffers.get(index), values.apply(index)));
    }
    return code.toString();
  }

  static String assignment(ExprCode target, ExprCode source) {
    return code("%s = %s;\n%s = %s;\n", target.isNull(), source.isNull(), target.value(), source.value());
  }

  private String isSame(DataType type, ExprCode key, ExprCode group) {
    String equal = context.genEqual(type, key.value().toString(), group.value().toString());
    return code("%s == %s && (%s || %s)", key.isNull(), group.isNull(), key.isNull(), equal);
  }

  /** A string may be a view of memory that the next rows overwrite. */
  private static String remembering(DataType type, ExprCode key, ExprCode group) {
    return !(type instanceof StringType) ? assignment(group, key)
        : code("%s = %s;\n%s = %s ? null : %s.clone();\n",
            group.isNull(), key.isNull(), group.value(), key.isNull(), key.value());
  }

  ExprCode value(DataType type, String name) {
    String isNull = field(CodeGenerator.JAVA_BOOLEAN(), name + "IsNull");
    String value = field(CodeGenerator.javaType(type), name);
    return new ExprCode(block(""), JavaCode$.MODULE$.isNullGlobal(isNull), JavaCode$.MODULE$.global(value, type));
  }

  String field(String type, String name) {
    return context.addMutableState(type, name, context.addMutableState$default$3(), false, true);
  }

  String function(String name, String body) {
    String fresh = context.freshName(name);
    String code = code("private void %s() throws java.io.IOException {\n%s\n}\n", fresh, body);
    return context.addNewFunction(fresh, code, false);
  }

  static Block block(String code) {
    return new CodeBlock(sequence(List.of("", "")), sequence(List.of(new Inline(code))));
  }

  static Seq<Expression> bound(Seq<?> expressions, Seq<Attribute> input) {
    return sequence(each(expressions, expression -> BindReferences.bindReference(
        (Expression) expression, package$.MODULE$.AttributeSeq(input), false)));
  }

  static <T, R> List<R> each(Seq<T> sequence, Function<? super T, ? extends R> mapping) {
    return CollectionConverters.asJava(sequence).stream().map(mapping).collect(Collectors.toCollection(ArrayList::new));
  }

  static <T> List<T> flat(List<List<T>> lists) {
    return lists.stream().flatMap(List::stream).collect(Collectors.toCollection(ArrayList::new));
  }

  static <T> Seq<T> sequence(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }

  static String code(String template, Object... parts) {
    return String.format(Locale.ROOT, template, parts);
  }
}
