"""The dev cluster with both operators, the group and its tables loaded: made once for all end-to-end tests.

The tests of this folder are one story, told in the order of the files' names and of the tests within them: each leaves
the group stable for the next.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo import cluster, data, story
from devcluster import cluster as devcluster

pytestmark = pytest.mark.e2e

SCALE_FACTOR = 0.01
VALUES = {"agent.sweepIntervalSeconds": "5", "operator.inventorySeconds": "2", "limits.maxUnexplainedFolders": "1000"}
"""The last test drops all tables and their group behind the operator's back, on purpose."""


@dataclass(frozen=True)
class Loaded:
    """TPC-H at ``SCALE_FACTOR`` in the cluster: its files, DuckDB over them, and the rows that the loads reported."""

    folder: Path
    oracle: data.Oracle
    rows: dict[str, int]


@pytest.fixture(scope="session")
def loaded() -> Iterator[Loaded]:
    """A fresh cluster, taken down at the end also when a test failed (kept with KEEP=1)."""
    if theirs := devcluster.users_kubeconfig():
        pytest.skip(f"KUBECONFIG names a cluster of yours ({theirs}); these tests kill nodes and need their own")
    folder = data.generate(SCALE_FACTOR)
    oracle = data.Oracle(folder)
    try:
        cluster.start(nodes=3)
        story.install(VALUES)
        yield Loaded(folder, oracle, story.load_tables(folder, oracle))
    finally:
        if os.environ.get("KEEP", "0") in ("", "0"):
            devcluster.down()
