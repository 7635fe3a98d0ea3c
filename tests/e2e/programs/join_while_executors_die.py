"""Joins orders and lineitem again and again; between two rounds an executor's pod is deleted without grace.

Argument: how many rounds. Prints one COLOCATION_RESULT line: bytes by where they came from, and the lost executors.
"""

import json
import ssl
import sys
import time
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from pyspark.sql import SparkSession

from colocation.spark import count_exchanges, read_metrics

JOIN = "SELECT count(*), max(l_shipmode) FROM orders JOIN lineitem ON o_orderkey = l_orderkey"
DEADLINE_SECONDS = 120
API_SERVER = "https://kubernetes.default.svc"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def executors(spark: SparkSession) -> set[str]:
    """Ids of the executors that are registered now."""
    found = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    return {found.apply(index).id() for index in range(found.size())} - {"driver"}


def wait_for_executors(spark: SparkSession, lost: set[str]) -> None:
    """Until as many are there as were asked for, the lost ones not counted."""
    wanted = int(spark.conf.get("spark.executor.instances") or 0)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(executors(spark) - lost) < wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{executors(spark)} after {DEADLINE_SECONDS} s; {wanted} wanted, lost {lost}")
        time.sleep(0.5)


def delete_an_executor(spark: SparkSession, lost: set[str]) -> None:
    """Delete the pod of the oldest executor."""
    victim = min(executors(spark) - lost, key=int)
    selector = f"spark-app-selector={spark.sparkContext.applicationId},spark-exec-id={victim}"
    namespace = spark.conf.get("spark.kubernetes.namespace")
    query = urlencode({"labelSelector": selector, "gracePeriodSeconds": 0})
    token = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"}
    request = Request(f"{API_SERVER}/api/v1/namespaces/{namespace}/pods?{query}", headers=token, method="DELETE")
    with urlopen(request, context=ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))) as answer:
        answer.read()
    lost.add(victim)


def main(rounds: int) -> None:
    spark = SparkSession.builder.appName("locality").getOrCreate()
    namespace = spark.conf.get("spark.colocation.namespace")
    lost: set[str] = set()
    exchanges = 0
    for number in range(rounds):
        wait_for_executors(spark, lost)
        spark.sql(f"USE colocation.`{namespace}`")
        rows = spark.sql(JOIN)
        rows.collect()
        exchanges += count_exchanges(rows)
        if number + 1 < rounds:
            delete_an_executor(spark, lost)
    result = {"remoteBytes": read_metrics(spark).remote_bytes, "localBytes": read_metrics(spark).local_bytes,
              "exchanges": exchanges, "lost": sorted(lost)}  # fmt: skip
    print(f"COLOCATION_RESULT {json.dumps(result)}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
