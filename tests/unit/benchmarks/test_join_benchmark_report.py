"""The join benchmark's rows: medians, ratios within a round, and every missed goal by name."""

import datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from benchmarks.joins import report
from benchmarks.joins.answers import are_equal
from benchmarks.joins.measurements import MEASUREMENTS
from benchmarks.joins.tables import SMALL_TABLES
from benchmarks.joins.tpch import WHOLE_TPCH
from benchmarks.joins.variants import OF_WHOLE_TPCH, SMALL, statement_with

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


def test_work_is_held_against_duckdbs() -> None:
    """Of the same workload; more than the goal is a miss."""
    measured = runs("w", colocated=1.0, shuffle=8.0, floor=1.0, duckdb=1.0)
    for run in measured:
        run["executor_cpu_seconds"] = {"colocated": 0.6, "duckdb": 0.4}.get(run["variant"], 2.0)
    rows = report.rows(measured, "unshaped")
    ratios = {row["variant"]: row["work_ratio_to_duckdb"] for row in rows}
    assert ratios == {"colocated": 1.5, "shuffle": 5.0, "floor": 5.0, "duckdb": 1.0}
    assert report.misses(rows, LOADS, []) == ["w, links unshaped: 1.5 times DuckDB's processor time, goal 1.3"]


def test_whole_tpch_is_one_row_per_variant() -> None:
    """The sums of the medians of each statement."""
    measured = [*runs("q01", colocated=1.0, ordinary=2.0), *runs("q02", colocated=3.0, ordinary=4.0)]
    found = {row["variant"]: row for row in report.whole_tpch(measured)}
    assert {name: (row["seconds"], row["work_cpu_seconds"]) for name, row in found.items()} == {
        "colocated": (4.0, 2.0), "ordinary": (6.0, 2.0),
    }  # fmt: skip
    assert found["ordinary"]["statements"]["q02"] == {"seconds_median": 4.0, "work_cpu_seconds": 1.0}


@pytest.mark.parametrize(("other", "equal"), [
    pytest.param([{"n": Decimal("0.123457"), "d": datetime.date(1995, 1, 2)}], True, id="the same"),
    pytest.param([{"n": 0.12356, "d": "1995-01-02"}], False, id="another number"),
    pytest.param([{"n": 0.1234567, "d": None}], False, id="no date"),
    pytest.param([{"n": "0.1234567", "d": "1995-01-02"}], False, id="a text"),
    pytest.param([{"d": "1995-01-02", "n": 0.1234567}], False, id="other columns"),
    pytest.param([], False, id="no row"),
])  # fmt: skip
def test_answers_of_two_engines(other: list[dict[str, Any]], equal: bool) -> None:
    """Rows in any order; numbers nearly, whatever their type."""
    of_spark = [{"n": 2, "d": "x"}, {"n": 0.1234567, "d": "1995-01-02"}]
    assert are_equal(of_spark, [*other, {"n": 2.0, "d": "x"}]) == equal


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


@pytest.mark.parametrize("measured", MEASUREMENTS)
def test_statements_name_only_known_tables(measured: str) -> None:
    """No placeholder is left, each variant reads its own tables, and the floor those that are loaded."""
    measurement = MEASUREMENTS[measured]
    bucketed = {table.name for table in measurement.tables(rows_per_day=1)}
    for workload in measurement.workloads:
        assert {read.table for read in workload.reads} <= bucketed | set(SMALL_TABLES)
        has_bucketed = any(f"{{{name}}}" in workload.statement for name in bucketed)
        for variant in measurement.variants:
            statement = variant.statement(workload)
            assert "{" not in statement
            assert (f"{variant.prefix}." in statement) == has_bucketed


def test_layouts_are_held_against_better_ones() -> None:
    """Of the same variant; and a selective join against half of a floor."""
    measured = [*runs("compacted", colocated=1.0, shuffle=4.0, floor=1.0),
                *runs("appended", colocated=1.2, shuffle=4.0, floor=1.0),
                *runs("selective_by_key", colocated=0.6, shuffle=4.0, floor=1.0)]  # fmt: skip
    rows = report.rows(measured, "unshaped")
    assert [row["ratio_to_base"] for row in rows if row["workload"] == "appended"] == [1.2, 1.0, 1.0]
    assert report.misses(rows, LOADS, []) == [
        "appended, links unshaped: 1.2 times compacted, goal 1.15",
        "selective_by_key, links unshaped: 0.6 times the floor, goal 0.5",
    ]


@pytest.mark.parametrize("workload", WHOLE_TPCH, ids=lambda workload: workload.name)
def test_whole_tpch_runs_in_every_variant(workload: Any) -> None:
    """22 statements, whose tables all have the variant's names; DuckDB reads them, too."""
    assert len(WHOLE_TPCH) == 22
    for variant in OF_WHOLE_TPCH:
        assert "{" not in variant.statement(workload)
    (parsed,) = duckdb.extract_statements(statement_with(workload.statement, "", f"{SMALL}."))
    assert parsed.type == duckdb.StatementType.SELECT
