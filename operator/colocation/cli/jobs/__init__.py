"""Commands that run a Spark application in the cluster: submit, load, compact, drop-partitions, roll-back, sql."""
