package dev.colocation.spark.plan;

import dev.colocation.spark.plan.WindowValue.Aggregated;
import dev.colocation.spark.plan.WindowValue.Known;
import dev.colocation.spark.plan.WindowValue.Neighbour;
import dev.colocation.spark.plan.WindowValue.RankOfSize;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SizeBasedWindowFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.NoOp$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.FalseLiteral$;
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.codegen.JavaCode$;
import org.apache.spark.sql.execution.CodegenSupport;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The generated code of a {@link SortedWindowExec} with values that are known when a group of rows has ended: its partition, or the rows
 * of equal order. A group's rows wait in Spark's own collection, which spills. When the group ends they are given out, while the rows of
 * the next one wait in a second collection: an operator above may stop for a while after each row.
 */
final class WaitingWindowCode extends SortedWindowCode {
  private static final String COLLECTION = "org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray";
  private static final String ITERATOR = "scala.collection.Iterator";
  private static final String ROW = "UnsafeRow";

  private final boolean arePeers;
  private final List<ExprCode> peerKeys;
  private final String waiting;
  private final String ready;
  private final String rows;

  /** Of each value that is known at a group's end: a field, or an iterator of the rows behind. Two columns may have equal ones. */
  private final Map<WindowValue, ExprCode> results = new IdentityHashMap<>();
  private final Map<WindowValue, String> behind = new IdentityHashMap<>();

  /** The buffers of each rank that needs the size of the partition, and that size. */
  private final Map<WindowValue, List<ExprCode>> ranks = new IdentityHashMap<>();
  private final ExprCode size;

  private String give;

  WaitingWindowCode(SortedWindowExec operator, List<WindowValue> values, CodegenContext context) {
    super(operator, values, context);
    arePeers = values.stream().anyMatch(value -> value.known() == Known.AT_PEERS_END);
    peerKeys = arePeers ? each(plain.orderSpec(), order -> value(order.child().dataType(), "peerKey")) : List.of();
    String made = context.addReferenceObj("waitingRows", WaitingRows.of(plain.conf()), "java.util.function.Supplier");
    waiting = collection("waitingRows", made);
    ready = collection("readyRows", made);
    rows = field(ITERATOR, "rowsToGive");
    for (WindowValue value : values) {
      if (value instanceof Aggregated one && one.known() != Known.AT_ROW) {
        results.put(value, value(one.function().evaluateExpression().dataType(), "groupResult"));
      } else if (value instanceof Neighbour && value.known() != Known.AT_ROW) {
        behind.put(value, field(ITERATOR, "rowsBehind"));
      } else if (value instanceof RankOfSize rank) {
        ranks.put(value, each(rank.function().initialValues(), initial -> value(initial.dataType(), "rankBuffer")));
      }
    }
    size = new ExprCode(block(""), FalseLiteral$.MODULE$,
        JavaCode$.MODULE$.global(field(CodeGenerator.JAVA_INT(), "partitionSize"), DataTypes.IntegerType));
  }

  private String collection(String name, String made) {
    return context.addMutableState(COLLECTION, name, field -> code("%s = (%s) %s.get();", field, COLLECTION, made), true, true);
  }

  /**
   * Rows that an earlier call has not given out come first, those of the last group last. While there are any, what an operator above
   * does after the last row has to wait. So does the last group while a row waits to be taken: the next one would overwrite it.
   */
  @Override
  String produce() {
    give = context.freshName("giveRows");
    String below = ((CodegenSupport) plain.child()).produce(context, operator);
    return code("""
        %1$s(false);
        if (shouldStop()) return;
        %2$s
        if (shouldStop()) return;
        if (%3$s) {
          %3$s = false;
          %4$s
          if (%5$s != null) return;
        }
        """, give, below, begun, ended(), rows);
  }

