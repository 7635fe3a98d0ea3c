package dev.colocation.spark.write;

/**
 * Copies that lie elsewhere than the map says, until the operator has made those of the map.
 *
 * @param away the map's node that did not take them
 * @param node the one that did
 * @param files how many
 * @param reason why the map's node did not
 */
public record Substitute(int bucket, String away, String node, int files, String reason) {}
