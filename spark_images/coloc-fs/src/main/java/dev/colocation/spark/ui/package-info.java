/** The tab of Spark's web UI that shows why joins shuffled. */
package dev.colocation.spark.ui;
