package dev.colocation.spark.options;

/** How a table is used by a statement that has options. */
public enum Way {
  READ("a read"),
  WRITE("a write"),
  STREAM_READ("a stream's read"),
  STREAM_WRITE("a stream's write");

  private final String label;

  Way(String label) {
    this.label = label;
  }

  /** With its article, for messages. */
  public String label() {
    return label;
  }
}
