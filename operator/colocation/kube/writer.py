"""ClusterWriter: performs actions on the API server and the agents."""

from collections.abc import Callable, Sequence
from functools import partial

from ..agentclient import AgentClient
from ..manifests.clone_job import CloneJobSettings, clone_job
from ..manifests.config_map import spark_config_map_data
from ..manifests.data_volume import data_claim, data_volume
from ..manifests.holder_pod import HolderSettings, holder_pod
from ..manifests.recovered_table import recovered_table
from ..model.agent import RecycledSchema
from ..model.names import (
    APP_NAME,
    DATA_CLAIM,
    GROUP_API_VERSION,
    GROUP_KIND,
    LABEL_GROUP,
    LABEL_MANAGED_BY,
    LABEL_PRIVATE,
    RECOVER_PREFIX,
    config_map_of,
    data_volume_name,
    table_directory,
)
from ..reconcile.actions import (
    Action,
    CollectGarbage,
    CreateDataClaim,
    CreateDataVolume,
    CreateGroup,
    CreateHolder,
    CreateTable,
    DeleteDataClaim,
    DeleteDataVolume,
    DeleteGroup,
    DropBucket,
    DroppedFolder,
    EndRecoverRequests,
    LabelNode,
    MarkGroupUnstable,
    PostEvent,
    RecycleTable,
    ReleaseHolder,
    RemoveClone,
    RestoreTable,
    StartClone,
    WriteConfigMap,
    WriteGroupStatus,
    WriteTableStatus,
)
from ..state.objects import Identity
from ..state.parse import parse_group, parse_identity, parse_node
from .api import (
    CLAIMS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    GROUPS,
    HOLDERS,
    JOBS,
    NODES,
    TABLES,
    VOLUMES,
    Api,
    ApiError,
    Conflict,
    JsonObject,
    NotFound,
    Resource,
)
from .errors import AlreadyWritten, ClusterError, Refused, StaleDecision
from .events import EventPoster
from .orders import AgentFailure, AgentOrders
from .status_answers import StatusAnswers

REFUSALS = frozenset((400, 403, 422))
"""Answers to a request that is refused again if it is repeated at once."""


