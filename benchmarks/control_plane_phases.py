"""The phases of the control plane's benchmark, all bounded in time; control_plane.py explains each figure."""

import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import quantiles

from benchmarks import control_plane_objects as objects
from benchmarks.apiserver import ApiServer
from benchmarks.control_plane_objects import ClusterSize, Json
from benchmarks.control_plane_population import TABLES_PATH, commit, heartbeats_for, object_path
from benchmarks.fake_agents import FakeAgents
from benchmarks.group_watch import GroupKey, GroupWatch, GroupWord
from benchmarks.operator_process import OperatorProcess
from colocation.model.names import table_directory

WATCHED = ("colocationgroups", "colocatedtables", "nodes", "pods", "jobs")
DEFAULT_RESYNC_SECONDS = 300
"""Of the chart."""
CALM_SECONDS = 12.0
"""Without a call: the first passes after a change are over."""
ANSWER_SECONDS = 120.0
"""The longest that one answer is waited for."""
COMMIT_SECONDS = 0.5
"""Between two commits."""
LOADED_BYTES = 16 << 20
ALWAYS = ("leases", "watch ", "patch configmaps")
"""Calls that come however quiet it is: ConfigMaps are renewed by turns."""


@dataclass(frozen=True)
class Row:
    """How much there is, and how long it is looked at.

    ``is_placed``: whether the groups are as an earlier operator left them. ``resync_seconds``: between the operator's
    full lists in this run; the figures count them as if they came every five minutes, as the chart has it.
    """

    size: ClusterSize
    is_placed: bool
    quiet_seconds: float = 60
    resync_seconds: int = 240
    changes: int = 100
    commits: int = 60
    settle_seconds: float = 300


@dataclass(frozen=True)
class Bench:
    """All that runs."""

    row: Row
    server: ApiServer
    agents: FakeAgents
    operator: OperatorProcess
    watch: GroupWatch


def first_pass(bench: Bench) -> float:
    """Starts the operator."""
    groups = bench.row.size.groups
    bench.watch.wait_until(
        lambda words: len(words) == groups and not any(word.is_answered for word in words.values()),
        ANSWER_SECONDS,
        "no group has an answer",
    )
    bench.operator.start(bench.row.resync_seconds)
    wait_until_settled(bench, are_loaded=True)
    last = max(word.heard_at for word in bench.watch.words.values())
    return round(last - bench.operator.started_at, 1)


def wait_until_settled(bench: Bench, are_loaded: bool = False) -> None:
    """Until the status of every group answers, with all its tables, and with their snapshots if they are loaded."""
    size = bench.row.size

    def is_settled(words: Mapping[GroupKey, GroupWord]) -> bool:
        answered = [word for word in words.values() if word.is_answered]
        tables = [min(word.tables, len(word.snapshots)) if are_loaded else word.tables for word in answered]
        return len(answered) == size.groups and sum(tables) == size.tables

    bench.watch.wait_until(is_settled, bench.row.settle_seconds, "all groups are stable with all their tables")


def wait_until_calm(bench: Bench) -> None:
    """Until the operator has asked for nothing for a while, but for what it always does.

    Raises:
        RuntimeError: it does not come to rest.
    """
    started = since = time.monotonic()
    before = _other_calls(bench.server.audited())
    while time.monotonic() - since < CALM_SECONDS:
        if time.monotonic() - started > bench.row.settle_seconds:
            raise RuntimeError(f"the operator does not come to rest: {bench.server.audited()}")
        time.sleep(0.5)
        now = _other_calls(bench.server.audited())
        if now != before:
            before, since = now, time.monotonic()


def _other_calls(calls: Counter[str]) -> Counter[str]:
    return Counter({call: count for call, count in calls.items() if not any(word in call for word in ALWAYS)})


def quiet(bench: Bench) -> Json:
    """Calls, events, inventories and processor time while nothing changes, between two full lists."""
    server, seconds = bench.server, bench.row.quiet_seconds
    while True:
        calls, events, cpu = server.audited(), server.watch_events(WATCHED), bench.operator.cpu_seconds()
        asked, started = bench.agents.counts(), time.monotonic()
        heartbeats_for(server, bench.row.size, seconds)
        minutes = (time.monotonic() - started) / 60
        made = server.audited() - calls
        inventories = [after - then for after, then in zip(bench.agents.counts(), asked, strict=True)]
        if not any(call.startswith("list ") for call in made):
            return {
                "api_calls_per_minute_between_lists": round(made.total() / minutes, 2),
                "cpu_seconds_per_minute_between_lists": round((bench.operator.cpu_seconds() - cpu) / minutes, 2),
                "quiet_seconds": seconds,
                "by_call": dict(made),
                "watch_events": server.watch_events(WATCHED) - events,
                "inventories_quiet": inventories[0],
                "inventories_unchanged": inventories[1],
            }


