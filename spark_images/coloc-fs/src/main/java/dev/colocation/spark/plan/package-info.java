/** What Spark's plans gain from files that are bucketed and sorted: sorts and hash tables that they need not have. */
package dev.colocation.spark.plan;

