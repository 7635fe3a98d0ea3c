/**
 * ColocatedTables as a catalog of Spark: {@link dev.colocation.spark.catalog.ClusterCatalog} finds a table, {@code TableLoader}
 * reads all that a query needs of it, and {@link dev.colocation.spark.catalog.ReadAsFiles} replaces it in plans by a bucketed
 * relation over its files. The other rules answer, check or refuse statements.
 */
package dev.colocation.spark.catalog;

