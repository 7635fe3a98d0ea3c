"""`make bench-control-plane` at its smallest: it measures what it claims, and a quiet operator is quiet."""

import asyncio
import json
from pathlib import Path

import pytest

from benchmarks.control_plane import Row, measure
from benchmarks.control_plane_objects import ClusterSize, Json
from benchmarks.fake_node import FakeNode, HeldTable, Refused, buckets_json

FIELDS = {
    "groups", "tables", "nodes", "api_calls_per_minute_quiet", "watch_events", "reconcile_p50_ms", "reconcile_p99_ms",
    "peak_rss_mib", "first_pass_seconds", "cpu_seconds_per_minute_quiet", "commit_to_status_p99_seconds",
    "node_lost_to_status_seconds", "first_placement_seconds",
}  # fmt: skip
ALWAYS = ("watch ", "get leases", "update leases", "patch leases")
SMALLEST = Row(
    ClusterSize(nodes=3, groups=3, tables=6), is_placed=False,
    quiet_seconds=11, resync_seconds=50, changes=5, commits=4, settle_seconds=60,
)  # fmt: skip


@pytest.mark.deep
def test_quiet_operator_asks_for_nothing(tmp_path: Path) -> None:
    """While only nodes' heartbeats come it sends no request but for its Lease and to begin watches again."""
    measured = measure(SMALLEST, tmp_path)
    assert measured.keys() >= FIELDS
    assert (measured["groups"], measured["tables"], measured["nodes"]) == (3, 6, 3)
    assert all(call.startswith(ALWAYS) for call in measured["by_call"]), measured["by_call"]
    assert measured["inventories_quiet"] == measured["inventories_unchanged"]
    assert measured["watch_events"] >= 1
    assert measured["calls_per_resync"] == 10, measured["by_call_resync"]  # lists of eight kinds and of both CRDs
    assert 0 < measured["reconcile_p50_ms"] <= measured["reconcile_p99_ms"]
    assert 0 < measured["commit_to_status_p50_seconds"] <= measured["commit_to_status_p99_seconds"]
    assert measured["unstable_words"] == 0


def asked(directory: str, manifest: str) -> Json:
    """A table of a question."""
    return {"reference": {"namespace": "shop", "directory": directory, "manifest": manifest}, "uid": "u"}


def question(number: int, base: int | None, *changed: Json, wait_seconds: float = 0, term: int = 1) -> Json:
    """One question of a session."""
    return {
        "session": "s", "number": number, "base": base, "changed": changed, "waitSeconds": wait_seconds, "term": term,
    }  # fmt: skip


@pytest.fixture
def node() -> FakeNode:
    """An agent that holds two tables."""
    found = FakeNode("node-1", "i")
    for directory in ("a", "b"):
        found.hold(f"shop/{directory}", HeldTable("shop", directory, buckets_json((0,))))
    return found


async def answer(node: FakeNode, request: Json, known: str | None) -> tuple[str, bool, list[str], list[str]]:
    """(revision as it comes back, whether all is reported, folders reported, unknown ones)."""
    content = await node.inventory(request, known)
    assert content is not None
    report = json.loads(content)
    shown = [one["directory"] for one in report["tables"]]
    return f'"{report["revision"]}"', report["isFull"], shown, report["unknownDirectories"]


async def test_fake_agent_answers_with_what_changed(node: FakeNode) -> None:
    """In full first, then the tables that a question or a load changed; folders that no one asks about are unknown."""
    known, *first = await answer(node, question(1, None, asked("a", "1")), None)
    assert first == [True, ["a"], ["shop/b"]]
    known, *second = await answer(node, question(2, 1, asked("b", "1")), known)
    assert second == [False, ["b"], []]
    assert await node.inventory(question(2, 1, asked("b", "1")), known) is None
    node.stage("shop/a", 5)
    known, *third = await answer(node, question(2, 2), known)
    assert third == [False, ["a"], []]


async def test_fake_agent_holds_its_answer(node: FakeNode) -> None:
    """Until something changes; a newer question ends it."""
    known, *_ = await answer(node, question(1, None, asked("a", "1")), None)
    held = asyncio.create_task(node.inventory(question(1, 1, wait_seconds=60), known))
    await asyncio.sleep(0)
    node.stage("shop/a", 5)
    assert await held is not None
    known, *_ = await answer(node, question(1, 1), known)
    held = asyncio.create_task(node.inventory(question(1, 1, wait_seconds=60), known))
    await asyncio.sleep(0)
    assert await node.inventory(question(2, 1, asked("b", "1")), known) is not None
    assert await held is None


async def test_fake_agent_refuses_what_it_cannot_follow(node: FakeNode) -> None:
    """A base that it does not remember, and an older term."""
    await answer(node, question(1, None, asked("a", "1"), term=2), None)
    for request, reason in ((question(3, 2, term=2), "UnknownQuestion"), (question(2, 1, term=1), "StaleTerm")):
        with pytest.raises(Refused, match=reason):
            await node.inventory(request, None)
