"""Runs into rows: medians, ratios to the shuffle and to the floor of the same round, and what misses its goal. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from .variants import NATIVE, ONE_NODE_DOWN
from .workloads import LAYOUTS, SELECTIVE_BY_KEY

Row = dict[str, Any]

PEERS = ("shuffle", "broadcast", "spark_bucketed", "iceberg_spj")
THREE_TABLE_JOIN = "seed_sql1"
SHUFFLE_GOAL, FLOOR_GOAL, LOAD_GOAL, LOCAL_GOAL, WORK_GOAL = 3.5, 2.0, 1.2, 0.95, 1.3
BASES = {workload.name: workload.base for workload in LAYOUTS if workload.base}
BASE_GOALS = {"appended": 1.15, "hot_bucket": 1.2}
SELECTIVE_GOAL = 0.5
"""Floors, where the filter follows the key."""


def rows(runs: Iterable[Mapping[str, Any]], links: str) -> list[Row]:
    """One row per workload and variant.

    Args:
        runs: single runs, each with its workload, variant and measurements.
        links: ``unshaped``, or the rate to which the nodes' links were shaped.
    """
    grouped = _grouped(runs)
    seconds = _medians(grouped, "seconds")
    work = _medians(grouped, "executor_cpu_seconds")
    return [_row(key, of_key, seconds, work, links) for key, of_key in grouped.items()]


def whole_tpch(runs: Iterable[Mapping[str, Any]]) -> list[Row]:
    """One row per variant: the sums of the statements' medians, and each statement's own."""
    grouped = _grouped(runs)
    seconds, work = _medians(grouped, "seconds"), _medians(grouped, "executor_cpu_seconds")
    variants = list(dict.fromkeys(variant for _, variant in grouped))
    return [
        {
            "variant": variant,
            "seconds": round(sum(value for (_, other), value in seconds.items() if other == variant), 2),
            "work_cpu_seconds": round(sum(value for (_, other), value in work.items() if other == variant), 2),
            "statements": {
                workload: {"seconds_median": round(value, 3), "work_cpu_seconds": round(work[workload, other], 3)}
                for (workload, other), value in seconds.items()
                if other == variant
            },
        }
        for variant in variants
    ]


def _grouped(runs: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    grouped: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for run in runs:
        grouped[run["workload"], run["variant"]].append(run)
    return grouped


def _medians(
    grouped: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]], figure: str
) -> dict[tuple[str, str], float]:
    return {key: median(run[figure] for run in runs) for key, runs in grouped.items()}


def _row(
    key: tuple[str, str],
    runs: list[Mapping[str, Any]],
    seconds: Mapping[tuple[str, str], float],
    work: Mapping[tuple[str, str], float],
    links: str,
) -> Row:
    workload, variant = key
    native = work.get((workload, NATIVE))
    local = [run["tasks_local_ratio"] for run in runs if run["tasks_local_ratio"] is not None]
    return {
        "workload": workload,
        "variant": variant,
        "links": links,
        "seconds_median": round(seconds[key], 3),
        "repetitions": len(runs),
        "shuffle_bytes": int(median(run["shuffle_bytes"] for run in runs)),
        "remote_bytes": max(run["remote_bytes"] for run in runs),
        "tasks_local_ratio": round(min(local), 4) if local else None,
        "work_cpu_seconds": round(work[key], 3),
        "work_ratio_to_duckdb": None if native is None else round(work[key] / native, 2),
        "tasks": int(median(run["tasks"] for run in runs)),
        "ratio_to_shuffle": round(seconds[workload, "shuffle"] / seconds[key], 2),
        "ratio_to_floor": round(seconds[key] / seconds[workload, "floor"], 2),
        "ratio_to_base": round(seconds[key] / seconds[BASES[workload], variant], 2) if workload in BASES else None,
    }


def with_one_node_down(table: Iterable[Row]) -> list[Row]:
    """Rows of a round in which a node was away, under names of their own; the floor was there for their ratios."""
    kept = [row for row in table if row["variant"] != "floor"]
    return [{**row, "variant": f"{row['variant']}_{ONE_NODE_DOWN}"} for row in kept]


def locality(queries: str, runs: Sequence[Mapping[str, Any]], executors: int) -> Row:
    """From where some colocated queries read, together; ``queries`` describes them."""
    local, remote = (sum(run[f"{where}_bytes"] for run in runs) for where in ("local", "remote"))
    tasks = [run["tasks_local_ratio"] for run in runs if run["tasks_local_ratio"] is not None]
    return {
        "queries": queries,
        "executors": executors,
        "tasks_local_ratio": round(min(tasks), 4) if tasks else None,
        "bytes_local_ratio": round(local / (local + remote), 4),
        "local_bytes": local,
        "remote_bytes": remote,
    }


def misses(table: Iterable[Row], loads: Iterable[Row], localities: Iterable[Row]) -> list[str]:
    """Every goal that was not reached, with its figures; empty when all were."""
    found = []
    of = {(row["workload"], row["links"], row["variant"]): row for row in table}
    for (workload, links, variant), row in of.items():
        if variant == f"colocated_{ONE_NODE_DOWN}" and row["ratio_to_shuffle"] < 1:
            found.append(f"{workload}, one node down: {row['ratio_to_shuffle']} times as fast as a shuffle, goal 1")
        if variant != "colocated":
            continue
        where = f"{workload}, links {links}"
        if workload == THREE_TABLE_JOIN and row["ratio_to_shuffle"] < SHUFFLE_GOAL:
            found.append(f"{where}: {row['ratio_to_shuffle']} times as fast as a shuffle, goal {SHUFFLE_GOAL}")
        floor_goal = SELECTIVE_GOAL if workload == SELECTIVE_BY_KEY else FLOOR_GOAL
        if row["ratio_to_floor"] > floor_goal:
            found.append(f"{where}: {row['ratio_to_floor']} times the floor, goal {floor_goal}")
        if workload in BASE_GOALS and row["ratio_to_base"] > BASE_GOALS[workload]:
            found.append(f"{where}: {row['ratio_to_base']} times {BASES[workload]}, goal {BASE_GOALS[workload]}")
        for peer in PEERS:
            other = of.get((workload, links, peer))
            if other and other["seconds_median"] < row["seconds_median"]:
                found.append(f"{where}: {peer} took {other['seconds_median']} s, colocated {row['seconds_median']} s")
        if (row["work_ratio_to_duckdb"] or 0) > WORK_GOAL:
            found.append(f"{where}: {row['work_ratio_to_duckdb']} times DuckDB's processor time, goal {WORK_GOAL}")
        if row["remote_bytes"]:
            found.append(f"{where}: {row['remote_bytes']} bytes were read from other nodes")
    for row in localities:
        if row["bytes_local_ratio"] < LOCAL_GOAL:
            found.append(f"{row['queries']}: {row['bytes_local_ratio']} of the bytes were local, goal {LOCAL_GOAL}")
    ratio = load_ratio(loads)
    if ratio > LOAD_GOAL:
        found.append(f"load: {ratio} times the bucketed write of the same rows times the replicas, goal {LOAD_GOAL}")
    return found


def load_ratio(loads: Iterable[Row]) -> float:
    """All loads' seconds over those of Spark's bucketed writes times the replicas."""
    loads = list(loads)
    return round(
        sum(row["seconds"] for row in loads)
        / sum(row["spark_bucketed_seconds"] * row["replicas"] for row in loads), 2)  # fmt: skip


def as_text(table: Iterable[Row]) -> str:
    """The rows as a table for people."""
    lines = [f"{'workload':19} {'links':9} {'variant':15} {'seconds':>8} {'cpu s':>7} {'x duckdb':>8} {'x shuffle':>9} "
             f"{'x floor':>8} {'x base':>6} {'shuffled':>12} {'remote':>7} {'local':>6}"]  # fmt: skip
    for row in table:
        local = "-" if row["tasks_local_ratio"] is None else f"{row['tasks_local_ratio']:.0%}"
        native, base = (
            "-" if row[ratio] is None else f"{row[ratio]:.2f}" for ratio in ("work_ratio_to_duckdb", "ratio_to_base")
        )
        lines.append(
            f"{row['workload']:19} {row['links']:9} {row['variant']:15} {row['seconds_median']:8.2f} "
            f"{row['work_cpu_seconds']:7.2f} {native:>8} {row['ratio_to_shuffle']:9.2f} {row['ratio_to_floor']:8.2f} "
            f"{base:>6} {row['shuffle_bytes']:12} {row['remote_bytes']:7} {local:>6}"
        )
    return "\n".join(lines)
