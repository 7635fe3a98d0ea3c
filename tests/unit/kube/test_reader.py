"""What a pass sees: everything as it is at one moment, whatever changes while it is put together."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from colocation.kube import reader as module
from colocation.kube.api import (
    CLAIMS,
    GROUPS,
    NAMESPACES,
    NODES,
    PODS,
    TABLES,
    VOLUMES,
    ApiError,
    Expired,
    Listing,
    NotFound,
    Resource,
)
from colocation.kube.reader import LiveCluster
from colocation.state.agent_view import AgentView
from colocation.state.observation import BucketBytes

from ..state.objects import NOW, seconds

CREATED = "2026-11-21T11:00:00Z"
MANIFEST = f"sha256:{'a' * 64}"


def body(name: str, version: int, namespace: str = "shop", **parts: Any) -> dict[str, Any]:
    metadata = {
        "name": name, "namespace": namespace, "uid": f"{sum(name.encode()):08d}-{name}",
        "resourceVersion": str(version), "creationTimestamp": CREATED, **parts.pop("metadata", {}),
    }  # fmt: skip
    return {"metadata": metadata, **parts}


def group(version: int = 1, map_version: int = 1, nodes: tuple[str, ...] = ("node-1",)) -> dict[str, Any]:
    spec = {"bucketKey": ["bigint"], "buckets": 1, "replicas": 1}
    return body("sales", version, spec=spec, status={"backendsPerBucketSeq": [nodes], "mapVersion": map_version})


def table(version: int = 2, manifest: str = MANIFEST, name: str = "orders") -> dict[str, Any]:
    snapshot = {"id": version, "manifest": manifest, "committedAt": CREATED}
    spec = {"colocateWith": "sales", "columns": [{"name": "k", "type": "bigint"}], "bucketedBy": ["k"]}
    return body(name, version, spec=spec, status={"group": "sales", "snapshot": snapshot})


def node(version: int = 3) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": CREATED}
    return body("node-1", version, namespace="", status={"conditions": [ready]})


def pod(version: int = 4, address: str = "10.0.0.1") -> dict[str, Any]:
    return body("agent-1", version, "system", spec={"nodeName": "node-1"}, status={"podIP": address})


class FakeApi:
    """Lists what it was given."""

    def __init__(self) -> None:
        self.objects: dict[Resource, list[Any]] = {}
        self.history: list[Any] = []
        self.watched_since: list[str] = []
        self.remembers_since = 0
        self.others: list[dict[str, Any]] = []
        self.namespace_uid = "uid-shop"
        self.read: list[tuple[Resource, str, str]] = []
        self.while_reading: Callable[[], object] = lambda: None

    async def list_into(self, listing: Listing, resource: Resource, namespace: str = "", labels: str = "") -> int:
        listing.begin()
        for one in self.objects.get(resource, []):
            if isinstance(one, Exception):
                raise one
            listing.take(one)
        return 100

    async def watch(self, resource: Resource, namespace: str, labels: str, version: str) -> AsyncGenerator[Any, None]:
        self.watched_since.append(version)
        if int(version) < self.remembers_since:
            raise Expired(410, f"watch: too old resource version: {version} ({self.remembers_since})")
        for one in self.history:
            if isinstance(one, Exception):
                raise one
            yield one
        await asyncio.Event().wait()

    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        self.while_reading()
        self.read.append((resource, namespace, name))
        if resource != NAMESPACES and not self.others:
            raise NotFound(404, "it is gone")
        return self.others[0] if resource != NAMESPACES else {"metadata": {"uid": self.namespace_uid}}


class FakeInventories:
    """Remembers what it was asked; something may happen while it waits."""

    def __init__(self) -> None:
        self.version = 0
        self.views: dict[str, AgentView] = {}
        self.bucket_bytes: dict[tuple[str, str, str], BucketBytes] = {}
        self.forgotten: set[tuple[str, str, str]] = set()
        self.asked: list[tuple[Mapping[str, Any], frozenset[str]]] = []
        self.while_asking: Callable[[], object] = lambda: None

    async def ask(
        self, urls: Mapping[str, str | None], waited_for: Any, questions: Mapping[str, Any], again: Any = ()
    ) -> None:
        self.asked.append((dict(questions), frozenset(again)))
        self.while_asking()

    def forget_bytes(self, keys: set[tuple[str, str, str]]) -> None:
        self.forgotten |= keys

    def keep_bytes(self, keys: Any) -> None:
        """Nothing is kept here."""


class Setting:
    def __init__(self, folder: Path) -> None:
        self.now: datetime = NOW
        self.api, self.inventories = FakeApi(), FakeInventories()
        self.cluster = LiveCluster(
            self.api, "system", lambda: self.now, self.inventories, folder / "ca.crt", lambda: 7  # type: ignore[arg-type]
        )  # fmt: skip
        for resource, one in ((GROUPS, group()), (TABLES, table()), (NODES, node()), (PODS, pod())):
            self.cluster.take(resource, one)

    def let_pass(self) -> None:
        """A few seconds."""
        self.now += seconds(3)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


CHANGES = {
    "a commit": (TABLES, table(20, f"sha256:{'b' * 64}")),
    "a new table": (TABLES, table(20, name="lines")),
    "a new map": (GROUPS, group(20, map_version=2)),
    "a new agent": (PODS, pod(20, "10.0.0.9")),
}


@pytest.mark.parametrize(("resource", "changed"), list(CHANGES.values()), ids=list(CHANGES))
@pytest.mark.parametrize("moment", ["while agents are asked", "while namespaces are read"])
async def test_what_changes_meanwhile_is_seen_or_has_a_later_version(
    setting: Setting, resource: Resource, changed: dict[str, Any], moment: str
) -> None:
    """A pass that takes an observation of this version for the newest must not miss it until the next full list."""

    def change() -> None:
        setting.cluster.take(resource, changed)

    if moment == "while agents are asked":
        setting.inventories.while_asking = change
    else:
        setting.api.while_reading = change
    seen = await setting.cluster.observe()
    setting.inventories.while_asking = setting.api.while_reading = lambda: None
    later = await setting.cluster.observe()
    parts = ("groups", "tables", "agents")
    same = all(getattr(seen, part) == getattr(later, part) for part in parts)
    assert same or seen.version != later.version


async def test_commit_is_seen_by_the_pass_that_its_event_came_in(setting: Setting) -> None:
    """The observation is taken after all waiting."""
    setting.inventories.while_asking = lambda: setting.cluster.take(TABLES, table(20, f"sha256:{'b' * 64}"))
    seen = await setting.cluster.observe()
    assert seen.tables[0].reference.manifest == "b" * 64


async def test_observation_reports_who_leads_and_since_when_things_are_seen(setting: Setting) -> None:
    """What is new has been seen since it was first looked at: what is there at the first look may be newer than the
    questions that agents were asked before it.
    """
    orders, lines = (f"{sum(name.encode()):08d}-{name}" for name in ("orders", "lines"))
    setting.inventories.while_asking = setting.let_pass
    first = await setting.cluster.observe()
    setting.inventories.while_asking = lambda: None
    assert (first.term, first.started_at, dict(first.tables_seen_at)) == (7, NOW, {})
    assert first.snapshots_seen_at == {orders: setting.now}
    setting.now += seconds(10)
    setting.cluster.take(TABLES, table(20, f"sha256:{'b' * 64}"))
    setting.cluster.take(TABLES, table(21, name="lines"))
    second = await setting.cluster.observe()
    assert second.snapshots_seen_at == dict.fromkeys((orders, lines), setting.now)
    assert second.tables_seen_at == {lines: setting.now}
    setting.now += seconds(301)
    third = await setting.cluster.observe()
    assert (third.snapshots_seen_at, third.started_at) == ({}, NOW)


@pytest.mark.parametrize(
    ("silent_seconds", "is_ready", "waited_seconds"),
    [
        pytest.param(0, True, 0, id="answers at once"),
        pytest.param(20, True, 20, id="answers after a while"),
        pytest.param(99, True, 30, id="does not answer"),
        pytest.param(99, False, 0, id="the node is down"),
    ],
)
async def test_a_start_waits_for_agents_of_ready_nodes_and_only_so_long(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, silent_seconds: int, is_ready: bool, waited_seconds: int
) -> None:
    """Nothing may be decided without knowing what a node holds; a dead agent must not hold up repairs for good."""
    monkeypatch.setattr(module, "START_POLL_SECONDS", 0)
    if not is_ready:
        ready = {"type": "Ready", "status": "Unknown", "lastTransitionTime": CREATED}
        setting.cluster.take(NODES, body("node-1", 9, namespace="", status={"conditions": [ready]}))
    views = setting.inventories.views = {"node-1": AgentView(silent_since=NOW)}

    def let_pass() -> None:
        if setting.now - NOW >= seconds(silent_seconds):
            views["node-1"] = AgentView(answered_at=setting.now)
        else:
            setting.now += seconds(1)

    setting.inventories.while_asking = let_pass
    seen = await setting.cluster.observe()
    assert (seen.now - NOW).total_seconds() == pytest.approx(waited_seconds, abs=1)
    views["node-1"] = AgentView(silent_since=setting.now)
    later = await setting.cluster.observe()
    assert later.now - seen.now <= seconds(1), "only at the start"


async def test_agents_are_asked_about_their_tables_and_again_after_a_new_map(setting: Setting) -> None:
    """Deletions wait for an answer that is newer than the pass in which the map was first seen."""
    await setting.cluster.observe()
    assert [key[1].partition("-")[0] for key in setting.inventories.asked[0][0]["node-1"]] == ["orders"]
    setting.inventories.views["node-1"] = AgentView(answered_at=NOW + seconds(1))
    setting.inventories.asked.clear()
    await setting.cluster.observe()
    setting.now += seconds(5)
    setting.cluster.take(GROUPS, group(20, map_version=2))
    await setting.cluster.observe()
    setting.inventories.views["node-1"] = AgentView(answered_at=setting.now)
    setting.now += seconds(5)
    await setting.cluster.observe()
    setting.inventories.views["node-1"] = AgentView(answered_at=setting.now)
    await setting.cluster.observe()
    assert [again for _, again in setting.inventories.asked] == [set(), set(), {"node-1"}, set()]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": None}, id="no metadata"),
        pytest.param({"metadata": {"name": "odd"}}, id="no resource version"),
        pytest.param({"metadata": {"name": "odd", "resourceVersion": "soon"}}, id="odd resource version"),
        pytest.param(["a", "list"], id="no object"),
        pytest.param(None, id="null"),
        pytest.param(
            {"metadata": {"name": "odd", "namespace": "shop", "resourceVersion": "9", "labels": None}}, id="labels null"
        ),
    ],
)
@pytest.mark.parametrize("resource", [GROUPS, TABLES, NODES, PODS], ids=lambda one: one.plural)
async def test_object_that_is_none_does_no_harm(setting: Setting, resource: Resource, broken: Any) -> None:
    """It is left out, with a line in the log, whether a watch or a list brings it, new or deleted."""
    setting.cluster.take(resource, broken)
    setting.cluster.take(resource, broken, deleted=True)
    setting.api.objects = {GROUPS: [group(9)], TABLES: [table(9)], NODES: [node(9)], PODS: [pod(9)]}
    setting.api.objects[resource].append(broken)
    for kind in setting.cluster.kinds:
        await setting.cluster.list_again(kind)
    seen = await setting.cluster.observe()
    assert [one.identity.name for one in seen.tables if one.identity.name != "odd"] == ["orders"]


@pytest.mark.parametrize(
    ("resource", "other"),
    [
        pytest.param(CLAIMS, body("colocation-data", 9, spec={}), id="claim"),
        pytest.param(VOLUMES, body("colocation-shop", 9, "", spec={}), id="volume"),
    ],
)
async def test_what_has_our_name_is_known_until_it_is_gone(
    setting: Setting, resource: Resource, other: dict[str, Any]
) -> None:
    """No full list shows what does not have our labels: the group's status would say now this, now that."""
    setting.cluster.take(resource, other)
    setting.api.others = [other]
    before = await setting.cluster.observe()
    await setting.cluster.list_again(resource)
    after = await setting.cluster.observe()
    assert after.version == before.version
    assert len(after.claims) + len(after.volumes) == 1
    setting.api.others = []
    await setting.cluster.list_again(resource)
    after = await setting.cluster.observe()
    assert after.claims == () and after.volumes == ()


