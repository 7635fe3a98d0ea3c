"""What changes tables: loads, compactions, dropped partitions, each one commit of the catalog in Java."""
