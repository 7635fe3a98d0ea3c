/** What users name in their configuration: the file system, the extensions, the plugin. */
package dev.colocation.spark;
