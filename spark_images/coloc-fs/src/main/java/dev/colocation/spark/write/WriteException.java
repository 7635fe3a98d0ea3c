package dev.colocation.spark.write;

/** Why a change of a table was not committed, or may not have been: what is wrong, and what to do. */
public class WriteException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  WriteException(String message) {
    super(message);
  }

  WriteException(String message, Throwable cause) {
    super(message, cause);
  }

  /** Another change was first, and this one may not go on top of it. Nothing was changed. */
  public static final class LoadConflict extends WriteException {
    private static final long serialVersionUID = 1L;

    LoadConflict(String message) {
      super(message);
    }
  }

  /** The API server did not say whether the commit happened; the message says how to find out and what to do then. */
  public static final class CommitUnknown extends WriteException {
    private static final long serialVersionUID = 1L;

    CommitUnknown(String message, Throwable cause) {
      super(message, cause);
    }
  }

  /** A compaction has read or written other rows than the manifest says: nothing was committed. */
  public static final class RowsDiffer extends WriteException {
    private static final long serialVersionUID = 1L;

    RowsDiffer(String message) {
      super(message);
    }
  }

  /** The table cannot be changed yet; says what is missing. */
  public static final class NotReady extends WriteException {
    private static final long serialVersionUID = 1L;

    NotReady(String message) {
      super(message);
    }
  }

  /** The table's spec or status cannot be understood; the message begins with the reason. */
  public static final class InvalidTable extends WriteException {
    private static final long serialVersionUID = 1L;

    InvalidTable(String message) {
      super(message);
    }
  }
}
