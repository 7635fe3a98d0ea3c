"""A table's whole life as its user sees it: a group of its own, moved, appended to, compacted, dropped, brought back.

TPC-H's orders and lineitem stay as they are; the table of this story is made of their keys.
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from demo import story, workload
from demo.shell import COLOCATION, kubectl, kubectl_json, run
from demo.waiting import wait_until

from .conftest import Loaded
from .statements import NO_BROADCAST, command, query

pytestmark = pytest.mark.e2e

TABLE = "returned"
OWN_GROUP = "returns"
SELECT = "o_orderkey as r_orderkey, o_orderdate as r_date"
COUNT = "SELECT count(*) FROM returned"
COUNT_JOINED = "SELECT count(*) FROM orders JOIN returned ON o_orderkey = r_orderkey"
WAIT_SECONDS = 180
OTHER_GROUP = ("-n", workload.NAMESPACE, "--group", workload.GROUP)


@pytest.fixture(scope="module")
def returned(loaded: Loaded) -> Iterator[Loaded]:
    """The table, loaded once, in a group that was made from it."""
    apply_table(OWN_GROUP)
    kubectl("wait", "--for=condition=Ready", f"ct/{TABLE}", "-n", workload.NAMESPACE, "--timeout=60s")
    workload.load(TABLE, loaded.folder, source="orders", select=SELECT, executors=1)
    yield loaded
    kubectl("delete", "ct", TABLE, "-n", workload.NAMESPACE, "--ignore-not-found")


@pytest.mark.deep
def test_a_table_makes_its_group_and_moves_to_another(returned: Loaded) -> None:
    """The missing group came from the table; its files are cloned to the other group's nodes."""
    assert kubectl_json("get", "cg", OWN_GROUP, "-n", workload.NAMESPACE)["status"]["tables"] == [TABLE]
    apply_table(workload.GROUP)
    wait_until("in the other group", lambda: status().get("group") == workload.GROUP, deadline_seconds=WAIT_SECONDS)
    story.wait_for_stable(WAIT_SECONDS)


@pytest.mark.deep
def test_a_moved_table_is_joined_where_it_is(returned: Loaded) -> None:
    """Before the table is dropped and brought back."""
    assert_joined_on_its_nodes(returned.oracle.row_count("orders"))


@pytest.mark.deep
def test_loads_add_up_and_compact_merges(returned: Loaded) -> None:
    """Twice the rows in twice the files; one file for each bucket afterwards."""
    rows = returned.oracle.row_count("orders")
    first = status()["snapshot"]
    workload.load(TABLE, returned.folder, source="orders", select=SELECT, mode="append", executors=1)
    appended = status()["snapshot"]
    assert (appended["files"], appended["rows"]) == (2 * first["files"], 2 * rows)
    command("compact", TABLE, "-n", workload.NAMESPACE)
    compacted = status()["snapshot"]
    assert (compacted["files"], compacted["rows"]) == (first["files"], 2 * rows)
    assert count(COUNT) == 2 * rows


@pytest.mark.deep
def test_a_dropped_table_comes_back_whole(returned: Loaded) -> None:
    """Gone at once, marked in the group, back with its snapshot (but for what made it) and its rows."""
    before = {name: value for name, value in status()["snapshot"].items() if name != "operation"}
    kubectl("delete", "ct", TABLE, "-n", workload.NAMESPACE, "--timeout=10s")
    wait_until("in the recycle bin", lambda: f"{TABLE}*" in group_tables(), deadline_seconds=60)
    assert f"{TABLE}*" in run([COLOCATION, "tables", "-n", workload.NAMESPACE]).stdout
    run([COLOCATION, "recover", TABLE, "-n", workload.NAMESPACE])
    assert status()["snapshot"] == before
    story.wait_for_stable(WAIT_SECONDS)
    assert_joined_on_its_nodes(before["rows"])
    again = run([COLOCATION, "recover", TABLE, "-n", workload.NAMESPACE], allowed=(1,))
    assert "exists" in again.stderr


def test_more_replicas_and_fewer_again(loaded: Loaded) -> None:
    """All tables follow the group, which stays stable at every moment."""
    with story.watching_stability() as watch:
        for replicas in (3, 2):
            patch = json.dumps({"spec": {"replicas": replicas}})
            kubectl("patch", "cg", workload.GROUP, "-n", workload.NAMESPACE, "--type=merge", "-p", patch)
            wait_until(f"{replicas} replicas", partial(every_bucket_has, replicas), deadline_seconds=WAIT_SECONDS)
    assert watch.stayed_stable


def assert_joined_on_its_nodes(rows: int) -> None:
    """Its join with a table of the group answers rightly, without a shuffle, from local disks."""
    result = query(COUNT_JOINED, *OTHER_GROUP, *NO_BROADCAST)
    assert result["rows"] == [[rows]]
    assert (result["exchanges"], result["remote_bytes"]) == (0, 0)
    assert [join["colocate"] for join in result["joins"]] == [True]


def apply_table(group: str) -> None:
    """``kubectl apply`` the table; its fields are those of the group that is made from it."""
    spec = {"colocateWith": group, "buckets": 8, "replicas": 2, "bucketedBy": ["r_orderkey"], "columns": [
        {"name": "r_orderkey", "type": "bigint"}, {"name": "r_date", "type": "date"}]}
    body = {"apiVersion": "colocation.dev/v1alpha1", "kind": "ColocatedTable",
            "metadata": {"name": TABLE, "namespace": workload.NAMESPACE}, "spec": spec}
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body))


def status() -> dict[str, Any]:
    """The table's status."""
    found: dict[str, Any] = kubectl_json("get", "ct", TABLE, "-n", workload.NAMESPACE).get("status", {})
    return found


def group_tables() -> list[str]:
    """The tables of TPC-H's group; dropped ones with a mark."""
    tables: list[str] = workload.group_status()["tables"]
    return tables


def every_bucket_has(replicas: int) -> bool:
    """Whether the map gives every bucket this many nodes."""
    return all(len(nodes) == replicas for nodes in workload.bucket_map())


def count(statement: str) -> int:
    """The one number that is the answer."""
    return int(query(statement, *OTHER_GROUP)["rows"][0][0])
