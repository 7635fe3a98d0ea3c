"""Writes carry what they were decided from; deletions of files look at the API server once more."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from colocation.agentclient import AgentClient
from colocation.kube.api import Api, JsonObject, NotFound, Resource
from colocation.kube.errors import StaleDecision
from colocation.kube.events import EventPoster
from colocation.kube.writer import LiveWriter
from colocation.manifests.clone_job import CloneJobSettings
from colocation.manifests.holder_pod import HolderSettings
from colocation.model.agent import DeletionProof
from colocation.reconcile.actions import (
    Action,
    CreateHolder,
    DeleteGroup,
    DropBucket,
    EndRecoverRequests,
    LabelNode,
    MarkGroupUnstable,
    RecycleTable,
    ReleaseHolder,
    RemoveClone,
    TableDrop,
    WriteGroupStatus,
    WriteTableStatus,
)
from colocation.state.objects import Identity

NOW = datetime(2026, 11, 21, tzinfo=UTC)
URL = "https://node-1:8440"
PROOF = DeletionProof(instance="a", not_after_seconds=30, term=1, table_uid="u")
SALES = Identity("shop", "sales", "12345678-uid", "41", 1, NOW)
ORDERS = Identity("shop", "orders", "87654321-uid", "7", 1, NOW)


def body_of(identity: Identity, **status: object) -> JsonObject:
    """An object as the API server shows it."""
    metadata = {
        "namespace": identity.namespace, "name": identity.name, "uid": identity.uid, "generation": 1,
        "resourceVersion": identity.resource_version, "creationTimestamp": "2026-11-21T00:00:00Z",
    }  # fmt: skip
    return {"metadata": metadata, "spec": {"bucketKey": ["bigint"], "buckets": 2, "replicas": 2}, "status": status}


class OneObjectApi(Api):
    """An API server with one object or none, which keeps what it was asked to change."""

    def __init__(self, body: JsonObject | None = None) -> None:
        self.body = body
        self.changes: list[tuple[str, JsonObject]] = []

    async def _request(
        self, method: str, path: str, body: JsonObject | None = None, *_: object, **__: object
    ) -> JsonObject:
        if method != "GET":
            self.changes.append((method, body or {}))
            return body_of(SALES)
        if self.body is None:
            raise NotFound(404, path)
        return self.body


    async def find(self, resource: Resource, name: str) -> JsonObject | None:
        return self.body


class Agents:
    """Counts the orders that were sent."""

    def __init__(self) -> None:
        self.orders = 0

    async def call(self, url: str, order: Callable[[AgentClient], Any]) -> None:
        assert url == URL
        self.orders += 1


async def performed(action: Action, body: JsonObject | None = None) -> tuple[OneObjectApi, Agents, bool]:
    """What was changed and ordered, and whether the decision was found stale."""
    api, agents = OneObjectApi(body), Agents()

    def take(resource: Resource, taken: JsonObject) -> None:
        """No one reads it here."""

    jobs = CloneJobSettings(namespace="colocation", image="operator:1", tolerated_taints=frozenset({"dedicated"}))
    holders = HolderSettings(namespace="system", image="operator:1")
    events = EventPoster(api, lambda: NOW, "operator-0")
    writer = LiveWriter(api, agents, events, jobs, holders, take)  # type: ignore[arg-type]
    try:
        await writer.perform(action)
    except StaleDecision:
        return api, agents, True
    return api, agents, False


@pytest.mark.parametrize(
    ("action", "precondition"),
    [
        pytest.param(WriteGroupStatus(SALES, {}), {"resourceVersion": "41"}, id="status of a group"),
        pytest.param(WriteTableStatus(ORDERS, {}), {"resourceVersion": "7"}, id="status of a table"),
        pytest.param(MarkGroupUnstable(SALES, {}), {"uid": SALES.uid}, id="verdict alone, over any version"),
        pytest.param(DeleteGroup(SALES), {"uid": SALES.uid, "resourceVersion": "41"}, id="deletion of a group"),
        pytest.param(RemoveClone(ORDERS), {"uid": ORDERS.uid}, id="removal of a Job"),
    ],
)
async def test_write_is_of_the_object_that_was_read(action: Action, precondition: dict[str, str]) -> None:
    """One that was made again, or changed where that matters, is left alone: the API server refuses the write."""
    api, _, _ = await performed(action)
    [(method, body)] = api.changes
    assert (body["preconditions"] if method == "DELETE" else body["metadata"]) == precondition


async def test_labels_are_those_of_the_node_that_was_read() -> None:
    """A machine that was replaced under its name is another one; nothing but labels is written."""
    api, _, _ = await performed(LabelNode("node-1", "uid-of-node-1", {"a": "true", "b": None}))
    assert api.changes == [("PATCH", {"metadata": {"uid": "uid-of-node-1", "labels": {"a": "true", "b": None}}})]


async def test_a_holder_is_the_operators_deployments() -> None:
    """So that drains evict it, and Helm's uninstallation takes it along."""
    deployment = {"metadata": {"name": "colocation-operator", "uid": "uid-of-deployment"}}
    api, _, _ = await performed(CreateHolder("node-1"), deployment)
    [(method, body)] = api.changes
    [owner] = body["metadata"]["ownerReferences"]
    assert (method, owner["kind"], owner["uid"], owner["controller"]) == (
        "POST", "Deployment", "uid-of-deployment", True
    )  # fmt: skip
    assert (body["metadata"]["namespace"], body["spec"]["nodeName"]) == ("system", "node-1")