class LiveWriter:
    """The real ``ClusterWriter``.

    Args:
        api: the API server.
        agents: the agents.
        events: posts Events.
        jobs: what all clone Jobs share.
        holders: what all holder pods share.
        take: called with every object that a write returned, so that the next pass does not decide from an older one.
    """

    def __init__(
        self,
        api: Api,
        agents: AgentOrders,
        events: EventPoster,
        jobs: CloneJobSettings,
        holders: HolderSettings,
        take: Callable[[Resource, JsonObject], object],
    ) -> None:
        self._api = api
        self._agents = agents
        self._events = events
        self._jobs = jobs
        self._holders = holders
        self._take = take
        self._answers = StatusAnswers()

    async def perform(self, action: Action) -> None:
        """Do it; ClusterError when it could not be done."""
        match action:
            case CreateGroup():
                await self._create_group(action)
            case DeleteGroup(group):
                await self._api.delete(GROUPS, group.namespace, group.name, group.uid, group.resource_version)
            case WriteGroupStatus(group, status):
                await self._write_status(GROUPS, group, dict(status), {"resourceVersion": group.resource_version})
            case MarkGroupUnstable(group, status):
                await self._write_status(GROUPS, group, dict(status), {"uid": group.uid})
            case WriteTableStatus(table, status):
                await self._write_status(TABLES, table, dict(status), {"resourceVersion": table.resource_version})
            case StartClone():
                await self._start_clone(action)
            case RemoveClone(job):
                await self._api.delete(JOBS, job.namespace, job.name, job.uid)
            case DropBucket():
                await self._drop_bucket(action)
            case RecycleTable():
                await self._recycle_table(action)
            case CollectGarbage():
                await self._collect_garbage(action)
            case WriteConfigMap():
                await self._write_config_map(action)
            case CreateTable() | EndRecoverRequests() | RestoreTable():
                await self._recover(action)
            case PostEvent():
                await self._events.post(action)
            case LabelNode(node, uid, labels):
                patch = {"metadata": {"uid": uid, "labels": dict(labels)}}
                self._take(NODES, await self._api.patch(NODES, "", node, patch))
            case CreateHolder(node):
                await self._create_holder(node)
            case ReleaseHolder():
                await self._release_holder(action)
            case CreateDataClaim() | CreateDataVolume() | DeleteDataClaim() | DeleteDataVolume():
                await self._write_files(action)

    async def _create_holder(self, node: str) -> None:
        namespace = self._holders.namespace
        deployment = await self._api.get(DEPLOYMENTS, namespace, APP_NAME)
        body = holder_pod(node, deployment, self._holders)
        self._take(HOLDERS, await self._api.create(HOLDERS, namespace, body))

    async def _release_holder(self, action: ReleaseHolder) -> None:
        if action.only_if_schedulable:
            node = await self._api.find(NODES, action.node)
            if node is not None and not parse_node(node, self._jobs.tolerated_taints).schedulable:
                self._take(NODES, node)
                raise StaleDecision(f"node {action.node} takes no new pods")
        await self._api.delete(HOLDERS, action.namespace, action.name, action.uid, grace_seconds=0)

    async def _write_files(
        self, action: CreateDataClaim | CreateDataVolume | DeleteDataClaim | DeleteDataVolume
    ) -> None:
        match action:
            case CreateDataClaim(namespace):
                await self._make(CLAIMS, namespace, DATA_CLAIM, data_claim(namespace))
            case CreateDataVolume(namespace, data_root, claim_uid):
                body = data_volume(namespace, data_root, claim_uid)
                await self._make(VOLUMES, "", data_volume_name(namespace), body)
            case DeleteDataClaim(claim):
                await self._api.delete(CLAIMS, claim.namespace, claim.name, claim.uid)
            case DeleteDataVolume(volume):
                await self._api.delete(VOLUMES, "", volume.name, volume.uid)

    async def _make(self, resource: Resource, namespace: str, name: str, body: JsonObject) -> None:
        """Make an object, or learn what has its name: no watch shows what does not have our labels."""
        try:
            self._take(resource, await self._api.create(resource, namespace, body))
        except Conflict:
            self._take(resource, await self._api.get(resource, namespace, name))
        except ApiError as error:
            if error.status in REFUSALS:
                raise Refused(str(error)) from error
            raise

    async def _recover(self, action: CreateTable | EndRecoverRequests | RestoreTable) -> None:
        match action:
            case CreateTable():
                await self._create_table(action)
            case EndRecoverRequests():
                await self._end_recover_requests(action)
            case RestoreTable():
                await self._restore_table(action)

    async def _create_group(self, action: CreateGroup) -> None:
        body = {
            "apiVersion": GROUP_API_VERSION,
            "kind": GROUP_KIND,
            "metadata": {
                "name": action.name,
                "namespace": action.namespace,
                **({"labels": {LABEL_PRIVATE: "true"}} if action.private else {}),
            },
            "spec": action.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        }
        try:
            self._take(GROUPS, await self._api.create(GROUPS, action.namespace, body))
        except Conflict:
            return  # somebody made it; the tables are checked against it in the next pass

    async def _create_table(self, action: CreateTable) -> None:
        record = action.record
        if record.snapshot is None:
            raise StaleDecision(f"table {record.namespace}/{record.name} was never loaded")
        schema = await self._recycled_schema(action.folders, record.namespace, record.snapshot.manifest_sha256)
        body = recovered_table(record, schema, action.colocate_with, action.replicas)
        try:
            self._take(TABLES, await self._api.create(TABLES, record.namespace, body))
        except Conflict:
            return  # somebody made a table of this name; the next pass reports it

    async def _recycled_schema(
        self, folders: Sequence[DroppedFolder], namespace: str, manifest: str
    ) -> RecycledSchema:
        """From the first folder that has the manifest; else the last agent's error."""
        problem: ClusterError = StaleDecision("no node that answers has the dropped table")
        for folder in folders:
            try:
                return await self._agents.call(folder.url, partial(_schema_in, folder.directory, namespace, manifest))
            except AgentFailure as error:
                problem = error
        raise problem

    async def _end_recover_requests(self, action: EndRecoverRequests) -> None:
        group = action.group
        ended = {f"{RECOVER_PREFIX}{request}": None for request in action.requests}
        patch = {"metadata": {"uid": group.uid, "annotations": ended}}
        self._take(GROUPS, await self._api.patch(GROUPS, group.namespace, group.name, patch))

    async def _write_status(
        self, resource: Resource, subject: Identity, status: JsonObject, precondition: JsonObject
    ) -> None:
        """A conflict shows that what we know is old: the watch may have lost the event."""
        if self._answers.is_needless(subject, status):
            raise AlreadyWritten(f"the API server does not keep the status of {subject.namespace}/{subject.name}")
        patch = {"metadata": precondition, "status": status}
        try:
            written = await self._api.patch(resource, subject.namespace, subject.name, patch, "status")
        except Conflict:
            self._take(resource, await self._api.get(resource, subject.namespace, subject.name))
            raise
        self._answers.heard(subject, status, written)
        self._take(resource, written)

    async def _start_clone(self, action: StartClone) -> None:
        if action.replaces:
            await self._api.delete(JOBS, action.replaces.namespace, action.replaces.name, action.replaces.uid)
        body = clone_job(action.name, action.spec, action.source, action.failures, self._jobs)
        try:
            self._take(JOBS, await self._api.create(JOBS, self._jobs.namespace, body))
        except Conflict:
            return  # it runs already

    async def _drop_bucket(self, action: DropBucket) -> None:
        """The map is read again: another operator may have put the node back into it."""
        group = parse_group(await self._api.get(GROUPS, action.group.namespace, action.group.name))
        if group.identity.uid != action.group.uid or group.status.map_version != action.map_version:
            raise StaleDecision(f"the map of group {action.group.namespace}/{action.group.name} has changed")

        def delete_files(agent: AgentClient) -> None:
            for table in action.tables:
                agent.drop_bucket(
                    table.namespace,
                    table.directory,
                    action.bucket,
                    table.manifests,
                    action.grace_seconds,
                    table.proof,
                )

        await self._agents.call(action.url, delete_files)

    async def _recycle_table(self, action: RecycleTable) -> None:
        """The table is read again: it may have been made after the last watch event."""
        name = action.directory.rpartition("-")[0]
        try:
            table = parse_identity(await self._api.get(TABLES, action.namespace, name))
        except NotFound:
            table = None
        if table is not None and table_directory(table.name, table.uid) == action.directory:
            raise StaleDecision(f"table {action.namespace}/{name} exists")
        await self._agents.call(
            action.url,
            lambda agent: agent.recycle(action.namespace, action.directory, action.keep_seconds, action.proof),
        )

    async def _restore_table(self, action: RestoreTable) -> None:
        await self._agents.call(
            action.url,
            lambda agent: agent.restore(action.namespace, action.directory, action.successor, action.term),
        )

    async def _collect_garbage(self, action: CollectGarbage) -> None:
        await self._agents.call(
            action.url,
            lambda agent: agent.collect(
                action.namespace, action.directory, action.manifests, action.grace_seconds, action.proof
            ),
        )

    async def _write_config_map(self, action: WriteConfigMap) -> None:
        group, namespace = action.group, action.content.placement.namespace
        name = config_map_of(namespace, (group.namespace, group.name))
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {LABEL_MANAGED_BY: APP_NAME, LABEL_GROUP: group.name},
                "ownerReferences": [
                    {"apiVersion": GROUP_API_VERSION, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
                    for owner in action.owners
                ],
            },
            "data": spark_config_map_data(action.content, action.sign),
        }
        await self._api.apply(CONFIG_MAPS, namespace, name, body)


def _schema_in(directory: str, namespace: str, manifest: str, agent: AgentClient) -> RecycledSchema:
    return agent.recycled_schema(namespace, directory, manifest)
