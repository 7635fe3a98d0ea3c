/**
 * How files are read: the manifest lists them, {@link dev.colocation.spark.fs.Replica.LocalReplica} and {@link
 * dev.colocation.spark.fs.Replica.RemoteReplica} are where their bytes come from. Nothing here knows Spark's plans.
 */
package dev.colocation.spark.fs;