def node_body(**spec: object) -> JsonObject:
    return {**body_of(Identity("", "node-1", "u", "1", 1, NOW)), "spec": spec}


TOLERATED = [{"key": "dedicated", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("only_if_schedulable", "node", "is_released"),
    [
        pytest.param(False, node_body(unschedulable=True), True, id="its replicas are elsewhere"),
        pytest.param(True, node_body(), True, id="no one asks for the node any more"),
        pytest.param(True, node_body(taints=TOLERATED), True, id="nor with a taint that is tolerated"),
        pytest.param(True, node_body(unschedulable=True), False, id="the node was cordoned before the eviction"),
        pytest.param(True, None, True, id="the node is gone"),
    ],
)
async def test_a_holder_that_is_taken_back_is_released_only_if_its_node_takes_pods(
    only_if_schedulable: bool, node: JsonObject | None, is_released: bool
) -> None:
    """The API server is asked: a drain ends with this very pod, at once."""
    action = ReleaseHolder("system", "colocation-holder-node-1", "uid-1", "node-1", only_if_schedulable)
    api, _, is_stale = await performed(action, node)
    assert is_stale is not is_released
    expected = {"propagationPolicy": "Background", "preconditions": {"uid": "uid-1"}, "gracePeriodSeconds": 0}
    assert api.changes == ([("DELETE", expected)] if is_released else [])


async def test_requests_are_ended_at_once_on_the_group_that_was_read() -> None:
    """A group that was made again keeps its own requests."""
    api, _, _ = await performed(EndRecoverRequests(SALES, ("12345678", "x")))
    [(_, body)] = api.changes
    assert body["metadata"] == {
        "uid": SALES.uid,
        "annotations": {"recover.colocation.dev/12345678": None, "recover.colocation.dev/x": None},
    }


@pytest.mark.parametrize(
    ("found", "is_sent"),
    [
        pytest.param(body_of(SALES, mapVersion=3), True, id="as it was read"),
        pytest.param(body_of(replace(SALES, resource_version="42"), mapVersion=3), True, id="changed elsewhere"),
        pytest.param(body_of(SALES, mapVersion=4), False, id="with another map"),
        pytest.param(body_of(SALES), False, id="without a map"),
        pytest.param(body_of(replace(SALES, uid="another"), mapVersion=3), False, id="made again"),
    ],
)
async def test_bucket_is_dropped_only_against_the_map_that_was_read(found: JsonObject, is_sent: bool) -> None:
    """Another operator may have put the node back into it."""
    table = TableDrop("shop", "orders-87654321", ("a" * 64,), PROOF)
    _, agents, is_stale = await performed(DropBucket(SALES, 3, "node-1", URL, 0, (table,), 60), found)
    assert (agents.orders, is_stale) == (int(is_sent), not is_sent)


@pytest.mark.parametrize(
    ("found", "is_sent"),
    [
        pytest.param(None, True, id="gone"),
        pytest.param(body_of(replace(ORDERS, uid="00000000-another")), True, id="made again: its folder is another"),
        pytest.param(body_of(ORDERS), False, id="living"),
    ],
)
async def test_folder_of_a_living_table_is_not_recycled(found: JsonObject | None, is_sent: bool) -> None:
    """The watch may not have reported it yet."""
    _, agents, is_stale = await performed(RecycleTable("node-1", URL, "shop", "orders-87654321", 60, PROOF), found)
    assert (agents.orders, is_stale) == (int(is_sent), not is_sent)
