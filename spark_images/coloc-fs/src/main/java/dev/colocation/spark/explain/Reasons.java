package dev.colocation.spark.explain;

/** The beginnings of all reasons for which rows are not read or joined by their buckets; those that Doris has, in its words. */
public final class Reasons {
  public static final String NOT_STABLE = "group is not stable";
  public static final String SESSION_DISABLED = "Session disabled";
  public static final String NO_GROUP = "Tables are not in the same group";
  public static final String INCONSISTENT = "Inconsistent distribution of table and queries";
  public static final String TRANSFORMED = "Src column hash been transformed by expr";
  public static final String REDISTRIBUTED = "The src data has been redistributed";
  public static final String HAS_HINT = "Has join hint";
  public static final String BROADCAST = "Broadcast is cheaper";

  private Reasons() {}
}
