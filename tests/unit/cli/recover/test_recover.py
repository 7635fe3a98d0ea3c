"""`recover`, and how dropped tables are shown, over a cluster in memory."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from colocation.cli.recover import recover as recover_module

from ...submit.fake_applications import VirtualTime
from ..conftest import FakeCluster, Run, group_object, table_object

RECORD: dict[str, Any] = {
    "namespace": "shop",
    "name": "orders",
    "uid": "0a1b2c3d-0000",
    "snapshot": table_object()["status"]["snapshot"],
    "deletedAt": "2026-11-21T00:00:00Z",
    "purgeAt": "2999-01-01T00:00:00Z",
}
REQUEST = {"recover.colocation.dev/0a1b2c3d": "shop/orders"}


def dropped(cluster: FakeCluster, **changes: Any) -> None:
    """``orders`` is in the recycle bin."""
    cluster.groups()[0] = group_object(tables=["orders*"], tableCount=0, recycled=[RECORD | changes])
    cluster.tables().clear()


def test_asks_and_waits(run: Run, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is an annotation of the group; the answer is the table with its snapshot."""
    dropped(cluster)
    monkeypatch.setattr(cluster, "on_annotation", lambda: cluster.tables().append(table_object()))
    done = run("recover", "orders")
    assert done.stdout == "table shop/orders is back: snapshot 3, 10 rows, 2.0 KiB\n"
    assert cluster.groups()[0]["metadata"]["annotations"] == REQUEST


