/**
 * Which options reads and writes of tables take. One table, {@code options.json}, has every option that this and other table
 * formats document: it is done, has no effect on rows, or is refused with what to use instead.
 */
package dev.colocation.spark.options;

