#!/usr/bin/env bash
# What Spark on Kubernetes expects of an image: `driver ARGUMENTS…` and `executor`; any other command is run as it is.
#
# The contract is Spark's own (KubernetesConf, Basic{Driver,Executor}FeatureStep): a driver gets spark-submit's arguments and its
# address in SPARK_DRIVER_BIND_ADDRESS; an executor gets all it needs in SPARK_* variables, its JVM's options one by one in
# SPARK_JAVA_OPT_<n>. Variables such as SPARK_EXECUTOR_ATTRIBUTE_NODE_NAME reach the process through its environment.
set -euo pipefail

driver() {
  exec tini -s -- "$SPARK_HOME/bin/spark-submit" \
    --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
    --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
    --deploy-mode client "$@"
}

executor() {
  local java=java options=() name classpath
  [ -z "${JAVA_HOME:-}" ] || java="$JAVA_HOME/bin/java"
  while read -r name; do
    options+=("${!name}")
  done < <(compgen -e SPARK_JAVA_OPT_ | sort -t_ -k4 -n)
  classpath="${SPARK_CONF_DIR:-$SPARK_HOME/conf}:${HADOOP_CONF_DIR:+$HADOOP_CONF_DIR:}${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}"
  classpath+="$SPARK_HOME/jars/*${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}:$PWD"
  exec tini -s -- "$java" "${options[@]}" \
    "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classpath" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
}

case "${1:-}" in
  driver) shift; driver "$@" ;;
  executor) executor ;;
  *) exec tini -s -- "$@" ;;
esac
