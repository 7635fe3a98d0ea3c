/**
 * How tables are written. Rows are distributed and sorted ({@link dev.colocation.spark.write.DistributeRows}), tasks write files and
 * send them to the nodes of their buckets ({@link dev.colocation.spark.write.FileSender}), and the driver commits them.
 *
 * <p>A commit is read in this order: {@link dev.colocation.spark.write.Transaction}, {@code Commit} with the rules of {@link
 * dev.colocation.spark.write.Change}, and {@code CompareAndSet}.
 */
package dev.colocation.spark.write;

