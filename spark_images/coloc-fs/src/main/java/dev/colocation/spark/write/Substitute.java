package dev.colocation.spark.write;

/**
 * Copies on another node than the map's, until the operator has made the map's.
 *
 * @param away the map's node that did not take the files
 * @param node the node that did
 * @param files the number of files
 * @param reason why the map's node did not take them
 */
public record Substitute(int bucket, String away, String node, int files, String reason) {}
