package dev.colocation.spark.write;

/** A table of the catalog that statements write to, as they were analyzed with it. */
public interface Writable {
  /** How files are laid out. */
  TableLayout layout();

  /** Of the group's map, as far as it was known then: what tasks are planned by. Each row's bucket is computed as files are written. */
  int plannedBuckets();

  /** What is changed. */
  WriteTarget target();
}
