package dev.colocation.spark;

import dev.colocation.spark.catalog.ClusterCatalog;

/**
 * ColocatedTables as {@code <catalog>.<namespace>.<table>} ({@code spark.sql.catalog.<catalog>=
 * dev.colocation.spark.ColocationCatalog}).
 *
 * <p>Options, each {@code spark.sql.catalog.<catalog>.<option>}: {@code namespace}, the one that {@code USE <catalog>} means
 * (default: {@code spark.colocation.namespace}); {@code kubeconfig} and {@code context}, outside of pods; {@code
 * acceptSeconds}, how long CREATE, ALTER TABLE and writes wait for the operator.
 */
public final class ColocationCatalog extends ClusterCatalog {}
