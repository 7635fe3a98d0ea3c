"""A small cluster as the admin API sees it, and an API server that answers its reviews, reads and patches."""

import copy
from typing import Any

from colocation.admin_api.last_pass import LastPass
from colocation.kube.api import ApiError, Conflict, NotFound, Resource
from colocation.kube.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS
from colocation.model.plan import GroupPlan, Plan
from colocation.model.snapshot import GroupState, Node, Snapshot
from colocation.model.table import ColocatedTableSpec, ColocatedTableStatus
from colocation.state.objects import Identity, ObservedGroup, ObservedTable
from colocation.state.observation import Observation
from colocation.state.parse import parse_group
from tests.unit.state.objects import NOW

Json = dict[str, Any]
SALES_ID = "3f2a91bc.10008"


def group_body(name: str = "sales", namespace: str = "shop", group_id: str = SALES_ID, **spec: Any) -> Json:
    """A group as the API server has it."""
    return {
        "metadata": {
            "name": name, "namespace": namespace, "uid": f"uid-of-{namespace}-{name}", "resourceVersion": "7",
            "creationTimestamp": "2026-11-21T00:00:00Z", "generation": 1,
        },
        "spec": {"bucketKey": ["bigint"], "buckets": 2, "replicas": 2, **spec},
        "status": {"groupId": group_id, "backendsPerBucketSeq": [["node-1", "node-2"], ["node-2", "node-3"]]},
    }  # fmt: skip


def table(name: str, group_name: str = "sales", namespace: str = "shop") -> ObservedTable:
    """A table that the group takes."""
    columns = [{"name": "key", "type": "bigint"}]
    spec = {"colocateWith": group_name, "columns": columns, "bucketedBy": ["key"]}
    identity = Identity(namespace, name, f"uid-of-{name}", "1", 1, NOW)
    return ObservedTable(identity, ColocatedTableSpec.model_validate(spec), "", ColocatedTableStatus())


def last_pass(*bodies: Json, tables: tuple[ObservedTable, ...] = (), stable: bool = True) -> LastPass:
    """What a pass saw: groups on three good nodes."""
    groups = tuple(parse_group(body) for body in bodies)
    nodes = tuple(Node(name=f"node-{number}") for number in (1, 2, 3))
    states = tuple(_state(group) for group in groups)
    plans = tuple(GroupPlan(namespace=one.namespace, name=one.name, stable=stable, reason="Reason") for one in states)
    observation = Observation(NOW, groups=groups, tables=tables)
    return LastPass(observation, Snapshot(now=NOW, nodes=nodes, groups=states), Plan(groups=plans))


def _state(group: ObservedGroup) -> GroupState:
    assert group.spec is not None
    namespace, name = group.key
    return GroupState(namespace=namespace, name=name, spec=group.spec, map=group.status.backends_per_bucket_seq)


class FakeApi:
    """Everyone is an admin. ``conflicts``: how many patches are refused because somebody else wrote first;
    ``starting``: it has not read the roles yet, and is ready when it was asked so often whether it is.
    """

    def __init__(self, body: Json | None = None) -> None:
        self.body = body
        self.conflicts = 0
        self.refuses_tokens = False
        self.starting = 0
        self.token_reviews = 0
        self.patches: list[Json] = []

    async def create(self, resource: Resource, namespace: str, body: Json) -> Json:
        """A review's answer."""
        if resource == TOKEN_REVIEWS:
            self.token_reviews += 1
            if self.refuses_tokens:
                return {"status": {"authenticated": False}}
            audiences = body["spec"]["audiences"]
            return {"status": {"authenticated": True, "audiences": audiences, "user": {"username": "alice"}}}
        assert resource == ACCESS_REVIEWS
        return {"status": {"allowed": not self.starting}}

    async def check_ready(self) -> None:
        """``/readyz``."""
        self.starting = max(0, self.starting - 1)
        if self.starting:
            raise ApiError(500, "[-]informer-sync failed")

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        """The group."""
        if self.body is None:
            raise NotFound(404, "no such group")
        return copy.deepcopy(self.body)

    async def patch(self, resource: Resource, namespace: str, name: str, body: Json) -> Json:
        """The group after a merge patch."""
        assert self.body is not None
        metadata = self.body["metadata"]
        if self.conflicts or body["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            self.conflicts -= 1
            metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
            raise Conflict(409, "somebody else wrote")
        self.patches.append(body)
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        given = body["metadata"].get("annotations", {})
        known = {**metadata.get("annotations", {}), **given}
        metadata["annotations"] = {key: value for key, value in known.items() if value is not None}
        self.body["spec"] |= body.get("spec", {})
        return copy.deepcopy(self.body)
