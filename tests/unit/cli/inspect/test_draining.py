"""`drain --wait`, and the nodes' replicas: also those of groups that the operator leaves out of its snapshot."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import ProtocolError

from colocation.cli.errors import CommandFailed
from colocation.cli.inspect import nodes
from colocation.cli.inspect.nodes import Clock, Remaining, describe, left_out_of, remaining_on
from colocation.cli.port_forward import PodUnreachable
from colocation.model.snapshot import Snapshot

from ..conftest import FakeCluster, Run, group_object

MIB = 2**20


def snapshot(replicas: int, copied: int = 0, drain: bool = True) -> Snapshot:
    """node-1 holds the first ``replicas`` of four buckets of 1 MiB; a clone from it has copied some bytes.

    ``drain``: whether the operator has seen that node-1 is drained.
    """
    rows = [["node-1" if bucket < replicas else "node-3", "node-2"] for bucket in range(4)]
    group = {"namespace": "shop", "name": "sales", "spec": {"bucketKey": ["bigint"], "buckets": 4, "replicas": 2},
             "map": rows, "bucketBytes": [MIB] * 4, "held": held(rows)}  # fmt: skip
    clone = {"namespace": "shop", "group": "sales", "bucket": 0, "from": "node-1", "to": "node-3",
             "since": "2026-11-23T00:00:00Z", "bytesDone": copied}  # fmt: skip
    return Snapshot.model_validate({
        "now": "2026-11-23T00:00:00Z", "nodes": three_nodes(drain), "groups": [group],
        "clones": [clone] if copied else [],
    })  # fmt: skip


def held(rows: list[list[str]]) -> dict[str, dict[int, str]]:
    """All replicas of a map are complete."""
    names = {node for nodes in rows for node in nodes}
    return {name: {bucket: "complete" for bucket, nodes in enumerate(rows) if name in nodes} for name in names}


def three_nodes(drain: bool) -> list[dict[str, Any]]:
    """Nodes with room. ``drain``: of node-1."""
    room = {"ready": True, "capacityBytes": 100 * MIB, "freeBytes": 90 * MIB}
    return [{"name": f"node-{number}", "drain": drain and number == 1, **room} for number in (1, 2, 3)]


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


Seen = Snapshot | Exception


@pytest.fixture
def draining_node(monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster) -> Callable[[Iterator[Seen]], None]:
    """Time that passes when the command sleeps, and an operator that answers with these snapshots and errors."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def answers(snapshots: Iterator[Seen]) -> None:
        def fetch(connection: Any, namespace: str) -> Snapshot:
            seen = next(snapshots)
            if isinstance(seen, Exception):
                raise seen
            return seen

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
    """Exit code 1; the message has what is left, that the drain goes on, and how to undo it."""
    draining_node(snapshot(2) for _ in iter(int, 1))
    done = run("drain", "node-1", "--wait", "--timeout", "10")
    assert done.exit_code == 1
    assert "still holds 2 replicas after 10 s; the drain goes on" in done.stderr
    assert "colocation undrain node-1" in done.stderr


def test_a_timeout_without_wait_is_wrong_usage(run: Run, cluster: FakeCluster) -> None:
    """Nothing is drained."""
    done = run("drain", "node-1", "--timeout", "10")
    assert (done.exit_code, cluster.drained) == (2, {})
    assert nodes.INTERVAL_SECONDS < 10


def said(reason: str, message: str) -> list[dict[str, str]]:
    return [{"type": "Ready", "status": "False", "reason": reason, "message": message}]


INVALID, RECOVERING = said("InvalidSpec", "spec.buckets is 0; correct the spec"), said("Recovering", "wait")


def left_out(**status: Any) -> dict[str, Any]:
    """A group with the operator's reason why it is not in the snapshot."""
    group = group_object("broken", **{"stable": False, "reason": "InvalidSpec", "conditions": INVALID, **status})
    group["metadata"]["namespace"] = "lake"
    return group