  @Override
  String consume(Seq<ExprCode> input) {
    defineGive();
    context.INPUT_ROW_$eq(null);
    context.currentVars_$eq(input);
    RowKeys keys = keys(operator, plain.partitionSpec(), plain.child().output(), partitionKeys);
    Seq<Expression> order = sequence(each(plain.orderSpec(), SortOrder::child));
    RowKeys peers = arePeers ? keys(operator, order, plain.child().output(), peerKeys) : new RowKeys("", "true", "");
    String same = context.freshName("samePartition");
    String begin = code("""
        boolean %1$s = %2$s && %3$s;
        if (%2$s && !(%1$s && %4$s)) {
          %5$s
        }
        if (!%1$s) {
          %6$s
        }
        """, same, begun, keys.same(), peers.same(), ended(), begin(keys));
    return keys.evaluated() + peers.evaluated() + begin + peers.remembered() + taken(input) + kept(input);
  }

  /** Adds a row with what is known to the rows that wait. */
  private String kept(Seq<ExprCode> input) {
    List<ExprCode> columns = new ArrayList<>(CollectionConverters.asJava(input));
    columns.addAll(atRow(input));
    knowing(input);
    for (WindowValue value : values) {
      if (behind.containsKey(value)) {
        columns.add(ofInput(((Neighbour) value).input()));
        columns.add(ofInput(((Neighbour) value).otherwise()));
      }
    }
    String evaluated = evaluated(columns.subList(input.size(), columns.size()));
    context.currentVars_$eq(sequence(columns));
    ExprCode row = GenerateUnsafeProjection$.MODULE$.createCode(context, sequence(List.<Expression>copyOf(kept())), false);
    return evaluated + row.code() + code("\n%s.add(%s);\n", waiting, row.value());
  }

  /** The columns of rows that wait: those from below, values that are known with the row, and what rows before ask of it. */
  private List<BoundReference> kept() {
    List<BoundReference> kept = new ArrayList<>();
    CollectionConverters.asJava(plain.child().output()).forEach(
        column -> kept.add(new BoundReference(kept.size(), column.dataType(), column.nullable())));
    for (WindowValue value : values) {
      if (value.known() == Known.AT_ROW) {
        kept.add(new BoundReference(kept.size(), type(value).dataType(), true));
      }
    }
    for (WindowValue value : values) {
      if (behind.containsKey(value)) {
        kept.add(new BoundReference(kept.size(), type(value).dataType(), true));
        kept.add(new BoundReference(kept.size(), type(value).dataType(), true));
      }
    }
    return kept;
  }

  private static Expression type(WindowValue value) {
    return value instanceof Aggregated one ? one.function().evaluateExpression() : ((Neighbour) value).input();
  }

  /** Ends a group: what its rows wait for is computed, and they are given out. Those of the one before have to be gone. */
  private String ended() {
    knowing(sequence(List.of()));
    StringBuilder computed = new StringBuilder();
    StringBuilder begun = new StringBuilder();
    for (WindowValue value : values) {
      if (results.containsKey(value)) {
        ExprCode result = result((Aggregated) value);
        computed.append(result.code()).append("\n").append(assignment(results.get(value), result));
      } else if (behind.containsKey(value)) {
        begun.append(code("%1$s = %2$s.generateIterator(Math.min(%3$d, %2$s.length()));\n",
            behind.get(value), ready, ((Neighbour) value).rows()));
      } else if (value instanceof RankOfSize rank) {
        begun.append(changed(rank, ofRank(rank, rank.function().initialValues(), List.of())));
      }
    }
    return function("endGroup", code("""
        %1$s(true);
        %2$s
        %3$s full = %4$s;
        %4$s = %5$s;
        %5$s = full;
        %6$s = %5$s.generateIterator();
        %7$s = %5$s.length();
        %8$s
        %1$s(false);
        """, give, computed, COLLECTION, waiting, ready, rows, size.value(), begun)) + "();";
  }

  /** Expressions of a rank's buffers, the size of the partition, and a row. */
  private Seq<ExprCode> ofRank(RankOfSize rank, Seq<Expression> expressions, List<ExprCode> row) {
    List<Attribute> columns = new ArrayList<>(CollectionConverters.asJava(rank.function().aggBufferAttributes()));
    columns.add(((SizeBasedWindowFunction) rank.function()).n());
    columns.addAll(CollectionConverters.asJava(plain.child().output()));
    List<ExprCode> known = new ArrayList<>(ranks.get(rank));
    known.add(size);
    known.addAll(row);
    context.INPUT_ROW_$eq(null);
    context.currentVars_$eq(sequence(known));
    return sequence(each(bound(expressions, sequence(columns)), expression -> expression.genCode(context)));
  }

