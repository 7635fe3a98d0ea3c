package dev.colocation.spark.cluster;

import java.util.Map;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkRuntimeException;
import scala.collection.immutable.Map.Map1;

/**
 * A change of a table that was not committed, or may not have been. The message tells users what is wrong and what to do.
 *
 * <p>It has a type of Spark's, since PySpark and Spark Connect know no others: they show other types as a {@code Py4JJavaError}
 * with Java's stack. The condition, which programs may ask for, is the reason at the beginning of the message.
 */
public class WriteException extends SparkRuntimeException {
  private static final long serialVersionUID = 1L;

  /** A condition that every Spark knows; Spark's type asks for one. */
  private static final String OF_SPARK = "INTERNAL_ERROR";

  private final String reason;
  private final String message;

  public WriteException(String message) {
    this("", message, null);
  }

  public WriteException(String message, Throwable cause) {
    this("", message, cause);
  }

  /** {@code reason}: the message begins with it; empty = none. */
  public WriteException(String reason, String message, Throwable cause) {
    super(OF_SPARK, new Map1<>("message", message), cause, new QueryContext[0], "");
    this.reason = reason;
    this.message = reason.isEmpty() ? message : reason + ": " + message;
  }

  @Override
  public String getMessage() {
    return message;
  }

  /** Null when there is none. */
  @Override
  public String getCondition() {
    return reason.isEmpty() ? null : reason;
  }

  /** Shown to users who want errors as JSON. */
  @Override
  public Map<String, String> getMessageParameters() {
    return Map.of("message", message);
  }

  /** The SQL state of data source errors. A shell of Spark 4.3 prints Java's stack for errors without one. */
  @Override
  public String getSqlState() {
    return "KD000";
  }

  /** Without the class name, since a Thrift server shows it to users. */
  @Override
  public String toString() {
    return message;
  }

  /** Another change was first, and this one may not go on top of it. Nothing was changed. */
  public static final class LoadConflict extends WriteException {
    private static final long serialVersionUID = 1L;

    public LoadConflict(String message) {
      super("LoadConflict", message, null);
    }
  }

  /** It is unknown whether the commit happened; the message explains how to find out and what to do then. */
  public static final class CommitUnknown extends WriteException {
    private static final long serialVersionUID = 1L;

    public CommitUnknown(String message, Throwable cause) {
      super("CommitUnknown", message, cause);
    }
  }

  /** A compaction has read or written other numbers of rows than the manifest has; nothing was committed. */
  public static final class RowsDiffer extends WriteException {
    private static final long serialVersionUID = 1L;

    public RowsDiffer(String message) {
      super("RowsDiffer", message, null);
    }
  }

  /** Executors that kept the source of a MERGE were lost; nothing was committed. */
  public static final class SourceLost extends WriteException {
    private static final long serialVersionUID = 1L;

    public SourceLost(String message, Throwable cause) {
      super("SourceLost", message, cause);
    }
  }

  /** The table cannot be changed yet; the message names what is missing. */
  public static final class NotReady extends WriteException {
    private static final long serialVersionUID = 1L;

    public NotReady(String message) {
      super("NotReady", message, null);
    }
  }

  /** The table's spec or status cannot be understood; {@code reason}: which. */
  public static final class InvalidTable extends WriteException {
    private static final long serialVersionUID = 1L;

    InvalidTable(String reason, String message) {
      super(reason, message, null);
    }
  }

  /** An invalid option of a write; the message has what was given and what is allowed. Nothing was written. */
  public static final class InvalidOption extends WriteException {
    private static final long serialVersionUID = 1L;

    public InvalidOption(String message) {
      super("InvalidOption", message, null);
    }
  }

  /** No agent returned what was requested; the message has each agent's answer. */
  public static final class NoAgentAnswers extends WriteException {
    private static final long serialVersionUID = 1L;

    public NoAgentAnswers(String message) {
      super("NoAgentAnswers", message, null);
    }
  }

  /** Fewer nodes than a majority of a bucket's replicas took a file; the message has each node's reason. */
  public static final class ReplicasMissing extends WriteException {
    private static final long serialVersionUID = 1L;

    public ReplicasMissing(String message) {
      super("ReplicasMissing", message, null);
    }
  }

  /** The rows do not fit the table; the message has each difference, with the given and the expected type. */
  public static final class SchemaMismatch extends WriteException {
    private static final long serialVersionUID = 1L;

    public SchemaMismatch(String message) {
      super("SchemaMismatch", message, null);
    }
  }
}