def forever(seen: Seen) -> Iterator[Seen]:
    return iter(lambda: seen, None)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param({}, "still holds 2 replicas after 10 s; nothing moves of group lake/broken (InvalidSpec: "
                     "spec.buckets is 0; correct the spec); the drain goes on", id="its map names the node"),
        pytest.param({"backendsPerBucketSeq": None, "reason": "Recovering", "conditions": RECOVERING},
                     "of group lake/broken (Recovering: wait); it is not known yet which nodes hold its files",
                     id="its files are looked for"),
        pytest.param({"backendsPerBucketSeq": [["node-1"], 7]}, "it is not known yet which nodes hold its files",
                     id="a map that cannot be read"),
        pytest.param({"reason": None, "conditions": []},
                     "the operator has not said why: colocation show broken -n lake", id="not said why"),
    ],
)  # fmt: skip
def test_a_group_that_is_left_out_keeps_its_node(
    run: Run, cluster: FakeCluster, draining_node: Any, status: dict[str, Any], words: str
) -> None:
    """The operator moves nothing of it: with the machine its rows would go."""
    cluster.groups().append(left_out(**status))
    draining_node(forever(snapshot(0)))
    done = run("drain", "node-1", "--wait", "--timeout", "10")
    assert (done.exit_code, done.stdout) == (1, "")
    assert words in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"backendsPerBucketSeq": [["node-2", "node-3"]]}, id="on other nodes"),
        pytest.param({"backendsPerBucketSeq": None}, id="never placed"),
    ],
)
def test_a_group_that_is_left_out_hinders_no_other_node(
    run: Run, cluster: FakeCluster, draining_node: Any, status: dict[str, Any]
) -> None:
    """One wrong spec is no reason to stop all drains."""
    cluster.groups().append(left_out(**status))
    draining_node(forever(snapshot(0)))
    assert run("drain", "node-1", "--wait").exit_code == 0


def test_a_group_that_is_mended_goes(run: Run, cluster: FakeCluster, draining_node: Any) -> None:
    """What holds the drain up is said meanwhile."""
    cluster.groups().append(left_out())

    def answers() -> Iterator[Seen]:
        yield snapshot(0)
        cluster.groups().pop()
        yield snapshot(0)

    draining_node(answers())
    done = run("drain", "node-1", "--wait")
    assert done.exit_code == 0
    assert "2 of 2 replicas left, 0 B of 0 B copied; nothing moves of group lake/broken (InvalidSpec" in done.stderr


def refuse() -> list[dict[str, Any]]:
    raise ApiException(status=403, reason="Forbidden")


def test_a_drain_without_the_right_to_list_groups_does_not_succeed(
    run: Run, cluster: FakeCluster, draining_node: Any
) -> None:
    """Then it is not known whether a group was left out; the message names the role with the right."""
    cluster.all_groups = refuse  # type: ignore[method-assign]
    draining_node(forever(snapshot(0)))
    done = run("drain", "node-1", "--wait")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "it is not known whether all replicas are counted" in done.stderr
    assert "ClusterRole colocation-admin" in done.stderr and "the drain goes on" in done.stderr


def test_a_drain_waits_until_the_operator_has_seen_it(run: Run, cluster: FakeCluster, draining_node: Any) -> None:
    """Before, it may still give the node replicas."""
    draining_node(iter([snapshot(0, drain=False), snapshot(0)]))
    done = run("drain", "node-1", "--wait")
    assert done.exit_code == 0
    assert "the operator has not seen the drain yet" in done.stderr


NO_ANSWER = CommandFailed("the operator's pod does not answer")
RESTARTING = ApiException(status=503, reason="restarting")


@pytest.mark.parametrize("error", [NO_ANSWER, RESTARTING, ProtocolError("reset")])
def test_a_drain_outlives_a_restart(
    run: Run, cluster: FakeCluster, draining_node: Any, error: Exception
) -> None:
    """Of the API server or the operator, for a minute."""
    draining_node(iter([snapshot(2), *[error] * 30, snapshot(1), *[error] * 30, snapshot(0)]))
    done = run("drain", "node-1", "--wait")
    assert done.exit_code == 0, done.stderr
    assert "it is not known what node node-1 still holds: " in done.stderr


def forbidden() -> CommandFailed:
    error = CommandFailed("the operator's pod does not answer: forbidden")
    error.__cause__ = PodUnreachable("forbidden", forbidden=True)
    return error


