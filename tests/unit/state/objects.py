"""Small observed objects; tests say what matters about them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from colocation.manifests.clone_job import clone_job_name
from colocation.model.agent import AgentReport, BucketReport, CloneProgress, DiskReport, TableReport
from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus
from colocation.model.table import ColocatedTableSpec, ColocatedTableStatus, TableSnapshot
from colocation.state.agent_view import AgentView
from colocation.state.objects import (
    Identity,
    ObservedAgent,
    ObservedCloneJob,
    ObservedGroup,
    ObservedNode,
    ObservedTable,
)
from colocation.state.placement import TableMemory, member_of

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
MANIFEST = "a" * 64
GROUP_UID = "deadbeef-group"
GIB = 1 << 30


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def identity(name: str, uid: str = "12345678-uid", created_at: datetime = NOW) -> Identity:
    return Identity("shop", name, uid, "1", 1, created_at)


def group(name: str = "sales", status: ColocationGroupStatus | None = None, **spec: object) -> ObservedGroup:
    parsed = ColocationGroupSpec.model_validate({"bucketKey": ["bigint"], "buckets": 2, "replicas": 2, **spec})
    return ObservedGroup(identity(name, GROUP_UID), parsed, "", status or ColocationGroupStatus())


def table(
    name: str,
    group_name: str = "sales",
    files: int | None = 2,
    size: int = 100,
    key_type: str = "bigint",
    **spec: object,
) -> ObservedTable:
    """``files``: of the committed snapshot; None = nothing was committed."""
    fields = {"colocateWith": group_name, "columns": [{"name": "k", "type": key_type}], "bucketedBy": ["k"], **spec}
    snapshot = None
    if files is not None:
        manifest = f"sha256:{MANIFEST}"
        snapshot = TableSnapshot(id=1, manifest=manifest, committed_at="2026-11-21T00:00:00Z", files=files, bytes=size)
    status = ColocatedTableStatus(snapshot=snapshot)
    uid = f"{sum(name.encode()):08d}-uid"
    return ObservedTable(identity(name, uid), ColocatedTableSpec.model_validate(fields), "", status)


def remembering(of: ObservedGroup, *tables: ObservedTable, leaving: bool = False) -> ObservedGroup:
    """The group, its status naming these tables as the operator wrote it."""
    members = [member_of(one, leaving, _memory(one)) for one in tables]
    return replace(of, status=of.status.model_copy(update={"members": (*of.status.members, *members)}))


def _memory(of: ObservedTable) -> TableMemory:
    return TableMemory(of.status.replicas, of.spec.columns_digest if of.spec else "", of.status.snapshot)


def bucket(state: str | None, size: int = 50) -> BucketReport:
    held = 1 if state is not None else 0
    return BucketReport(
        state=state, files_wanted=1, files_held=held, bytes_wanted=size, bytes_held=size * held  # type: ignore[arg-type]
    )


def table_report(of: ObservedTable, states: dict[int, str | None], manifest: str | None = MANIFEST) -> TableReport:
    return TableReport(
        namespace="shop", directory=of.directory, manifest=manifest, manifest_present=True,
        buckets={number: bucket(state) for number, state in states.items()},
    )  # fmt: skip


def view(
    *tables: TableReport,
    silent_since: datetime | None = None,
    capacity_bytes: int = GIB,
    clones: tuple[CloneProgress, ...] = (),
    unknown: tuple[str, ...] = (),
    disk: DiskReport | None = None,
) -> AgentView:
    report = AgentReport(
        node="any", revision="1", capacity_bytes=capacity_bytes, free_bytes=capacity_bytes // 2, tables=tables,
        clones=clones, unknown_directories=unknown, disk=disk,
    )  # fmt: skip
    return AgentView.of(report, None, NOW, silent_since)


def node(name: str, ready: bool = True, labels: dict[str, str] | None = None, deleting: bool = False) -> ObservedNode:
    return ObservedNode(name, labels or {}, ready, NOW - seconds(60), "" if ready else "kubelet is silent", deleting)


def agent(node_name: str, address: str | None = "10.0.0.1", deleting: bool = False) -> ObservedAgent:
    return ObservedAgent("system", f"agent-{node_name}", f"uid-{node_name}", "1", node_name, address, deleting)


def clone_job(phase: str = "running", failures: int = 0, finished_at: datetime | None = None) -> ObservedCloneJob:
    """Of bucket 0 to node-3."""
    name = clone_job_name(GROUP_UID, 0, "node-3")
    return ObservedCloneJob(
        identity(name), "shop", "sales", 0, "node-1", "node-3", failures, phase,  # type: ignore[arg-type]
        NOW - seconds(30), finished_at,
    )  # fmt: skip
