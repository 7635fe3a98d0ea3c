"""`-A`, `--watch`, and `drain --wait`."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from colocation.cli import draining, nodes, watching
from colocation.cli.draining import Clock, Remaining, describe, remaining_on
from colocation.model.snapshot import Snapshot

from .conftest import FakeCluster, Run, group_object, table_object

MIB = 2**20


def test_all_namespaces_begin_with_the_namespace(run: Run, cluster: FakeCluster) -> None:
    """Of groups and tables; what is wrong is said of NAMESPACE/NAME."""
    other = group_object("ledger", stable=None)
    other["metadata"]["namespace"] = "accounts"
    cluster.groups().append(other)
    refused = table_object("entries")
    refused["metadata"]["namespace"] = "accounts"
    refused["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "GroupFull", "message": "full"}]
    cluster.tables().append(refused)
    header, sales, ledger = run("groups", "-A").stdout.splitlines()
    assert (header.split()[:2], sales.split()[:2], ledger.split()[:2]) == (
        ["NAMESPACE", "NAME"], ["shop", "sales"], ["accounts", "ledger"],
    )  # fmt: skip
    shown = run("tables", "--all-namespaces").stdout
    assert "accounts    entries" in shown
    assert shown.splitlines()[-1] == "accounts/entries: GroupFull: full"


def test_running_clones_say_how_far_they_are(run: Run, cluster: FakeCluster) -> None:
    """Beside their number."""
    cluster.groups()[0]["status"]["clones"] = {"running": 2, "pending": 1, "bytesDone": MIB, "bytesTotal": 4 * MIB}
    assert "2 running (1.0 MiB of 4.0 MiB), 1 pending" in run("groups").stdout


@pytest.fixture
def three_looks(monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster) -> None:
    """A user who presses Ctrl-C at the third look; before the second one nothing changes, before the third one does."""
    looks = iter(range(2))

    def sleep(seconds: float) -> None:
        if next(looks) == 1:
            cluster.groups()[0]["status"]["stable"] = False
        else:
            return
        monkeypatch.setattr(watching.time, "sleep", interrupt)

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watching.time, "sleep", sleep)


def test_watch_prints_what_changed(run: Run, three_looks: None) -> None:
    """Where no terminal is there, each view that differs from the one before; Ctrl-C ends it well."""
    done = run("groups", "--watch")
    assert done.exit_code == 0
    verdicts = [line.split()[5] for line in done.stdout.splitlines() if line.startswith("sales")]
    assert verdicts == ["true", "false"]


def test_watch_is_for_people(run: Run, cluster: FakeCluster) -> None:
    """A program would not know where one document ends."""
    done = run("tables", "-w", "-o", "json")
    assert done.exit_code == 2
    assert "kubectl get --watch" in done.stderr


def snapshot(replicas: int, copied: int = 0) -> Snapshot:
    """node-1 holds the first ``replicas`` of four buckets of 1 MiB; a clone from it has copied some bytes."""
    rows = [["node-1" if bucket < replicas else "node-3", "node-2"] for bucket in range(4)]
    group = {"namespace": "shop", "name": "sales", "spec": {"bucketKey": ["bigint"], "buckets": 4, "replicas": 2},
             "map": rows, "bucketBytes": [MIB] * 4}  # fmt: skip
    clone = {"namespace": "shop", "group": "sales", "bucket": 0, "from": "node-1", "to": "node-3",
             "since": "2026-11-23T00:00:00Z", "bytesDone": copied}  # fmt: skip
    return Snapshot.model_validate({
        "now": "2026-11-23T00:00:00Z", "nodes": [], "groups": [group], "clones": [clone] if copied else [],
    })  # fmt: skip


def test_what_remains_on_a_node() -> None:
    """Replicas by the maps; bytes without those that clones have copied."""
    assert remaining_on(snapshot(2, copied=MIB // 2), "node-1") == Remaining(2, 2 * MIB - MIB // 2)
    assert remaining_on(snapshot(0), "node-1") == Remaining(0, 0)


def test_a_bar_with_bytes_and_rate() -> None:
    """Half of 8 MiB in four seconds."""
    assert describe(Remaining(8, 8 * MIB), Remaining(4, 4 * MIB), 4) == (
        "[##########..........] 4 of 8 replicas left, 4.0 MiB of 8.0 MiB copied, 1.0 MiB/s"
    )
    assert describe(Remaining(2, 0), Remaining(1, 0), 4).startswith("[##########..........] 1 of 2 replicas left")


Look = Callable[[], Snapshot]


@pytest.fixture
def draining_node(monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster) -> Callable[[Iterator[Snapshot]], None]:
    """Time that passes when the command sleeps, and an operator that answers with these snapshots."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def answers(snapshots: Iterator[Snapshot]) -> None:
        def fetch(connection: Any, namespace: str) -> Snapshot:
            return next(snapshots)

        monkeypatch.setattr(nodes, "fetch_snapshot", fetch)
        monkeypatch.setattr(nodes, "CLOCK", Clock(lambda: now[0], sleep))
        monkeypatch.setattr(nodes, "Cluster", lambda context, namespace: cluster)

    return answers


def test_drain_waits_until_the_node_is_empty(run: Run, cluster: FakeCluster, draining_node: Any) -> None:
    """Exit code 0 then; without a terminal, a line for each change."""
    draining_node(snapshot(left) for left in (2, 2, 1, 0))
    done = run("drain", "node-1", "--wait")
    assert (done.exit_code, cluster.drained) == (0, {"node-1": True})
    assert done.stdout == "node node-1 no longer holds replicas\n"
    assert [line.split("] ")[1].split(",")[0] for line in done.stderr.splitlines()] == [
        "2 of 2 replicas left", "1 of 2 replicas left",
    ]  # fmt: skip


def test_drain_gives_up_at_the_timeout(run: Run, cluster: FakeCluster, draining_node: Any) -> None:
    """Exit code 1; it says what is left, that the drain goes on, and how to take it back."""
    draining_node(snapshot(2) for _ in iter(int, 1))
    done = run("drain", "node-1", "--wait", "--timeout", "10")
    assert done.exit_code == 1
    assert "still holds 2 replicas after 10 s; the drain goes on" in done.stderr
    assert "colocation undrain node-1" in done.stderr


def test_a_timeout_without_wait_is_wrong_usage(run: Run, cluster: FakeCluster) -> None:
    """Nothing is drained."""
    done = run("drain", "node-1", "--timeout", "10")
    assert (done.exit_code, cluster.drained) == (2, {})
    assert draining.INTERVAL_SECONDS < 10