async def test_namespace_that_is_made_again_has_its_new_uid(setting: Setting) -> None:
    """All of its groups are others then. It is read no more often than that, and forgotten with its last group."""
    for resource_version in (10, 11):
        setting.cluster.take(GROUPS, group(resource_version))
        assert (await setting.cluster.observe()).namespace_uids == {"shop": "uid-shop"}
    assert len(setting.api.read) == 1
    setting.api.namespace_uid = "uid-new"
    setting.cluster.take(GROUPS, group(12), deleted=True)
    again = group(13)
    again["metadata"]["uid"] = "another"
    setting.cluster.take(GROUPS, again)
    assert (await setting.cluster.observe()).namespace_uids == {"shop": "uid-new"}
    setting.cluster.take(GROUPS, again, deleted=True)
    assert (await setting.cluster.observe()).namespace_uids == {}


async def test_list_that_breaks_off_is_no_reason_to_sleep(setting: Setting) -> None:
    """What it reported before is news: the next pass must not take the observation for the one before."""
    before = await setting.cluster.observe()
    setting.api.objects[TABLES] = [table(30, f"sha256:{'c' * 64}"), ApiError(0, "no answer")]
    with pytest.raises(ApiError):
        await setting.cluster.list_again(TABLES)
    after = await setting.cluster.observe()
    assert after.tables[0].reference.manifest == "c" * 64
    assert after.version != before.version


