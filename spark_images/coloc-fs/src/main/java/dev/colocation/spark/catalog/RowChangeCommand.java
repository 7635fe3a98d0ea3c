package dev.colocation.spark.catalog;

import dev.colocation.spark.explain.ExplainedRowChange;
import dev.colocation.spark.write.RowChange;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.command.ExplainCommand;
import org.apache.spark.sql.execution.command.LeafRunnableCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.Enumeration;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/** An {@code UPDATE}, {@code DELETE} or {@code MERGE} in Spark's plans; {@link RowChangeRun} runs it. Its result is one row of counts. */
public final class RowChangeCommand extends LogicalPlan implements LeafRunnableCommand, ExplainedRowChange.Command {
  private static final long serialVersionUID = 1L;

  private static final List<String> COUNTS = List.of(
      "num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows", "num_replaced_files", "snapshot_id");

  private final RowChange.Kind kind;
  private final transient DataSourceV2Relation target;
  private final transient RowStatement statement;
  private final Seq<Attribute> output;
  private transient ExplainedRowChange explained;

  RowChangeCommand(RowChange.Kind kind, DataSourceV2Relation target, RowStatement statement) {
    this.kind = kind;
    this.target = target;
    this.statement = statement;
    output = FilesRelation.sequence(COUNTS.stream().<Attribute>map(name -> new AttributeReference(
        name, DataTypes.LongType, false, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), FilesRelation.sequence(List.of())))
        .toList());
  }

  @Override
  public Seq<Row> run(SparkSession session) {
    RowChangeRun.Counts done = new RowChangeRun(
        (org.apache.spark.sql.classic.SparkSession) session, kind, target, statement).run();
    return FilesRelation.sequence(List.of(RowFactory.create(
        done.rows().updated() + done.rows().deleted() + done.rows().inserted(), done.rows().updated(), done.rows().deleted(),
        done.rows().inserted(), done.replacedFiles(), done.snapshotId())));
  }

  @Override
  public Seq<Attribute> output() {
    return output;
  }

  @Override
  public synchronized ExplainedRowChange explain(org.apache.spark.sql.classic.SparkSession session) {
    if (explained == null) {
      explained = new RowChangeRun(session, kind, target, statement).explain();
    }
    return explained;
  }

  private ExplainedRowChange explain() {
    return explain(org.apache.spark.sql.classic.SparkSession.active());
  }

  /** Whether its queries are shown. Spark also describes each statement that runs, which need not be planned twice. */
  private synchronized boolean isExplained() {
    return explained != null || StackWalker.getInstance().walk(
        frames -> frames.anyMatch(frame -> frame.getClassName().equals(ExplainCommand.class.getName())));
  }

  @Override
  @SuppressWarnings({"rawtypes", "unchecked"}) // Scala's covariant Seq has no type in Java that fits both superclasses
  public Seq innerChildren() {
    return FilesRelation.sequence(isExplained() ? explain().plans().toList() : List.of());
  }

  @Override
  public String argString(int maxFields) {
    return kind.label() + " " + target.table().name() + (isExplained() ? " [" + explain() + "]" : "");
  }

  @Override
  public Seq<Enumeration.Value> nodePatterns() {
    return FilesRelation.sequence(List.of());
  }

  /** Of Scala's initializer of the trait, which classes in Java do not call. */
  @Override
  public void org$apache$spark$sql$catalyst$plans$logical$Command$_setter_$nodePatterns_$eq(Seq<Enumeration.Value> given) {}

  @Override
  public Seq<LogicalPlan> children() {
    return FilesRelation.sequence(List.of());
  }

  @Override
  public LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> newChildren) {
    return this;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof RowChangeCommand;
  }

  @Override
  public boolean equals(Object other) {
    return this == other;
  }

  @Override
  public int hashCode() {
    return System.identityHashCode(this);
  }

  @Override
  public int productArity() {
    return 0;
  }

  @Override
  public Object productElement(int index) {
    throw new IndexOutOfBoundsException(index);
  }
}
