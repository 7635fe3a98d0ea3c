"""The same statements by DuckDB, in one thread, on one replica of the same files: how little work they need.

DuckDB runs on this machine, outside of the cluster, while nothing else does; its files are those on the nodes' disks.
"""

import resource
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from demo.disks import data_files, data_root, nodes

from .answers import WrongAnswer, are_equal
from .tables import NAMESPACE, SMALL_TABLES, Table
from .variants import NATIVE, SMALL, statement_with
from .workloads import LIMIT, Workload

WARM_UP_ROUNDS = 2
MEMORY = "4GB"
# What Spark's stages know and DuckDB has not: it shuffles nothing, and runs as one task on the node that has all files.
WITHOUT_STAGES = {"shuffle_bytes": 0, "local_bytes": 0, "remote_bytes": 0, "tasks": 1, "tasks_local_ratio": None}


def measure(
    workloads: Sequence[Workload],
    tables: Sequence[Table],
    tpch: Path,
    answers: Mapping[str, Sequence[Mapping[str, Any]]],
    repetitions: int,
) -> list[dict[str, object]]:
    """Runs like those of Spark's variants.

    Args:
        tpch: the folder with the small tables.
        answers: Spark's rows of each workload, by its name.

    Raises:
        WrongAnswer: the rows differ from Spark's.
    """
    runs: list[dict[str, object]] = []
    with duckdb.connect(config={"threads": 1, "memory_limit": MEMORY}) as database:
        _register(database, tables, tpch)
        for workload in workloads:
            statement = statement_with(workload.statement, "", f"{SMALL}.")
            for repetition in range(-WARM_UP_ROUNDS, repetitions):
                measured, rows = _run(database, statement)
                _check(workload, rows, answers[workload.name])
                if repetition >= 0:
                    runs.append({"workload": workload.name, "variant": NATIVE, **measured})
    return runs


def _register(database: duckdb.DuckDBPyConnection, tables: Sequence[Table], tpch: Path) -> None:
    for table in tables:
        partitions = ", ".join(f"'{column}': DATE" for column in table.partitioned_by)
        hive = f", hive_partitioning = true, hive_types = {{{partitions}}}" if partitions else ""
        files = ", ".join(f"'{file}'" for file in _replica(table.name))
        database.execute(f"CREATE VIEW {table.name} AS SELECT * FROM read_parquet([{files}]{hive})")
    database.execute(f"CREATE SCHEMA {SMALL}")
    for name in SMALL_TABLES:
        database.execute(f"CREATE VIEW {SMALL}.{name} AS SELECT * FROM read_parquet('{tpch / name}.parquet')")


def _replica(table: str) -> list[Path]:
    """Every file of the table once, from any node that has it."""
    held = [(node, file) for node in nodes() for file in data_files(node, f"{table}-*", NAMESPACE)]
    found = {str(file.relative_to(data_root(node))): file for node, file in held}
    return [found[name] for name in sorted(found)]


def _run(database: duckdb.DuckDBPyConnection, statement: str) -> tuple[dict[str, object], list[dict[str, Any]]]:
    before, started = _cpu_seconds(), time.perf_counter()
    answer = database.execute(statement)
    values = answer.fetchall()
    seconds, cpu = time.perf_counter() - started, _cpu_seconds() - before
    names = [column[0] for column in answer.description or ()]
    measured: dict[str, object] = {"seconds": seconds, "executor_cpu_seconds": cpu, **WITHOUT_STAGES}
    return measured, [dict(zip(names, row, strict=True)) for row in values]


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _check(workload: Workload, rows: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]]) -> None:
    # A limit without an order may give any rows; how many they are is the same for all.
    if len(rows) != len(expected) or (len(rows) != LIMIT and not are_equal(rows, expected)):
        raise WrongAnswer(f"{workload.name}: DuckDB has {rows[:3]}, Spark {expected[:3]}")
