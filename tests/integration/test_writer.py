"""Writes to a real API server: preconditions hold, repeated writes change nothing. And what it remembers of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from kubernetes.aio import client, config

from colocation.agentclient import AgentClient
from colocation.kube.api import CONFIG_MAPS, EVENTS, GROUPS, JOBS, TABLES, Api, Expired, Resource
from colocation.kube.errors import StaleDecision
from colocation.kube.events import EventPoster
from colocation.kube.writer import LiveWriter
from colocation.manifests.clone_job import CloneJobSettings, clone_job_name
from colocation.manifests.config_map import SparkConfigMap
from colocation.manifests.holder_pod import HolderSettings
from colocation.manifests.spark_pods import SparkPlacement
from colocation.model.agent import DeletionProof
from colocation.model.clone import CloneSource, CloneSpec
from colocation.model.group import ColocationGroupSpec
from colocation.model.names import GROUP_KIND, node_label, table_directory
from colocation.reconcile.actions import (
    CreateGroup,
    DropBucket,
    Owner,
    PostEvent,
    RecycleTable,
    RemoveClone,
    StartClone,
    TableDrop,
    WriteConfigMap,
    WriteGroupStatus,
    WriteTableStatus,
)
from colocation.state.objects import Identity
from colocation.state.parse import parse_clone_job, parse_group, parse_identity, parse_table

from .control_plane import ControlPlane
from .objects import JsonObject, group, table

NOW = datetime(2026, 11, 21, tzinfo=UTC)
URL = "https://127.0.0.1:8440"
PROOF = DeletionProof(instance="a", not_after_seconds=30, term=1, table_uid="u")


class RecordingAgents:
    """Agents that are never called in these tests unless the writer decides to."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    async def call(self, url: str, order: Callable[[AgentClient], object]) -> None:
        self.urls.append(url)


class Writer:
    """A LiveWriter on the control plane, with what it reported and asked."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self.agents = RecordingAgents()
        self.taken: list[tuple[Resource, JsonObject]] = []
        jobs = CloneJobSettings(namespace=namespace, image="operator:1")
        events = EventPoster(api, lambda: NOW, "operator-0")
        holders = HolderSettings(namespace=namespace, image="operator:1")
        self.live = LiveWriter(api, self.agents, events, jobs, holders, self._take)  # type: ignore[arg-type]
        self.perform = self.live.perform

    def _take(self, resource: Resource, body: JsonObject) -> None:
        self.taken.append((resource, body))

    async def create(self, resource: Resource, body: JsonObject) -> Identity:
        return parse_identity(await self.api.create(resource, self.namespace, body))


@pytest.fixture
async def writer(cluster: ControlPlane, namespace: str) -> AsyncIterator[Writer]:
    configuration = client.Configuration()
    await config.load_kube_config(str(cluster.kubeconfig), client_configuration=configuration)
    api = Api(client.ApiClient(configuration))
    yield Writer(api, namespace)
    await api.close()


async def test_status_is_written_only_over_what_was_read(writer: Writer) -> None:
    """Of two operators that decided from the same version one writes, the other learns that it is stale."""
    identity = await writer.create(GROUPS, group())
    await writer.perform(WriteGroupStatus(identity, {"stable": True, "mapVersion": 1}))
    with pytest.raises(StaleDecision):
        await writer.perform(WriteGroupStatus(identity, {"stable": False, "mapVersion": 1}))
    (_, answer), (_, found) = writer.taken
    assert found == answer, "a conflict shows that what was known is old: the object is read again"
    assert parse_group(answer).status.stable
    await writer.perform(WriteGroupStatus(parse_identity(answer), {"stable": False}))
    assert parse_group(writer.taken[-1][1]).status.map_version == 1, "a merge keeps what it does not name"


async def test_an_api_server_reports_since_when_it_remembers(writer: Writer) -> None:
    """So an operator that was away while the API server began again hears of tables that were dropped since."""
    identity = await writer.create(TABLES, table())
    await writer.api.delete(TABLES, identity.namespace, identity.name, identity.uid)
    with pytest.raises(Expired) as expired:
        await deleted_since(writer, "1", identity.uid)
    last = await deleted_since(writer, expired.value.remembered_since, identity.uid)
    assert parse_table(last).identity.name == identity.name


async def deleted_since(writer: Writer, version: str, uid: str) -> JsonObject:
    """The last state of an object whose deletion a watch since this version tells of."""
    async with asyncio.timeout(30), aclosing(writer.api.watch(TABLES, "", "", version)) as events:
        async for event in events:
            if event["type"] == "DELETED" and event["object"]["metadata"]["uid"] == uid:
                found: JsonObject = event["object"]
                return found
    raise AssertionError("the watch ended")


async def test_status_of_a_table_leaves_the_commit_alone(writer: Writer) -> None:
    """A loader's snapshot and the operator's words share a status; neither overwrites the other."""
    identity = await writer.create(TABLES, table())
    snapshot = {"id": 1, "manifest": f"sha256:{0:064x}", "committedAt": "2026-11-21T00:00:00Z"}
    await writer.api.patch(TABLES, identity.namespace, identity.name, {"status": {"snapshot": snapshot}}, "status")
    with pytest.raises(StaleDecision):
        await writer.perform(WriteTableStatus(identity, {"accepted": True}))
    committed = parse_identity(await writer.api.get(TABLES, identity.namespace, identity.name))
    await writer.perform(WriteTableStatus(committed, {"accepted": True}))
    status = parse_table(writer.taken[-1][1]).status
    assert status.accepted
    assert status.snapshot is not None


async def test_status_of_a_predecessor_is_not_written(writer: Writer) -> None:
    """An object of the same name that was made again is another one."""
    predecessor = await writer.create(GROUPS, group())
    await writer.api.delete(GROUPS, writer.namespace, predecessor.name, predecessor.uid)
    await writer.create(GROUPS, group())
    with pytest.raises(StaleDecision):
        await writer.perform(WriteGroupStatus(predecessor, {"stable": True}))


async def test_group_is_made_once(writer: Writer) -> None:
    """Two tables at once, or two operators, make one group: the first one's."""
    spec = ColocationGroupSpec(bucket_key=("bigint",), buckets=8, replicas=2)
    await writer.perform(CreateGroup(writer.namespace, "sales", spec))
    await writer.perform(CreateGroup(writer.namespace, "sales", spec.model_copy(update={"buckets": 4})))
    body = await writer.api.get(GROUPS, writer.namespace, "sales")
    assert parse_group(body).spec == spec