async def test_readers_keep_an_agents_address_while_its_node_lives(setting: Setting) -> None:
    """The pod goes and the next one is awaited: nothing of that reaches the ConfigMaps."""
    assert (await setting.cluster.observe()).readers_urls == {"node-1": "https://10.0.0.1:8440"}
    setting.cluster.take(PODS, pod(20), deleted=True)
    for _ in range(2):
        assert (await setting.cluster.observe()).readers_urls == {"node-1": "https://10.0.0.1:8440"}
    setting.cluster.take(NODES, node(), deleted=True)
    await setting.cluster.observe()
    assert (await setting.cluster.observe()).readers_urls == {}


def members(*names: str) -> dict[str, Any]:
    """The group, which remembers tables as they were first loaded."""
    one = group(30)
    one["status"]["members"] = [
        {"namespace": "shop", "name": name, "uid": body(name, 1)["metadata"]["uid"]} for name in names
    ]
    return one


LOADED = table(50, f"sha256:{'d' * 64}", name="gone")
HISTORIES = {
    "a load and the drop": ([{"type": "MODIFIED", "object": LOADED}, {"type": "DELETED", "object": LOADED}], "d" * 64),
    "nothing of it": ([{"type": "MODIFIED", "object": table(50)}], None),
    "forgotten": ([Expired(410, "too old")], None),
    "no answer": ([ApiError(0, "no answer")], None),
}


