"""Drivers of their own: a Hive metastore, which outlives them and holds other people's tables; one without our jar."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark

CHECKOUT = Path(__file__).parents[2]


def run(folder: Path, driver: str) -> dict[str, Any]:
    """What a driver of its own has found."""
    command = [sys.executable, "-m", "tests.spark.metastore_program", str(folder), driver]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=400, cwd=folder
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(lines[0].removeprefix("FOUND "))
    return found


PLAIN = """
from pyspark.sql import SparkSession
from colocation.spark import explain
explain(SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate().range(3))
"""


def test_explain_in_an_application_without_the_jar() -> None:
    """The error says how to start it."""
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=False, timeout=400)
    assert "RuntimeError: this application has no jar of the coloc:// file system: start its session" in done.stderr


@pytest.mark.deep
def test_a_metastore_keeps_what_is_not_ours(tmp_path: Path) -> None:
    """A managed Hive table keeps its name, rows and files; the next driver uses the views that the first one made.

    What it does not register itself it leaves: it cannot know whether another application reads it.
    """
    first, second = run(tmp_path, "first"), run(tmp_path, "second")
    assert first["registered"] == {"orders": False, "lines": True, "dropped": True}
    assert second["registered"] == {"orders": False, "lines": True}
    for found, columns in ((first, ["k"]), (second, ["k", "added"])):
        assert found["tables"] == ["dropped", "lines", "orders"]
        assert (found["rows"], found["columns"]) == (42, columns)
    assert first["files"] == second["files"] > 0