def clone(writer: Writer, bucket: int = 3) -> CloneSpec:
    source = CloneSource(node="node-1", url=URL)
    return CloneSpec(
        namespace=writer.namespace, group="sales", bucket=bucket, target="node-2", tables=(), sources=(source,)
    )


async def test_clone_job_is_made_once_and_read_back(writer: Writer) -> None:
    """The API server takes the Job; a second one of the name is the same; its annotations say what it is for."""
    name = clone_job_name("12345678-uid", 3, "node-2")
    start = StartClone(name, clone(writer), "node-1")
    await asyncio.gather(writer.perform(start), writer.perform(start))
    bodies, _ = await writer.api.list_all(JOBS, writer.namespace)
    [job] = [parse_clone_job(body) for body in bodies]
    assert job is not None
    assert (job.group_namespace, job.group, job.bucket) == (writer.namespace, "sales", 3)
    assert (job.source, job.target, job.failures, job.phase) == ("node-1", "node-2", 0, "pending")

    await writer.perform(StartClone(name, clone(writer), "node-1", 1, replaces=job.identity))
    again = parse_clone_job(await writer.api.get(JOBS, writer.namespace, name))
    assert again is not None
    assert again.failures == 1
    assert again.identity.uid != job.identity.uid

    await writer.perform(RemoveClone(job.identity))
    assert (await writer.api.list_all(JOBS, writer.namespace))[0], "the predecessor's removal leaves the Job alone"
    await writer.perform(RemoveClone(again.identity))
    await writer.perform(RemoveClone(again.identity))
    assert (await writer.api.list_all(JOBS, writer.namespace))[0] == []


async def test_event_is_counted_up(writer: Writer) -> None:
    """The same thing said twice is one Event with a count; another thing is another Event."""
    identity = await writer.create(GROUPS, group())
    event = PostEvent("ColocationGroup", identity, "Warning", "Unstable", "NodeNotReady: node node-1 is not ready")
    await writer.perform(event)
    await writer.perform(event)
    await writer.perform(replace(event, message="NodeGone: node node-1 no longer exists"))
    bodies, _ = await writer.api.list_all(EVENTS, writer.namespace)
    assert sorted((body["reason"], body["count"]) for body in bodies) == [("Unstable", 1), ("Unstable", 2)]


async def test_config_map_goes_with_its_group(writer: Writer) -> None:
    """Written again it is the same; its owner is the group, so Kubernetes deletes it with the group."""
    identity = await writer.create(GROUPS, group())
    placement = SparkPlacement(namespace=writer.namespace, group="sales", has_map=True)
    content = SparkConfigMap(placement=placement, agent_urls={"node-1": URL}, ca_certificate="PEM")
    owners = (Owner(GROUP_KIND, identity.name, identity.uid),)
    await writer.perform(WriteConfigMap(identity, content, owners))
    first = await writer.api.get(CONFIG_MAPS, writer.namespace, "sales-spark")
    await writer.perform(WriteConfigMap(identity, content, owners))
    second = await writer.api.get(CONFIG_MAPS, writer.namespace, "sales-spark")
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    assert first["metadata"]["ownerReferences"][0]["uid"] == identity.uid
    assert node_label(writer.namespace, "sales") in first["data"]["executor-pod-template.yaml"]


async def test_bucket_is_dropped_only_against_the_map_that_was_read(writer: Writer) -> None:
    """The map may have changed since: then the agent is not even asked."""
    identity = await writer.create(GROUPS, group())
    await writer.perform(WriteGroupStatus(identity, {"mapVersion": 2}))
    orders = TableDrop(writer.namespace, "orders-12345678", ("a" * 64,), PROOF)
    drop = DropBucket(identity, 1, "node-1", URL, 0, (orders,), 60)
    with pytest.raises(StaleDecision):
        await writer.perform(drop)
    assert writer.agents.urls == []
    await writer.perform(replace(drop, map_version=2))
    assert writer.agents.urls == [URL]


async def test_folder_of_a_living_table_is_not_recycled(writer: Writer) -> None:
    """The operator may not have heard of a new table yet; a folder of its predecessor goes."""
    identity = await writer.create(TABLES, table())
    directory = table_directory(identity.name, identity.uid)
    with pytest.raises(StaleDecision):
        await writer.perform(RecycleTable("node-1", URL, writer.namespace, directory, 60, PROOF))
    await writer.perform(RecycleTable("node-1", URL, writer.namespace, "orders-00000000", 60, PROOF))
    await writer.perform(RecycleTable("node-1", URL, writer.namespace, "gone-00000000", 60, PROOF))
    assert writer.agents.urls == [URL, URL]
