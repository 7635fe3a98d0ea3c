"""The Spark application of the benchmark: ``program.py load MEASURED ROWS_PER_DAY``, ``measure MEASURED REPETITIONS``.

``measurements.py`` has what can be measured.

Runs in the driver's pod, submitted with ``colocation submit``. Results go to ``/bench``, a directory that pods share.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession

from benchmarks.joins.answers import WrongAnswer
from benchmarks.joins.measurements import MEASUREMENTS, Measurement
from benchmarks.joins.measuring import Stages
from benchmarks.joins.peers import append_iceberg, create_iceberg, register_peers, write_bucketed
from benchmarks.joins.tables import NAMESPACE, REPLICAS, Table
from benchmarks.joins.variants import (
    COLOCATED,
    DISABLE_COLOCATE_JOIN,
    VARIANTS,
    WITHOUT_BUCKETS,
    Variant,
)
from benchmarks.joins.workloads import LIMIT, Workload
from benchmarks.joins.workloads import Q12 as CHECKED
from colocation.spark import count_exchanges, explain_json, load, read_metrics

RESULTS = Path("/bench/results")
LOADS_FILE, RUNS_FILE = "loads.json", "runs.json"


class NotColocated(Exception):
    """The colocated variant shuffles: what is measured is not what it is called."""


def load_all(spark: SparkSession, tables: Sequence[Table]) -> list[dict[str, object]]:
    """Load every table into its ColocatedTable and, of the same rows, into the peers' tables; seconds of each."""
    loads: list[dict[str, object]] = []
    for table in tables:
        create_iceberg(spark, table)
        loads.append(load_rows(spark, table, table.rows, "overwrite"))
        print(loads[-1], flush=True)
        for statement in table.appends:
            load_rows(spark, table, statement, "append")
    return loads


def load_rows(
    spark: SparkSession, table: Table, statement: str, mode: Literal["append", "overwrite"]
) -> dict[str, object]:
    """Load a statement's rows into the three tables of a name."""
    rows = spark.sql(statement).cache()
    count = rows.count()
    started = time.monotonic()
    load(rows, table.name, namespace=NAMESPACE, mode=mode)
    colocated = time.monotonic() - started
    started = time.monotonic()
    write_bucketed(rows, table, mode)
    bucketed = time.monotonic() - started
    append_iceberg(rows, table)
    rows.unpersist()
    return {
        "table": table.name,
        "rows": count,
        "replicas": REPLICAS,
        "seconds": round(colocated, 3),
        "spark_bucketed_seconds": round(bucketed, 3),
        "ratio_to_bucketed_times_replicas": round(colocated / bucketed / REPLICAS, 3),
    }


def run(spark: SparkSession, variant: Variant, workload: Workload) -> tuple[dict[str, object], list[Any]]:
    """One run: what was measured, and the answer's rows."""
    stages = Stages(spark)
    before = read_metrics(spark)
    started = time.perf_counter()
    answer = spark.sql(variant.statement(workload))._jdf.collect()
    seconds = time.perf_counter() - started
    read = read_metrics(spark, before)
    measured = {"seconds": seconds, "local_bytes": read.local_bytes, "remote_bytes": read.remote_bytes,
                **stages.measured()}  # fmt: skip
    if variant.prefix != COLOCATED:
        measured["tasks_local_ratio"] = None  # Spark calls tasks local that may run anywhere
    return measured, list(answer)


def measure(spark: SparkSession, repetitions: int, measurement: Measurement) -> dict[str, object]:
    """The application's first query, then every workload in every variant; rows of the answers by workload."""
    check_colocated(spark)
    first = run(spark, VARIANTS[0], CHECKED)[0]
    register_peers(spark, measurement.tables(rows_per_day=1))
    runs, answers = measure_in_turn(spark, repetitions, measurement)
    return {"first_query": first, "runs": runs, "answers": answers}


def measure_in_turn(
    spark: SparkSession, repetitions: int, measurement: Measurement
) -> tuple[list[dict[str, object]], dict[str, list[dict[str, Any]]]]:
    """There and back again, so that no variant always runs after the same other; single runs, and answers."""
    runs: list[dict[str, object]] = []
    answers: dict[str, list[dict[str, Any]]] = {}
    for workload in measurement.workloads:
        known: dict[bool, list[str]] = {}
        variants = [variant for variant in measurement.variants if variant.runs(workload)]
        for repetition in range(-measurement.warm_up_rounds, repetitions):
            for variant in variants if repetition % 2 else reversed(variants):
                with_conf(spark, variant)
                measured, rows = run(spark, variant, workload)
                # A limit without an order may give any rows; how many they are is the same for all.
                any_rows = len(rows) == LIMIT
                answer = [str(len(rows))] if any_rows else sorted(row.toString() for row in rows)
                expected = known.setdefault(variant.name == "floor", answer)
                if answer != expected:
                    raise WrongAnswer(f"{workload.name}, {variant.name}: {answer[:5]}, others have {expected[:5]}")
                if variant.name != "floor" and workload.name not in answers:
                    answers[workload.name] = [{} if any_rows else json.loads(row.json()) for row in rows]
                if repetition >= 0:
                    runs.append({"workload": workload.name, "variant": variant.name, **measured})
                print(workload.name, variant.name, repetition, measured, flush=True)
    return runs, answers


def check_colocated(spark: SparkSession) -> None:
    """Whether joins of the group's tables are free of shuffles now, by a plan.

    Raises:
        NotColocated: they are not; the message has the reason of each join.
    """
    colocated = VARIANTS[0]
    with_conf(spark, colocated)
    query = spark.sql(colocated.statement(CHECKED))
    if count_exchanges(query):
        raise NotColocated("; ".join(join["reason"] for join in explain_json(query)["joins"]))


def with_conf(spark: SparkSession, variant: Variant) -> None:
    """Configure the session for a variant, and plan a read of each table, which is not timed."""
    for key in {key for other in VARIANTS for key in other.conf}:
        spark.conf.unset(key)
    for key, value in variant.conf.items():
        spark.conf.set(key, value)
    wanted = str(variant.name in WITHOUT_BUCKETS).lower()
    if variant.prefix == COLOCATED and spark.conf.get(DISABLE_COLOCATE_JOIN, "") != wanted:
        spark.conf.set(DISABLE_COLOCATE_JOIN, wanted)
        for row in spark.sql(f"SHOW TABLES IN {COLOCATED}").collect():
            spark.table(f"{COLOCATED}.{row['tableName']}").schema  # noqa: B018  (the first read of a manifest takes longer)


def write(name: str, result: object) -> None:
    """One file of results."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / name).write_text(json.dumps(result))


def main(arguments: Sequence[str]) -> None:
    """Run one of the two programs; results are written when it is through."""
    command, measured, number = arguments
    measurement = MEASUREMENTS[measured]
    spark = SparkSession.builder.appName(f"bench-join-{command}-{measured}").getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    if command == "load":
        write(LOADS_FILE, load_all(spark, measurement.tables(int(number))))
    else:
        write(RUNS_FILE, measure(spark, int(number), measurement))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
