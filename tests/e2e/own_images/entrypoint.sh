#!/usr/bin/env bash
# What the entrypoints of Apache's images do where they differ from ours: the classpath begins with Spark's jars, a user
# without an entry gets one by a library, and other commands than `driver` and `executor` run without an init.
set -eo pipefail
if ! getent passwd "$(id -u)" > /dev/null; then
  NSS_WRAPPER_PASSWD=$(mktemp) NSS_WRAPPER_GROUP=$(mktemp)
  echo "spark:x:$(id -u):$(id -g):anonymous:$SPARK_HOME:/bin/false" > "$NSS_WRAPPER_PASSWD"
  echo "spark:x:$(id -g):" > "$NSS_WRAPPER_GROUP"
  LD_PRELOAD=$(echo /usr/lib/*/libnss_wrapper.so)
  export NSS_WRAPPER_PASSWD NSS_WRAPPER_GROUP LD_PRELOAD
fi
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
options=()
for name in "${!SPARK_JAVA_OPT_@}"; do options+=("${!name}"); done
classpath="$SPARK_CLASSPATH:$SPARK_HOME/jars/*${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}"
classpath="${HADOOP_CONF_DIR:+$HADOOP_CONF_DIR:}$classpath"
classpath="${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$classpath:$PWD"
case "$1" in
  driver)
    shift
    exec tini -s -- "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
      --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@" ;;
  executor)
    exec tini -s -- "$java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classpath:$SPARK_DIST_CLASSPATH" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend --driver-url "$SPARK_DRIVER_URL" \
      --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
      --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME" ;;
  *) exec "$@" ;;
esac
