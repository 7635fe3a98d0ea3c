"""The dev cluster with both operators, the group and its tables loaded: made once for all end-to-end tests.

The tests of this folder are one story, in the order of the files' names and of the tests within them: each leaves
the group stable for the next. `make test` leaves out those marked ``deep``, between any of the others.
"""

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo import cluster, data, story, workload
from devcluster import cluster as devcluster
from devcluster import kept

from . import kept_logs

pytestmark = pytest.mark.e2e

SCALE_FACTOR = 0.01
VALUES = {"agent.sweepIntervalSeconds": "5", "operator.inventorySeconds": "2", "limits.maxUnexplainedFolders": "1000"}
"""The last test drops all tables and their group behind the operator's back, on purpose."""
DOWN_TOLERANCE_SECONDS = 30
"""Shorter than the demo's, as clones are throttled here: a join on the live replicas has time to run."""


@dataclass(frozen=True)
class Loaded:
    """TPC-H at ``SCALE_FACTOR`` in the cluster: its files, DuckDB over them, and the rows that the loads reported."""

    folder: Path
    oracle: data.Oracle
    rows: dict[str, int]


@pytest.fixture(scope="session", autouse=True)
def temporary_folder() -> None:
    """None of the run's own: a cluster that is kept (KEEP=1) goes on using its programs' folders."""


@pytest.fixture(scope="session")
def loaded() -> Iterator[Loaded]:
    """A fresh cluster, taken down at the end also when a test failed (kept with KEEP=1)."""
    if theirs := devcluster.users_kubeconfig():
        pytest.fail(f"KUBECONFIG names a cluster of yours ({theirs}); these tests make their own, so unset it")
    kept_logs.begin()
    workload.JAVA_OPTIONS.append(workload.QUICK_JAVA)
    folder = data.generate(SCALE_FACTOR)
    oracle = data.Oracle(folder)
    try:
        yield _loaded(folder, oracle)
    finally:
        if os.environ.get("KEEP", "0") in ("", "0"):
            devcluster.end_run()
        else:
            kept.keep()


def _loaded(folder: Path, oracle: data.Oracle) -> Loaded:
    try:
        cluster.start(nodes=3)
        story.install(VALUES, DOWN_TOLERANCE_SECONDS)
        rows = workload.load_all(folder)
        story.wait_for_stable(story.REPAIR_DEADLINE_SECONDS)
        return Loaded(folder, oracle, rows)
    except Exception as error:
        error.add_note(kept_logs.keep("beginning"))
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The logs of a failed test are kept; its report names where."""
    report = yield
    if report.failed and "loaded" in getattr(item, "funcargs", {}):
        report.sections.append(("Cluster", kept_logs.keep(item.name)))
    return report
