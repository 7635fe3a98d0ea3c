#!/usr/bin/env bash
# What Kubeflow's SparkConnect runs; Spark's Python package, from which the image is built, leaves it out. It stays in the foreground.
exec "${SPARK_HOME}/bin/spark-submit" --class org.apache.spark.sql.connect.service.SparkConnectServer --name "Spark Connect server" \
  "$@" spark-internal