@pytest.mark.parametrize(
    ("error", "options", "seconds"),
    [
        pytest.param(NO_ANSWER, [], 60, id="it stays away"),
        pytest.param(RESTARTING, ["--timeout", "10"], 10, id="longer than the user waits"),
        pytest.param(ApiException(status=403, reason="Forbidden"), [], 0, id="a right that is missing"),
        pytest.param(forbidden(), [], 0, id="no right to reach the operator"),
    ],
)
def test_a_drain_that_cannot_be_watched_goes_on(
    run: Run, cluster: FakeCluster, draining_node: Any, error: Exception, options: list[str], seconds: float
) -> None:
    """The error has that, with the way back."""
    draining_node(forever(error))
    done = run("drain", "node-1", "--wait", *options)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].endswith(
        "; the drain goes on: colocation nodes; take it back: colocation undrain node-1"
    )
    assert nodes.CLOCK.now() == seconds


def test_nodes_count_replicas_of_groups_that_are_left_out(
    run: Run, cluster: FakeCluster, draining_node: Any
) -> None:
    """And names groups of which nothing moves; without the right to list groups it warns that they are not counted."""
    cluster.groups().append(left_out())
    draining_node(forever(snapshot(1)))
    shown = run("nodes").stdout
    assert shown.splitlines()[1].split()[5] == "3"
    assert "nothing moves of group lake/broken (InvalidSpec: spec.buckets is 0" in shown
    cluster.all_groups = refuse  # type: ignore[method-assign]
    shown = run("nodes").stdout
    assert shown.splitlines()[1].split()[5] == "1"
    assert "it is not known whether all replicas are counted" in shown


def crowded() -> Snapshot:
    """node-1 is drained, but a group of three replicas has three nodes."""
    rows = [["node-1", "node-2", "node-3"]]
    group = {"namespace": "shop", "name": "sales", "spec": {"bucketKey": ["bigint"], "buckets": 1, "replicas": 3},
             "map": rows, "bucketBytes": [MIB], "held": held(rows)}  # fmt: skip
    return Snapshot.model_validate({"now": "2026-11-23T00:00:00Z", "nodes": three_nodes(True), "groups": [group]})


def test_a_drain_names_what_keeps_replicas_on_the_node(run: Run, cluster: FakeCluster, draining_node: Any) -> None:
    """While it waits, when it gives up, and in the list of nodes; nodes that are not drained have no such line."""
    draining_node(forever(crowded()))
    why = "group shop/sales cannot leave it: InsufficientNodes: bucket 0: 3 replicas need as many nodes"
    done = run("drain", "node-1", "--wait", "--timeout", "2")
    assert done.stderr.startswith(f"[....................] 1 of 1 replica left, 0 B of 1.0 MiB copied; {why}")
    assert f"node node-1 still holds 1 replica after 2 s; {why}" in done.stderr
    shown = run("nodes").stdout
    assert shown.count(why) == 1 and f"node node-1: {why}" in shown


def test_an_empty_drained_node_tells_what_kubectl_waits_for(
    run: Run, cluster: FakeCluster, draining_node: Any
) -> None:
    """And not while it holds replicas, or is not drained."""
    draining_node(iter([snapshot(0), snapshot(1), snapshot(0, drain=False)]))
    why = "node node-1 is empty: a kubectl drain goes on 150 s after the last replica went"
    assert [why in run("nodes").stdout for _ in range(3)] == [True, False, False]


def test_many_left_out_groups_in_one_line() -> None:
    """The first three, and how many more."""
    groups = [left_out() for _ in range(5)]
    listed = nodes.describe_left_out(left_out_of(snapshot(0), groups))
    assert listed.count("lake/broken") == 3
    assert listed.endswith("; and 2 more groups like these")


def test_a_drain_that_is_interrupted_before_its_answer_names_what_goes_on(
    run: Run, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the API server has taken the request is not known."""

    def interrupted(_node: str, *, drain: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(nodes, "Cluster", lambda *_: cluster)
    monkeypatch.setattr(cluster, "set_drain", interrupted)
    done = run("drain", "node-1", "--wait")
    goes_on = "if the drain has begun, it goes on: colocation nodes; take it back: colocation undrain node-1"
    assert (done.exit_code, done.stderr) == (1, f"error: interrupted; {goes_on}\n")