def resync(bench: Bench, quiet: Json) -> Json:
    """The next full list of everything: its calls and processor time, and with their share the quiet figures."""
    wait_until_calm(bench)
    calls, cpu, started = bench.server.audited(), bench.operator.cpu_seconds(), time.monotonic()
    while not any(call.startswith("list ") for call in bench.server.audited() - calls):
        if time.monotonic() - started > bench.row.resync_seconds + ANSWER_SECONDS:
            raise RuntimeError(f"no full list within {bench.row.resync_seconds} s: {bench.server.audited() - calls}")
        time.sleep(0.5)
    wait_until_calm(bench)
    minutes = (time.monotonic() - started) / 60
    made = bench.server.audited() - calls
    listed = _other_calls(made)
    between = quiet["cpu_seconds_per_minute_between_lists"]
    cpu_seconds = max(0.0, bench.operator.cpu_seconds() - cpu - between * minutes)
    share = 60 / DEFAULT_RESYNC_SECONDS
    per_minute = quiet["api_calls_per_minute_between_lists"] + listed.total() * share
    return {
        "api_calls_per_minute_quiet": round(per_minute, 1),
        "cpu_seconds_per_minute_quiet": round(between + cpu_seconds * share, 2),
        **quiet,
        "calls_per_resync": listed.total(),
        "cpu_seconds_per_resync": round(cpu_seconds, 2),
        "by_call_resync": dict(made),
    }


def spec_changes(bench: Bench) -> Json:
    """Changes of groups' specs, one at a time."""
    keys, taken = bench.row.size.group_keys, []
    for number in range(bench.row.changes):
        namespace, name = key = keys[number * 7 % len(keys)]
        body = {"spec": {"balancing": {"maxConcurrentClones": 5 + number // len(keys)}}}
        started = time.monotonic()
        changed = bench.server.request("PATCH", object_path(namespace, "colocationgroups", name), body)
        generation = changed["metadata"]["generation"]

        def is_answered(words: Mapping[GroupKey, GroupWord], key: GroupKey = key, generation: int = generation) -> bool:
            return words[key].observed_generation == generation

        bench.watch.wait_until(is_answered, ANSWER_SECONDS, f"the change of {key} is answered")
        taken.append((bench.watch.words[key].heard_at - started) * 1000)
    cuts = quantiles(taken, n=100, method="inclusive")
    return {"reconcile_p50_ms": round(cuts[49], 1), "reconcile_p99_ms": round(cuts[98], 1)}


def commits(bench: Bench) -> Json:
    """Loads of tables at a steady pace; each is one snapshot, whose files lie on the table's nodes by then."""
    bodies = bench.server.request("GET", TABLES_PATH)["items"]
    chosen = random.Random(0).sample(bodies, min(bench.row.commits, len(bodies)))
    committed_at: dict[str, float] = {}
    answered_at: dict[str, float] = {}
    unstable_words = 0

    def listen(_: GroupKey, word: GroupWord) -> None:
        nonlocal unstable_words
        unstable_words += not word.stable
        for uid, snapshot_id in word.snapshots.items():
            if word.stable and snapshot_id == 2 and uid in committed_at:
                answered_at.setdefault(uid, word.heard_at)

    bench.watch.listeners.append(listen)
    began = time.monotonic()
    for number, table in enumerate(chosen):
        time.sleep(max(0.0, began + number * COMMIT_SECONDS - time.monotonic()))
        _stage(bench, table)
        committed_at[table["metadata"]["uid"]] = time.monotonic()
        bench.server.request(*commit(table["metadata"], 2))
    bench.watch.wait_until(
        lambda _: answered_at.keys() == committed_at.keys(), ANSWER_SECONDS, f"all {len(chosen)} commits are answered"
    )
    bench.watch.listeners.remove(listen)
    taken = [answered_at[uid] - moment for uid, moment in committed_at.items()]
    cuts = quantiles(taken, n=100, method="inclusive")
    return {
        "commit_to_status_p50_seconds": round(cuts[49], 2),
        "commit_to_status_p99_seconds": round(cuts[98], 2),
        "commits": len(taken),
        "unstable_words": unstable_words,
    }


def _stage(bench: Bench, table: Json) -> None:
    metadata = table["metadata"]
    word = bench.watch.words[metadata["namespace"], table["spec"]["colocateWith"]]
    nodes = sorted({node for row in word.rows for node in row})
    directory = table_directory(metadata["name"], metadata["uid"])
    bench.agents.stage(metadata["namespace"], directory, nodes, LOADED_BYTES)


def lose_node(bench: Bench) -> float:
    """Seconds until all groups of a lost node say so."""
    node = bench.row.size.node_names[-1]
    words = bench.watch.words
    struck = {key for key, word in words.items() if any(node in row for row in word.rows)}
    bench.agents.lose(node)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    started = time.monotonic()
    bench.server.request("PATCH", f"/api/v1/nodes/{node}/status", objects.node_status(ready=False, since=now))
    bench.watch.wait_until(
        lambda words: all(words[key].stable is False for key in struck), ANSWER_SECONDS, f"{struck} are unstable"
    )
    return round(max(bench.watch.words[key].heard_at for key in struck) - started, 2)
