"""`make bench-merge` at its smallest: every variant runs every workload, and leaves the rows that DuckDB has."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.merges.workloads import WORKLOADS
from tests.integration.control_plane import dying_with_us

pytestmark = [pytest.mark.spark, pytest.mark.deep]

COLUMNS = {
    "workload",
    "variant",
    "seconds_median",
    "cpu_seconds",
    "exchanges",
    "sorts",
    "bytes_written",
    "rows_changed",
}
VARIANTS = ("colocated", "iceberg_copy_on_write", "iceberg_merge_on_read", "delta_copy_on_write",
            "delta_deletion_vectors", "overwrite_partitions")  # fmt: skip
SMALLEST = ("--rows", "2000", "--rounds", "1", "--warm-up-rounds", "0", "--memory", "1g")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The rows of the report; the program fails when a variant's rows are wrong."""
    output: Path = tmp_path_factory.mktemp("bench") / "merge.json"
    command = [sys.executable, "-m", "benchmarks.merge", *SMALLEST, "--output", str(output)]
    done = subprocess.run(dying_with_us(command), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows: list[dict[str, Any]] = json.loads(output.read_text())
    return rows


def test_every_variant_ran_every_workload(measured: list[dict[str, Any]]) -> None:
    """All rows are there with their columns, and all changed as many rows of the same workload."""
    ran = {(row["workload"], row["variant"]) for row in measured}
    assert ran == {(workload.name, variant) for workload in WORKLOADS for variant in VARIANTS}
    assert all(row.keys() >= COLUMNS and row["bytes_written"] > 0 for row in measured)
    assert all((row["rows_changed"] > 0) == (row["workload"] != "compaction") for row in measured)


def test_sources_of_the_group_are_neither_shuffled_nor_sorted(measured: list[dict[str, Any]]) -> None:
    """In all queries of each statement, as they ran; tables of other formats are."""
    ours = {row["workload"]: (row["exchanges"], row["sorts"]) for row in measured if row["variant"] == "colocated"}
    assert ours == {workload.name: (0, 0) for workload in WORKLOADS}
    peers = [row for row in measured if row["variant"].startswith(("iceberg", "delta"))]
    assert any(row["exchanges"] > 0 for row in peers) and any(row["sorts"] > 0 for row in peers)
