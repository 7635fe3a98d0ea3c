/**
 * The Kubernetes API and the forms of its objects: the client, ColocatedTables and ColocationGroups, their snapshots, manifests and
 * commit records, names, types and times. Nothing here plans queries or writes rows.
 */
package dev.colocation.spark.cluster;

