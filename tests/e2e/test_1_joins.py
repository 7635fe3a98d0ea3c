"""Loaded tables are joined without a shuffle from local disks, and with one where the user asks for it."""

import pytest

from demo import story, workload
from demo.data import TABLES
from demo.shell import COLOCATION, kubectl, run

from .conftest import Loaded

pytestmark = pytest.mark.e2e


def test_every_row_is_loaded(loaded: Loaded) -> None:
    """The loads and the tables' status report exactly the rows of the input."""
    for table in TABLES:
        rows = kubectl("get", "ct", table, "-n", workload.NAMESPACE, "-o", "jsonpath={.status.snapshot.rows}")
        assert int(rows) == loaded.rows[table] == loaded.oracle.row_count(table)


@pytest.mark.deep
def test_the_join_is_colocated(loaded: Loaded) -> None:
    """A stable group's join on the bucket key has no Exchange, reads local disks only and answers as DuckDB does."""
    run = story.join(loaded.oracle)
    assert (run.exchanges, run.remote_bytes, run.answer_ok) == (0, 0, True)
    assert "colocate: true" in run.decision


@pytest.mark.deep
def test_the_switch_turns_it_off(loaded: Loaded) -> None:
    """``spark.colocation.disableColocateJoin`` gives an ordinary join with the same answers, in the same session."""
    run = story.compare_join(loaded.oracle)
    assert (run.first.exchanges, run.first.answer_ok) == (0, True)
    assert run.shuffled.exchanges > 0
    assert run.shuffled.answer_ok


def test_the_command_line_shows_the_state(loaded: Loaded) -> None:
    """kubectl and ``colocation`` print the group's columns; what is not there is exit code 1 and a word on stderr."""
    header, line = workload.kubectl_get_groups().splitlines()
    assert header.split() == ["NAME", "BUCKETS", "REPLICAS", "DISTCOLS", "TABLES", "STABLE", "REASON", "AGE"]
    assert line.split()[:3] == ["tpch", "8", "2"] and "true" in line
    assert "tpch" in run([COLOCATION, "groups", "-n", workload.NAMESPACE]).stdout
    assert "lineitem" in run([COLOCATION, "tables", "-n", workload.NAMESPACE]).stdout
    assert "nothing" in run([COLOCATION, "plan", workload.GROUP, "-n", workload.NAMESPACE]).stdout.lower()
    assert run([COLOCATION, "plan", "no-such-group", "-n", workload.NAMESPACE], allowed=(1,)).stderr
