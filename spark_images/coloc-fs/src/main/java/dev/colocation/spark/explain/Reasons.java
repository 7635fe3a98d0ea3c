package dev.colocation.spark.explain;

/** The beginnings of reasons for which rows are not read or joined by their buckets, in the words of Doris. */
public final class Reasons {
  public static final String SESSION_DISABLED = "Session disabled";
  public static final String NO_GROUP = "Tables are not in the same group";
  public static final String INCONSISTENT = "Inconsistent distribution of table and queries";
  public static final String TRANSFORMED = "Src column hash been transformed by expr";
  public static final String REDISTRIBUTED = "The src data has been redistributed";

  private Reasons() {}
}
