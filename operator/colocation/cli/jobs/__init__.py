"""Commands that run Spark in the cluster: submit, load, compact, drop-partitions, rebucket, roll-back, sql."""
