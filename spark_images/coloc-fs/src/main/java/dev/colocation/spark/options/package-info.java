/**
 * Which options reads and writes of tables take. One table, {@code options.json}, says of every option that this and other table
 * formats document whether it is done, has no effect on rows, or is refused, and with what to use instead.
 */
package dev.colocation.spark.options;

