/**
 * How files are read: the manifest says which there are, {@link dev.colocation.spark.fs.LocalReplica} and {@link
 * dev.colocation.spark.fs.RemoteReplica} are where their bytes come from. Nothing here knows Spark's plans.
 */
package dev.colocation.spark.fs;