def test_a_table_that_was_dropped_a_moment_ago_is_waited_for(
    run: Run, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not an older one of that name: the group still counts it as its own, until the operator sees that it is gone."""
    older = RECORD | {"uid": "ffffffff-0000", "deletedAt": "2026-11-20T00:00:00Z"}
    member = {key: RECORD[key] for key in ("namespace", "name", "uid", "snapshot")}
    cluster.groups()[0] = group_object(tables=["orders"], members=[member], recycled=[older])
    cluster.tables().clear()

    def operator_sees(_: float) -> None:
        cluster.groups()[0]["status"] |= {"members": [], "recycled": [older, RECORD]}

    monkeypatch.setattr(time, "sleep", operator_sees)
    monkeypatch.setattr(cluster, "on_annotation", lambda: cluster.tables().append(table_object()))
    done = run("recover", "orders")
    assert "orders: waiting for the operator to see that it was dropped\n" in done.stderr
    assert cluster.groups()[0]["metadata"]["annotations"] == REQUEST


@pytest.mark.parametrize(("stands_seconds", "is_said"), [(1.0, False), (10.0, True)])
def test_what_stands_for_a_moment_only_is_not_said(
    run: Run, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, stands_seconds: float, is_said: bool
) -> None:
    """While agents take files back, the table's condition reports for a moment that files are lacking."""
    dropped(cluster)
    lacking = {"type": "Accepted", "status": "False", "reason": "Recovering", "message": "nodes lack files",
               "lastTransitionTime": "2026-11-21T00:00:00Z"}  # fmt: skip
    clock = VirtualTime()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if clock.now > stands_seconds:
            cluster.tables()[:] = [table_object()]

    monkeypatch.setattr(recover_module, "time", SimpleNamespace(monotonic=clock.clock, sleep=sleep))
    coming = {**table_object(), "status": {"conditions": [lacking]}}
    monkeypatch.setattr(cluster, "on_annotation", lambda: cluster.tables().append(coming))
    done = run("recover", "orders")
    assert (done.exit_code, "nodes lack files" in done.stderr) == (0, is_said), done.stderr


def test_an_operator_that_does_not_see_a_drop_is_said(run: Run, cluster: FakeCluster) -> None:
    """Nothing is lost by that."""
    dropped(cluster)
    cluster.groups()[0]["status"] |= {"members": [RECORD], "recycled": []}
    done = run("recover", "orders", "--wait-seconds", "0")
    assert done.exit_code == 1
    assert "has not seen within 0 s that table shop/orders was dropped; nothing is deleted before" in done.stderr


def test_a_table_that_was_never_loaded_is_not_in_the_way(
    run: Run, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Created again under the name and dropped again, it has no rows to bring back."""
    empty = {"uid": "ffffffff-0000", "snapshot": None, "deletedAt": "2026-11-21T01:00:00Z"}
    dropped(cluster)
    cluster.groups()[0]["status"]["recycled"].append(RECORD | empty)
    monkeypatch.setattr(cluster, "on_annotation", lambda: cluster.tables().append(table_object()))
    assert run("recover", "orders").exit_code == 0
    assert cluster.groups()[0]["metadata"]["annotations"] == REQUEST


def test_a_table_that_is_dropped_again_meanwhile_is_said(
    run: Run, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator refused nothing (found by chaos)."""
    dropped(cluster)

    def operator_begins() -> None:
        cluster.groups()[0]["metadata"].pop("annotations")
        cluster.tables().append(table_object() | {"status": {}})

    monkeypatch.setattr(cluster, "on_annotation", operator_begins)
    monkeypatch.setattr(time, "sleep", lambda _: cluster.tables().clear())
    done = run("recover", "orders")
    said = "error: table shop/orders was dropped again while it came back; its files are in the recycle bin as before\n"
    assert (done.exit_code, done.stderr.endswith(said)) == (1, True), done.stderr


def test_refusal_of_the_operator_is_reported(run: Run, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It removes the annotation and gives the reason in an event."""
    dropped(cluster)
    monkeypatch.setattr(cluster, "on_annotation", lambda: cluster.groups()[0]["metadata"].pop("annotations"))
    refusal = {"reason": "RecoverRefused", "message": "it was purged"}
    monkeypatch.setattr(cluster, "events", lambda group: [refusal])
    done = run("recover", "orders")
    assert (done.exit_code, done.stderr) == (1, "error: the operator refused: it was purged\n")


def test_gives_up_in_the_end(run: Run, cluster: FakeCluster) -> None:
    """And prints its progress."""
    dropped(cluster)
    done = run("recover", "orders", "--wait-seconds", "0")
    assert done.exit_code == 1
    assert "not back after 0 s (waiting for the operator to make the table)" in done.stderr


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"snapshot": None}, "was never loaded", id="nothing to bring back"),
        pytest.param({"name": "customers"}, "there are: customers\n", id="another table"),
    ],
)
def test_what_cannot_come_back_is_refused_at_once(
    run: Run, cluster: FakeCluster, changes: dict[str, Any], words: str
) -> None:
    """Nothing is asked of the operator then."""
    dropped(cluster, **changes)
    done = run("recover", "orders")
    assert done.exit_code == 1
    assert words in done.stderr
    assert "annotations" not in cluster.groups()[0]["metadata"]


def test_where_no_table_was_dropped_other_namespaces_are_named(run: Run, cluster: FakeCluster) -> None:
    """Who forgets -n looks into the namespace `default`."""
    done = run("recover", "customers")
    assert done.exit_code == 1
    assert done.stderr.endswith(
        "is in the recycle bin; there are: none; `colocation tables -A` lists those of all namespaces, dropped ones "
        "with a *: choose one with -n\n"
    )


@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_recovery_that_was_asked_for_before_is_waited_for(
    run: Run, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, is_remembered: bool
) -> None:
    """By whomever: its table is not in its way, also before the group remembers which one it is (found by chaos)."""
    dropped(cluster, **({"recoveryUids": ["ffffffff-0000"]} if is_remembered else {}))
    back = table_object()
    made = back | {"metadata": back["metadata"] | {"uid": "ffffffff-0000"}, "status": {}}
    made["metadata"]["annotations"] = {} if is_remembered else {"colocation.dev/recovers": RECORD["uid"]}
    cluster.tables().append(made)
    monkeypatch.setattr(time, "sleep", lambda _: made.update(status=back["status"]))
    done = run("recover", "orders")
    assert done.stdout == "table shop/orders is back: snapshot 3, 10 rows, 2.0 KiB\n", done.stderr


def test_table_of_that_name_is_not_replaced(run: Run, cluster: FakeCluster) -> None:
    """Its owner has to drop it first."""
    dropped(cluster)
    made = table_object()
    made["metadata"]["uid"] = "ffffffff-0000"
    cluster.tables().append(made)
    done = run("recover", "orders")
    assert done.exit_code == 1
    assert "exists" in done.stderr


def test_dropped_tables_are_shown_with_a_mark(run: Run, cluster: FakeCluster) -> None:
    """In the list of tables with what was loaded, in their group with their times."""
    dropped(cluster)
    assert run("tables").stdout.splitlines()[1].split()[:2] == ["orders*", "sales"]
    shown = run("show", "sales").stdout
    assert "tables:      orders*" in shown
    assert shown.splitlines()[-1].split() == ["shop/orders*", RECORD["deletedAt"], RECORD["purgeAt"], "10"]


def test_show_shows_the_state_of_every_replica(run: Run, cluster: FakeCluster) -> None:
    """Behind the node, where it is not complete."""
    problem = {"bucket": 1, "reason": "NodeNotReady", "replicas": {"node-2": "complete", "node-1": "down"}}
    cluster.groups()[0] = group_object(stable=False, unstableBuckets=[problem], unstableBucketCount=1)
    assert "1        node-2, node-1 (down)   NodeNotReady" in run("show", "sales").stdout


GAP = "groups of other namespaces could not be listed"


def test_a_record_in_a_group_that_may_not_be_listed_is_not_denied(run: Run, cluster: FakeCluster) -> None:
    """The table may exist, and its files are purged after its time; the error and the list of tables report it."""
    dropped(cluster, name="customers")
    cluster.gap = GAP
    done = run("recover", "orders")
    assert done.exit_code == 1
    assert done.stderr.endswith(f"there are: customers; {GAP}\n")
    assert GAP not in run("tables").stdout  # of a tenant without any table in such a group it would be no news
    cluster.tables().append(table_object("clicks", colocateWith="accounts/web"))
    assert run("tables").stdout.splitlines()[-1] == GAP
    assert GAP not in run("tables", "-o", "json").stdout


def test_a_table_comes_back_from_the_named_group_of_another_namespace(
    run: Run, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which one need not list any others, also while it is waited for."""
    group = group_object("sales", tables=["shop/orders*"], recycled=[RECORD])
    group["metadata"]["namespace"] = "accounts"
    cluster.groups().clear()
    cluster.tables().clear()
    asked, annotated = [], []

    def group_of(key: tuple[str, str]) -> dict[str, Any]:
        asked.append(key)
        return group

    def annotate(namespace: str, name: str, annotation: str, value: str) -> None:
        annotated.append((namespace, name))
        group["metadata"]["annotations"] = {annotation: value}

    monkeypatch.setattr(cluster, "group_of", group_of)
    monkeypatch.setattr(cluster, "annotate_group", annotate)
    monkeypatch.setattr(time, "sleep", lambda _: cluster.tables().append(table_object()))
    done = run("recover", "orders", "--group", "accounts/sales")
    assert done.stdout == "table shop/orders is back: snapshot 3, 10 rows, 2.0 KiB\n", done.stderr
    assert (set(asked), annotated) == ({("accounts", "sales")}, [("accounts", "sales")])


@pytest.mark.parametrize("reference", ["", "accounts/", "/sales"])
def test_a_group_that_is_none_is_wrong_usage(run: Run, cluster: FakeCluster, reference: str) -> None:
    """The message has what is allowed."""
    done = run("recover", "orders", "--group", reference)
    assert (done.exit_code, "allowed: NAME, or NAMESPACE/NAME" in done.stderr) == (2, True)
