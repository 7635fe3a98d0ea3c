"""A cluster in memory behind the same seams as the real one: what the reader shows is what the writer wrote.

Nodes hold buckets of tables; clone Jobs end when a test ends them. Writes check resource versions like the API server.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from colocation.kube.errors import ClusterError, Refused, StaleDecision
from colocation.manifests.config_map import SparkConfigMap
from colocation.manifests.recovered_table import recovered_table
from colocation.model.agent import AgentReport, AskedTable, BucketReport, CloneProgress, RecycledSchema, TableReport
from colocation.model.clone import CloneSpec
from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus, RecycledTable
from colocation.model.names import DATA_CLAIM, config_map_of, data_path, data_volume_name, group_key
from colocation.model.table import ColocatedTableSpec, ColocatedTableStatus, Column, RecordedCommit, TableSnapshot
from colocation.reconcile.actions import (
    Action,
    CollectGarbage,
    CreateDataClaim,
    CreateDataVolume,
    CreateGroup,
    CreateTable,
    DeleteDataClaim,
    DeleteDataVolume,
    DeleteGroup,
    DropBucket,
    EndRecoverRequests,
    LabelNode,
    MarkAgent,
    MarkGroupUnstable,
    PostEvent,
    RecycleTable,
    RemoveClone,
    RestoreTable,
    StartClone,
    WriteConfigMap,
    WriteGroupStatus,
    WriteTableStatus,
)
from colocation.state.agent_view import AgentView
from colocation.state.objects import (
    DroppedTable,
    Identity,
    ObservedAgent,
    ObservedClaim,
    ObservedCloneJob,
    ObservedGroup,
    ObservedNode,
    ObservedTable,
    ObservedVolume,
)
from colocation.state.observation import Observation
from colocation.state.recycled import recycled_records, reference_of

START = datetime(2026, 11, 21, tzinfo=UTC)
DISK_BYTES = 1 << 40
MANIFEST = "d" * 64


class Crash(BaseException):
    """The operator dies; no one in it may catch this."""


@dataclass
class FakeCluster:
    """ClusterReader and ClusterWriter in one. ``crash_after``: how many more actions are performed before a Crash.

    ``quota``: whether the API server refuses claims. ``writers``: folder -> uid of the table that wrote its manifest.
    """

    now: datetime = START
    crash_after: int | None = None
    broken: type[Action] | None = None
    quota: bool = False
    groups: dict[tuple[str, str], ObservedGroup] = field(default_factory=dict)
    tables: dict[tuple[str, str], ObservedTable] = field(default_factory=dict)
    nodes: dict[str, ObservedNode] = field(default_factory=dict)
    jobs: dict[str, ObservedCloneJob] = field(default_factory=dict)
    disks: dict[str, dict[str, set[int]]] = field(default_factory=dict)
    bins: dict[str, dict[str, set[int]]] = field(default_factory=dict)
    specs: dict[str, CloneSpec] = field(default_factory=dict)
    bucket_bytes: dict[str, int] = field(default_factory=dict)
    writers: dict[str, str] = field(default_factory=dict)
    free_bytes: dict[str, int] = field(default_factory=dict)
    progress: dict[str, CloneProgress] = field(default_factory=dict)
    silent_since: dict[str, datetime] = field(default_factory=dict)
    last_words: dict[str, AgentView] = field(default_factory=dict)
    dropped: dict[str, DroppedTable] = field(default_factory=dict)
    config_maps: dict[tuple[str, str], SparkConfigMap] = field(default_factory=dict)
    claims: dict[str, ObservedClaim] = field(default_factory=dict)
    volumes: dict[str, ObservedVolume] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)
    performed: list[Action] = field(default_factory=list)
    _count: int = 0

    # What a test does to the cluster

    def add_node(self, name: str) -> None:
        self.nodes[name] = ObservedNode(name, {}, True, self.now, "", False)
        self.disks.setdefault(name, {})
        self.bins.setdefault(name, {})

    def set_ready(self, name: str, ready: bool) -> None:
        message = "" if ready else "Kubelet stopped posting node status."
        self.nodes[name] = replace(self.nodes[name], ready=ready, ready_changed_at=self.now, not_ready_message=message)

    def set_slow(self, name: str) -> None:
        """The agent answers later than a pass waits: what it said last stands until ``last_words`` forgets it."""
        self.last_words[name] = self._view(name)

    def remove_node(self, name: str) -> None:
        del self.nodes[name], self.disks[name], self.bins[name]

    def add_group(self, name: str, **spec: object) -> None:
        group_spec = ColocationGroupSpec.model_validate({"bucketKey": ["bigint"], "buckets": 4, "replicas": 2, **spec})
        self.groups["shop", name] = ObservedGroup(self._identity(name), group_spec, "", ColocationGroupStatus())

    def add_table(
        self, name: str, group: str = "sales", key_type: str = "bigint", namespace: str = "shop", **spec: object
    ) -> None:
        columns = [{"name": "k", "type": key_type}]
        table_spec = ColocatedTableSpec.model_validate(
            {"colocateWith": group, "columns": columns, "bucketedBy": ["k"], **spec}
        )
        identity = replace(self._identity(name), namespace=namespace)
        self.tables[namespace, name] = ObservedTable(identity, table_spec, "", ColocatedTableStatus())

    def edit_table(self, name: str, **spec: object) -> None:
        """A user changes the spec."""
        table = self.tables["shop", name]
        assert table.spec is not None
        edited = ColocatedTableSpec.model_validate({**table.spec.to_json_dict(), **spec})
        identity = replace(self._touched(table.identity), generation=table.identity.generation + 1)
        self.tables["shop", name] = replace(table, spec=edited, identity=identity)

    def ask_for(self, name: str, group: str = "sales") -> None:
        """A user wants a dropped table back."""
        found = self.group(group)
        record = next(record for record in found.status.recycled if record.name == name)
        requests = found.recover_requests | {record.uid[:8]}
        self.groups["shop", group] = replace(found, recover_requests=requests)

    def load(self, name: str, bytes_per_bucket: int = 100) -> None:
        """A loader puts every bucket on the nodes of the map, and commits."""
        table = self.tables["shop", name]
        assert table.status.group is not None, "the table is in no group yet"
        rows = self.group(table.status.group).status.backends_per_bucket_seq
        assert rows is not None, "the group has no map"
        for bucket, nodes in enumerate(rows):
            for node in nodes:
                self.disks[node].setdefault(table.directory, set()).add(bucket)
        self.bucket_bytes[table.directory] = bytes_per_bucket
        self.writers[table.directory] = table.identity.uid
        snapshot = TableSnapshot(
            id=1, manifest=f"sha256:{MANIFEST}", committed_at="2026-11-21T00:00:00Z", partitions=1,
            files=len(rows), rows=len(rows), bytes=bytes_per_bucket * len(rows),
        )  # fmt: skip
        status = table.status.model_copy(update={"snapshot": snapshot})
        self.tables["shop", name] = replace(table, status=status, identity=self._touched(table.identity))

    def replace_history(self, name: str, snapshot: TableSnapshot, history: tuple[TableSnapshot, ...]) -> None:
        """As a loader's commits leave it."""
        table = self.tables["shop", name]
        commits = (RecordedCommit(writer="stream", version=7, snapshot_id=snapshot.id),)
        status = table.status.model_copy(update={"snapshot": snapshot, "history": history, "commits": commits})
        self.tables["shop", name] = replace(table, status=status, identity=self._touched(table.identity))

    def drop_table(self, name: str, seen: bool = True) -> None:
        """``seen``: whether the operator was there."""
        table = self.tables.pop(("shop", name))
        if not seen:
            return
        self.dropped[table.identity.uid] = DroppedTable(table, self.now)

    def copy(self) -> tuple[dict[tuple[str, str], ObservedGroup], dict[tuple[str, str], ObservedTable]]:
        """Of what etcd holds."""
        return dict(self.groups), dict(self.tables)

    def restore(
        self, copy: tuple[dict[tuple[str, str], ObservedGroup], dict[tuple[str, str], ObservedTable]]
    ) -> None:
        """Bring back what etcd held; the disks stay as they are."""
        self.groups, self.tables = dict(copy[0]), dict(copy[1])
        self.dropped.clear()

    def purge(self, node: str) -> None:
        """The node's agent finds that everything in its bin has waited for long enough."""
        self.bins[node].clear()

    def end_clones(self, succeed: bool = True) -> None:
        """Every running clone ends, and its files lie on the target if it succeeded."""
        for name, job in list(self.jobs.items()):
            if job.phase not in ("pending", "running"):
                continue
            failures = job.failures + (not succeed)
            phase = "succeeded" if succeed else "failed"
            self.jobs[name] = replace(job, phase=phase, failures=failures, finished_at=self.now)
            if succeed:
                for copied in self.specs[name].tables:
                    self.disks[job.target].setdefault(copied.directory, set()).add(job.bucket)

    def group(self, name: str = "sales") -> ObservedGroup:
        return self.groups["shop", name]

    def table(self, name: str) -> ObservedTable:
        return self.tables["shop", name]

    def events(self) -> list[str]:
        return [action.reason for action in self.performed if isinstance(action, PostEvent)]

    # ClusterReader

    async def observe(self, doubtful: Mapping[str, datetime] | None = None) -> Observation:
        self.now += timedelta(microseconds=1)  # time passes between any two looks
        agents = tuple(
            ObservedAgent("colocation", f"agent-{name}", name, "1", name, f"10.0.0.{index}", False,
                          is_marked=name in self.marked, is_kept=name in self.marked)
            for index, name in enumerate(sorted(self.disks))
        )
        return Observation(
            now=self.now,
            groups=tuple(self.groups[key] for key in sorted(self.groups)),
            tables=tuple(self.tables[key] for key in sorted(self.tables)),
            nodes=tuple(self.nodes[name] for name in sorted(self.nodes)),
            agents=agents,
            clone_jobs=tuple(self.jobs[name] for name in sorted(self.jobs)),
            agent_views={name: self.last_words.get(name) or self._view(name) for name in self.disks},
            bucket_bytes=self._known_bytes(),
            dropped_tables=dict(self.dropped),
            namespace_uids={"shop": "12345678-0000"},
            ca_certificate="PEM",
            started_at=START,
            tables_seen_at={table.identity.uid: table.identity.created_at for table in self.tables.values()},
            volumes=tuple(self.volumes[name] for name in sorted(self.volumes)),
            claims=tuple(self.claims[namespace] for namespace in sorted(self.claims)),
        )

    # ClusterWriter

    async def perform(self, action: Action) -> None:
        if self.broken is not None and isinstance(action, self.broken):
            raise ClusterError("the API server is away")
        if self.quota and isinstance(action, CreateDataClaim):
            raise Refused("exceeded quota: no-claims")
        if self.crash_after == 0:
            raise Crash
        if self.crash_after is not None:
            self.crash_after -= 1
        self._perform(action)
        self.performed.append(action)

    def _perform(self, action: Action) -> None:
        match action:
            case CreateTable() | RestoreTable() | EndRecoverRequests():
                self._recover(action)
            case CreateGroup(namespace, name, spec, private):
                new = ObservedGroup(self._identity(name), spec, "", ColocationGroupStatus(), private=private)
                self.groups.setdefault((namespace, name), new)
            case DeleteGroup(group):
                self.groups.pop((group.namespace, group.name), None)
            case WriteGroupStatus(identity, status):
                current = self._current(self.groups, identity)
                merged = {**current.status.to_json_dict(), **status}
                parsed = ColocationGroupStatus.model_validate(merged)
                self.groups[current.key] = replace(current, status=parsed, identity=self._touched(identity))
            case MarkGroupUnstable(identity, status):
                found = self.groups[identity.namespace, identity.name]
                parsed = ColocationGroupStatus.model_validate({**found.status.to_json_dict(), **status})
                self.groups[found.key] = replace(found, status=parsed, identity=self._touched(found.identity))
            case WriteTableStatus(identity, status):
                table = self._current(self.tables, identity)
                merged = {**table.status.to_json_dict(), **status}
                parsed_table = ColocatedTableStatus.model_validate(merged)
                key = (identity.namespace, identity.name)
                self.tables[key] = replace(table, status=parsed_table, identity=self._touched(identity))
            case StartClone():
                self._start_clone(action)
            case RemoveClone(job):
                self.jobs.pop(job.name, None)
            case DropBucket():
                if self.groups[action.group.namespace, action.group.name].status.map_version != action.map_version:
                    raise StaleDecision("the map has changed")
                for table in action.tables:
                    self.disks[action.node].get(table.directory, set()).discard(action.bucket)
            case RecycleTable(node, _, _, directory):
                buckets = self.disks[node].pop(directory, None)
                if buckets is not None:
                    self.bins[node][directory] = buckets
            case WriteConfigMap(group, content):
                namespace = content.placement.namespace
                self.config_maps[namespace, config_map_of(namespace, (group.namespace, group.name))] = content
            case CreateDataClaim() | CreateDataVolume() | DeleteDataClaim() | DeleteDataVolume():
                self._write_files(action)
            case LabelNode(node, _, labels):
                self._label(node, labels)
            case MarkAgent(_, _, _, node, holds_replicas):
                self.marked = self.marked | {node} if holds_replicas else self.marked - {node}
            case CollectGarbage() | PostEvent():
                pass

    def _label(self, node: str, labels: Mapping[str, str | None]) -> None:
        found = self.nodes[node]
        merged = {**found.group_labels, **labels}
        kept = {label: value for label, value in merged.items() if value is not None}
        self.nodes[node] = replace(found, group_labels=kept)

    def _write_files(
        self, action: CreateDataClaim | CreateDataVolume | DeleteDataClaim | DeleteDataVolume
    ) -> None:
        """What is deleted is gone at once; a volume is bound to the claim that it is for."""
        match action:
            case CreateDataClaim(namespace):
                identity = replace(self._identity(DATA_CLAIM), namespace=namespace)
                self.claims.setdefault(namespace, ObservedClaim(identity, True, ""))
            case CreateDataVolume(namespace, data_root, claim_uid):
                identity = replace(self._identity(data_volume_name(namespace)), namespace="")
                made = ObservedVolume(identity, namespace, data_path(data_root, namespace), claim_uid)
                self.volumes.setdefault(identity.name, made)
                claim = self.claims.get(namespace)
                if claim is not None and claim.identity.uid == claim_uid:
                    self.claims[namespace] = replace(claim, volume=identity.name)
            case DeleteDataClaim(claim_identity):
                if self._has(self.claims.get(claim_identity.namespace), claim_identity):
                    del self.claims[claim_identity.namespace]
            case DeleteDataVolume(volume_identity):
                if self._has(self.volumes.get(volume_identity.name), volume_identity):
                    del self.volumes[volume_identity.name]

    @staticmethod
    def _has(found: ObservedClaim | ObservedVolume | None, identity: Identity) -> bool:
        return found is not None and found.identity.uid == identity.uid

    def _recover(self, action: CreateTable | RestoreTable | EndRecoverRequests) -> None:
        match action:
            case CreateTable(record, folders, colocate_with, replicas):
                schema = RecycledSchema(columns=(Column(name="k", type="bigint"),), bucketed_by=("k",), buckets=4)
                places = (*self.bins.values(), *self.disks.values())
                assert all(any(one.directory in place for place in places) for one in folders)
                body = recovered_table(record, schema, colocate_with, replicas)
                spec = ColocatedTableSpec.model_validate(body["spec"])
                made = ObservedTable(self._identity(record.name), spec, "", ColocatedTableStatus(), record.uid)
                self.tables.setdefault((record.namespace, record.name), made)
            case RestoreTable(node, _, _, directory, successor, _):
                buckets = self.bins[node].pop(directory, None) or self.disks[node].pop(directory, None)
                if buckets is not None:
                    self._give(node, directory, successor, buckets)
            case EndRecoverRequests(group, requests):
                found = self.groups[group.namespace, group.name]
                left = found.recover_requests.difference(requests)
                self.groups[group.namespace, group.name] = replace(found, recover_requests=left)

    def _give(self, node: str, directory: str, successor: str, buckets: set[int]) -> None:
        """What the successor lacks of the folder."""
        if successor not in self.disks[node]:
            self.disks[node][successor] = buckets
            self.bucket_bytes[successor] = self.bucket_bytes[directory]
            self.writers[successor] = self.writers[directory]

    def _start_clone(self, action: StartClone) -> None:
        if action.replaces:
            self.jobs.pop(action.name, None)
        identity = replace(self._identity(action.name), namespace="colocation")
        job = ObservedCloneJob(
            identity, action.spec.namespace, action.spec.group, action.spec.bucket, action.source, action.spec.target,
            action.failures, "running", self.now, None,
        )  # fmt: skip
        self.jobs.setdefault(action.name, job)
        self.specs[action.name] = action.spec

    def _current(self, objects, identity):  # type: ignore[no-untyped-def]
        current = objects.get((identity.namespace, identity.name))
        if current is None or current.identity.resource_version != identity.resource_version:
            raise StaleDecision("the object has been modified")
        return current

    def _identity(self, name: str) -> Identity:
        self._count += 1
        return Identity("shop", name, f"{self._count:08d}-uid", str(self._count), 1, self.now)

    def _touched(self, identity: Identity) -> Identity:
        self._count += 1
        return replace(identity, resource_version=str(self._count))

    def _known_bytes(self) -> dict[tuple[str, str, str], dict[int, int]]:
        return {
            ("shop", directory, MANIFEST): dict.fromkeys(range(self._buckets(directory)), size)
            for directory, size in self.bucket_bytes.items()
        }

    def _buckets(self, directory: str) -> int:
        """As many as lie anywhere: the fake's tables fill all buckets of their group."""
        held = [disk[directory] for disk in (*self.disks.values(), *self.bins.values()) if disk.get(directory)]
        return max((max(buckets) + 1 for buckets in held), default=0)

    def _view(self, node: str) -> AgentView:
        known = {table.directory for table in self.tables.values()}
        tables = tuple(
            TableReport(
                namespace="shop", directory=directory, manifest=MANIFEST,
                manifest_present=any(directory in disk for disk in self.disks.values()),
                buckets={
                    bucket: _complete(self.bucket_bytes[directory])
                    for bucket in sorted(self.disks[node].get(directory, ()))
                },
            )
            for directory in known
        )  # fmt: skip
        unknown = tuple(f"shop/{directory}" for directory in self.disks[node] if directory not in known)
        report = AgentReport(
            node=node, revision=str(self._count), capacity_bytes=DISK_BYTES,
            free_bytes=self.free_bytes.get(node, DISK_BYTES), tables=tables,
            unknown_directories=unknown, clones=(self.progress[node],) if node in self.progress else (),
            recycled_directories=tuple(f"shop/{directory}" for directory in self.bins[node]),
        )  # fmt: skip
        silent_since = self.silent_since.get(node)
        records = recycled_records(self.groups.values())
        asked = tuple(self._asked(table, records) for table in self.tables.values())
        return AgentView.of(report, asked, silent_since or self.now, silent_since)

    def _asked(self, table: ObservedTable, records: dict[str, tuple[RecycledTable, ObservedGroup]]) -> AskedTable:
        group = self.groups.get(group_key(table.identity.namespace, table.status.group or ""))
        return AskedTable(
            reference=reference_of(table, records),
            uid=table.identity.uid,
            group_uid=group.identity.uid if group else None,
            map_version=(group.status.map_version or 0) if group else 0,
        )


def _complete(size: int) -> BucketReport:
    return BucketReport(state="complete", files_wanted=1, files_held=1, bytes_wanted=size, bytes_held=size)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)
