"""The join benchmark's rows: medians, ratios within a round, and every missed goal by name."""

from typing import Any

import pytest

from benchmarks.joins import report
from benchmarks.joins.tables import all_tables
from benchmarks.joins.variants import VARIANTS
from benchmarks.joins.workloads import WORKLOADS

LOADS = [{"seconds": 4.0, "spark_bucketed_seconds": 2.0, "replicas": 2}]


def runs(workload: str, **seconds: float) -> list[dict[str, Any]]:
    """Three runs of each variant around these seconds."""
    measured = {"shuffle_bytes": 10, "remote_bytes": 0, "tasks_local_ratio": 1.0, "executor_cpu_seconds": 1.0,
                "tasks": 6}  # fmt: skip
    return [{"workload": workload, "variant": variant, "seconds": value * factor, **measured}
            for variant, value in seconds.items() for factor in (3.0, 1.0, 0.5)]  # fmt: skip


def test_rows_hold_medians_and_ratios() -> None:
    """The median counts, not the mean; the shuffle is the measure of speed, the floor that of waste."""
    rows = {row["variant"]: row for row in report.rows(runs("w", colocated=2.0, shuffle=8.0, floor=1.0), "1gbit")}
    colocated = rows["colocated"]
    assert (colocated["seconds_median"], colocated["repetitions"], colocated["links"]) == (2.0, 3, "1gbit")
    assert (colocated["ratio_to_shuffle"], colocated["ratio_to_floor"]) == (4.0, 2.0)
    assert rows["shuffle"]["ratio_to_shuffle"] == 1.0


@pytest.mark.parametrize(("seconds", "said"), [
    pytest.param({"colocated": 2.0, "shuffle": 8.0, "floor": 1.0}, [], id="all goals"),
    pytest.param({"colocated": 2.0, "shuffle": 6.0, "floor": 1.0}, ["3.0 times as fast as a shuffle"], id="shuffle"),
    pytest.param({"colocated": 2.0, "shuffle": 8.0, "floor": 0.8}, ["2.5 times the floor"], id="floor"),
    pytest.param({"colocated": 2.0, "shuffle": 8.0, "floor": 1.0, "iceberg_spj": 1.5}, ["iceberg_spj took 1.5 s"],
                 id="peer"),
])  # fmt: skip
def test_every_miss_is_named(seconds: dict[str, float], said: list[str]) -> None:
    """A goal that is missed is printed with its figures, and no other."""
    found = report.misses(report.rows(runs("seed_sql1", **seconds), "unshaped"), LOADS, [])
    assert len(found) == len(said)
    assert all(text in line for text, line in zip(said, found, strict=True))


def test_a_round_with_one_node_down_has_rows_of_its_own() -> None:
    """Next to those of all nodes; a colocated join that the shuffle overtakes then is a miss."""
    with_all = report.rows(runs("w", colocated=2.0, shuffle=8.0, floor=1.0), "unshaped")
    for seconds, said in ((3.0, []), (9.0, ["w, one node down: 0.89 times as fast as a shuffle, goal 1"])):
        fewer = report.with_one_node_down(report.rows(runs("w", colocated=seconds, shuffle=8.0, floor=1.0), "unshaped"))
        assert [row["variant"] for row in fewer] == ["colocated_one_node_down", "shuffle_one_node_down"]
        assert report.misses([*with_all, *fewer], LOADS, []) == said


def test_slow_loads_are_a_miss() -> None:
    """The load is held against Spark's own write of the same rows, once per replica."""
    slow = [{"seconds": 8.0, "spark_bucketed_seconds": 2.0, "replicas": 2}]
    assert report.load_ratio(slow) == 2.0
    assert [line for line in report.misses([], slow, []) if line.startswith("load: 2.0 times")]


@pytest.mark.parametrize(("remote_bytes", "said"), [
    pytest.param(5, [], id="local"),
    pytest.param(6, ["first query: 0.94 of the bytes were local, goal 0.95"], id="remote"),
])  # fmt: skip
def test_queries_that_read_from_other_nodes_are_a_miss(remote_bytes: int, said: list[str]) -> None:
    """Of the bytes of all of them together."""
    runs = [{"local_bytes": 50, "remote_bytes": 0, "tasks_local_ratio": 1.0},
            {"local_bytes": 50 - remote_bytes, "remote_bytes": remote_bytes, "tasks_local_ratio": 0.5}]  # fmt: skip
    found = report.locality("first query", runs, 12)
    assert (found["tasks_local_ratio"], report.misses([], LOADS, [found])) == (0.5, said)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_statements_name_only_known_tables(variant: Any, workload: Any) -> None:
    """No placeholder is left, and each variant reads its own tables."""
    statement = variant.statement(workload)
    assert "{" not in statement
    known = {table.name for table in all_tables(rows_per_day=1)} | {"customer"}
    assert {read.table for read in workload.reads} <= known
    assert f"{variant.prefix}." in statement