@pytest.mark.parametrize(("history", "manifest"), list(HISTORIES.values()), ids=list(HISTORIES))
async def test_tables_that_went_unwatched_are_known_as_the_api_server_remembers_them(
    setting: Setting, history: list[Any], manifest: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a load is lost that committed after the operator before had gone. What is not remembered stays unknown."""
    monkeypatch.setattr(module, "HISTORY_SECONDS", 0.05)
    setting.api.history = history
    setting.cluster.take(GROUPS, members("orders", "gone"))
    await setting.cluster.hear_of_drops("17")
    dropped = (await setting.cluster.observe()).dropped_tables
    assert setting.api.watched_since == ["17"]
    assert [one.table.reference.manifest for one in dropped.values()] == ([manifest] if manifest else [])


async def test_an_api_server_that_has_begun_again_tells_what_it_remembers(setting: Setting) -> None:
    """After etcd was restored, above all: loads and drops go on before an operator is there."""
    setting.api.history = [{"type": "DELETED", "object": LOADED}]
    setting.api.remembers_since = 40
    setting.cluster.take(GROUPS, members("orders", "gone"))
    await setting.cluster.hear_of_drops("17")
    assert setting.api.watched_since == ["17", "40"]
    [dropped] = (await setting.cluster.observe()).dropped_tables.values()
    assert dropped.table.reference.manifest == "d" * 64


async def test_what_was_done_before_a_list_reported_a_drop_is_asked_for(setting: Setting) -> None:
    """The watch ended with the API server; when it is back, a load is committed and its table dropped before the next
    list (found by simulation, seed 2564971322).
    """
    setting.api.objects = {TABLES: [table(), table(50, name="gone")]}
    await setting.cluster.list_again(TABLES)
    await setting.cluster.observe()
    setting.api.objects, setting.api.remembers_since = {TABLES: [table()]}, 140
    setting.api.history = [{"type": "DELETED", "object": table(150, f"sha256:{'d' * 64}", name="gone")}]
    await setting.cluster.list_again(TABLES)
    assert setting.api.watched_since == ["100", "140"]
    [dropped] = (await setting.cluster.observe()).dropped_tables.values()
    assert dropped.table.reference.manifest == "d" * 64


async def test_a_drop_that_the_watch_reported_during_a_list_is_not_asked_for(setting: Setting) -> None:
    """It reported the last state, too."""
    setting.api.objects = {TABLES: [table(), table(50, name="gone")]}
    await setting.cluster.list_again(TABLES)
    dropped = table(60, f"sha256:{'d' * 64}", name="gone")

    class Meanwhile(list[Any]):
        def __iter__(self) -> Any:
            setting.cluster.take(TABLES, dropped, deleted=True)
            return super().__iter__()

    setting.api.objects = {TABLES: Meanwhile([table()])}
    await setting.cluster.list_again(TABLES)
    assert setting.api.watched_since == []
    [known] = (await setting.cluster.observe()).dropped_tables.values()
    assert known.table.reference.manifest == "d" * 64


async def test_drop_that_a_list_reported_first_is_remembered_with_the_last_commit(setting: Setting) -> None:
    """A watch that hung tells of the commit and of the drop later; to the list the table was just gone."""
    await setting.cluster.observe()
    setting.api.objects = {TABLES: []}
    await setting.cluster.list_again(TABLES)
    by_list = await setting.cluster.observe()
    assert [one.table.reference.manifest for one in by_list.dropped_tables.values()] == ["a" * 64]
    setting.now += seconds(5)
    committed = table(20, f"sha256:{'b' * 64}")
    setting.cluster.take(TABLES, committed)
    setting.cluster.take(TABLES, committed, deleted=True)
    setting.cluster.take(TABLES, table(12), deleted=True)
    last = await setting.cluster.observe()
    assert (last.tables, last.version != by_list.version) == ((), True)
    [dropped] = last.dropped_tables.values()
    assert (dropped.table.reference.manifest, dropped.dropped_at) == ("b" * 64, NOW)


@pytest.mark.parametrize(("names", "since"), [(["orders"], "17"), (["orders", "gone"], "")], ids=["all there", "first"])
async def test_history_is_not_asked_for_without_need(setting: Setting, names: list[str], since: str) -> None:
    """A start waits for nothing when every table is there, or when there was no operator before."""
    setting.cluster.take(GROUPS, members(*names))
    await setting.cluster.hear_of_drops(since)
    assert setting.api.watched_since == []
