/** What users name in their configuration: the file system, the catalog, the extensions, the plugin. */
package dev.colocation.spark;

