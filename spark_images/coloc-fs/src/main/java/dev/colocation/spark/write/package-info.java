/**
 * How a table is changed: files go to the nodes of their buckets ({@link dev.colocation.spark.write.FileSender}), and one
 * commit makes them the table's ({@link dev.colocation.spark.write.Transaction}). Nothing here knows Spark's plans.
 */
package dev.colocation.spark.write;