  private String changed(RankOfSize rank, Seq<ExprCode> buffers) {
    return operator.evaluateVariables(buffers) + "\n" + assignments(ranks.get(rank), buffers);
  }

  /** Ranks a row that is given out. Buffers that Spark does not change have no code of their own. */
  private ExprCode ranked(RankOfSize rank, List<ExprCode> row) {
    List<Expression> updates = new ArrayList<>(CollectionConverters.asJava(rank.function().updateExpressions()));
    for (int place = 0; place < updates.size(); place++) {
      if (updates.get(place) == NoOp$.MODULE$) {
        updates.set(place, rank.function().aggBufferAttributes().apply(place));
      }
    }
    String changed = changed(rank, ofRank(rank, sequence(updates), row));
    ExprCode result = ofRank(rank, sequence(List.of(rank.function().evaluateExpression())), row).apply(0);
    return new ExprCode(block(changed + result.code()), result.isNull(), result.value());
  }

  /** A function that gives out rows, all of them or until the operator above stops. */
  private void defineGive() {
    String row = context.freshName("waitingRow");
    context.INPUT_ROW_$eq(row);
    context.currentVars_$eq(null);
    List<ExprCode> columns = kept().stream().map(column -> column.genCode(context)).toList();
    int below = plain.child().output().size();
    List<ExprCode> output = new ArrayList<>(columns.subList(0, below));
    String ranked = ranks.isEmpty() ? "" : evaluated(output);
    List<ExprCode> own = new ArrayList<>();
    int atRow = below;
    int atEnd = below + (int) values.stream().filter(value -> value.known() == Known.AT_ROW).count();
    for (WindowValue value : values) {
      if (value.known() == Known.AT_ROW) {
        own.add(columns.get(atRow++));
      } else if (results.containsKey(value)) {
        own.add(results.get(value));
      } else if (value instanceof RankOfSize rank) {
        own.add(ranked(rank, output));
        context.INPUT_ROW_$eq(row);
        context.currentVars_$eq(null);
      } else {
        own.add(behind(value, kept().get(atEnd), columns.get(atEnd + 1)));
        atEnd += 2;
      }
    }
    output.addAll(own);
    context.INPUT_ROW_$eq(null);
    String evaluated = ranked + evaluated(output);
    String body = code("""
        private void %1$s(boolean all) throws java.io.IOException {
          while (%2$s != null && %2$s.hasNext()) {
            %3$s %4$s = (%3$s) %2$s.next();
            %5$s
            %6$s
            if (!all && shouldStop()) return;
          }
          if (%2$s != null) {
            %2$s = null;
            %7$s.clear();
          }
        }
        """, give, rows, ROW, row, evaluated, operator.consume(context, sequence(output), null), ready);
    give = context.addNewFunction(give, body, false);
  }

  /** A column of a row behind the current one. */
  private ExprCode behind(WindowValue value, BoundReference column, ExprCode otherwise) {
    String current = context.INPUT_ROW();
    String row = context.freshName("rowBehind");
    context.INPUT_ROW_$eq(row);
    ExprCode found = column.genCode(context);
    context.INPUT_ROW_$eq(current);
    String isNull = context.freshName("isNullBehind");
    String result = context.freshName("valueBehind");
    String taken = code("""
        boolean %1$s;
        %2$s %3$s;
        if (%4$s.hasNext()) {
          %5$s %6$s = (%5$s) %4$s.next();
          %7$s
          %1$s = %8$s;
          %3$s = %9$s;
        } else {
          %10$s
          %1$s = %11$s;
          %3$s = %12$s;
        }
        """, isNull, CodeGenerator.javaType(column.dataType()), result, behind.get(value), ROW, row,
        found.code(), found.isNull(), found.value(), otherwise.code(), otherwise.isNull(), otherwise.value());
    return new ExprCode(block(taken), JavaCode$.MODULE$.isNullVariable(isNull), JavaCode$.MODULE$.variable(result, column.dataType()));
  }
}
