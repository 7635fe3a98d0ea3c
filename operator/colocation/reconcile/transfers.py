"""Decides how tables move to another group: clones first, then one write of the table's status, then deletions.

Safety invariant: the table's status names its new group only once a report that was asked for after the old group was
known to delete nothing of the table any more (``leaving`` in its status, with a new map version) shows that every
replica is complete there. Until then readers, loaders and repairs keep to the old group.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ..manifests.clone_job import clone_job_name
from ..model.clone import CloneSource, CloneSpec
from ..model.conditions import EventReason, Reason
from ..model.group import BucketSequence
from ..model.names import TABLE_KIND, group_reference
from ..model.plan import Plan
from ..model.snapshot import FailingTarget, Node, Snapshot
from ..model.wording import listed
from ..planner.cluster import room_left
from ..state.clone_jobs import SETTLE_SECONDS, is_transfer, retry_at, transfer_name
from ..state.held import GroupFiles, Held, holdings
from ..state.objects import ObservedCloneJob, ObservedGroup, ObservedTable
from ..state.observation import Observation
from ..state.parse import format_time
from ..state.views import ClusterView, GroupView, TableView
from .actions import Action, PostEvent, RemoveClone, StartClone
from .clones import is_given_up
from .evidence import Evidence
from .scopes import Containment

Replica = tuple[int, str]
"""Bucket, node."""


@dataclass(frozen=True)
class Transfer:
    """A table on its way. ``missing``: the replicas that the new group's map wants and that are not complete.

    ``wanted``: how many the map wants. ``is_safe``: nothing of it can be deleted any more on the old group's behalf.
    ``shortage``: what the new group's disks lack for it; nothing is copied until they have room for all of it.
    ``left_out``: nodes to which nothing is copied now, as the last clones there failed; ``failing``: why, for people.
    """

    view: TableView
    origin: ObservedGroup
    target: ObservedGroup
    bucket_bytes: tuple[int, ...]
    held: Held
    missing: tuple[Replica, ...]
    wanted: int
    is_safe: bool
    left_out: Mapping[str, FailingTarget]
    shortage: str | None = None
    failing: str | None = None

    @property
    def table(self) -> ObservedTable:
        """The table itself."""
        return self.view.table

    @property
    def is_done(self) -> bool:
        """Whether the table's status may name the new group."""
        return self.is_safe and not self.missing and self.target.status.backends_per_bucket_seq is not None

    @property
    def reason(self) -> Reason:
        """What goes on, as a reason of conditions."""
        if self.shortage:
            return Reason.INSUFFICIENT_SPACE
        return Reason.TARGET_FAILING if self.failing else Reason.MOVING

    @property
    def is_stalled(self) -> bool:
        """Whether something is in its way."""
        return self.shortage is not None or self.failing is not None

    @property
    def message(self) -> str:
        """What goes on, for people."""
        namespace = self.table.identity.namespace
        origin, target = (group_reference(namespace, group.key) for group in (self.origin, self.target))
        text = f"from group {origin}, which places it until then, to group {target}"
        if self.target.status.backends_per_bucket_seq is None:
            return f"{text}, which has no map yet"
        text = f"{text}: {self.wanted - len(self.missing)} of {self.wanted} replicas"
        return "; ".join(one for one in (text, self.shortage, self.failing) if one)


def transfers_of(
    cluster: ClusterView, snapshot: Snapshot, planned: Plan, evidence: Evidence, containment: Containment
) -> Iterator[Transfer]:
    """Every table that moves to another group, in the order of groups and tables, which is that of their turns.

    ``planned``: what it starts now comes first.
    """
    ready = {node.name for node in snapshot.nodes if node.ready}
    room = room_left(snapshot, planned) if cluster.arrivals else {}
    for group in cluster.arrivals:
        for view in group.arriving:
            if view.fault is None:
                found = containment.run(
                    view.table.scope, _transfer_with_room, view, group, evidence, cluster.observation, ready
                )
                if found:
                    transfer, wanted = found
                    shortage = reserve(room, wanted, snapshot.limits.disk_headroom_fraction)
                    yield replace(transfer, shortage=shortage, failing=_failing(transfer))


def _failing(transfer: Transfer) -> str | None:
    targets = transfer.left_out
    words = [
        f"{targets[node].failures} clones to node {node} failed: {targets[node].cause}; "
        f"it is tried again at {format_time(targets[node].retry_at)}"
        for node in sorted({node for _, node in transfer.missing} & targets.keys())
    ]
    return "; ".join(words) or None


def _transfer_with_room(
    view: TableView, target: GroupView, evidence: Evidence, seen: Observation, ready: set[str]
) -> tuple[Transfer, Counter[str]]:
    transfer = _transfer(view, target, evidence, seen, ready)
    return transfer, _bytes_to_come(transfer, seen, ready)


def _bytes_to_come(transfer: Transfer, seen: Observation, ready: set[str]) -> Counter[str]:
    """Node -> bytes that clones have yet to begin to write there; a failed clone goes on where it ended."""
    name, missing = transfer_name(transfer.view.uid), set(transfer.missing)
    begun = {(job.bucket, job.target): job for job in seen.clone_jobs if job.group == name}
    wanted: Counter[str] = Counter()
    for bucket, node in missing:
        job = begun.get((bucket, node))
        if node in ready and (job is None or job.phase == "failed"):
            progress = seen.clone_progress.get(job.place) if job else None
            wanted[node] += max(0, transfer.bucket_bytes[bucket] - (progress.bytes_done if progress else 0))
    return wanted


def _transfer(view: TableView, target: GroupView, evidence: Evidence, seen: Observation, ready: set[str]) -> Transfer:
    origin, group = view.group, target.group
    assert origin is not None  # what arrives here is placed by another group until then
    rows: BucketSequence = group.status.backends_per_bucket_seq or ()
    bucket_bytes, held, _ = holdings(GroupFiles((view.files,), len(rows), ()))
    wanted = [(bucket, node) for bucket, row in enumerate(rows) if bucket_bytes[bucket] for node in row]
    missing = [
        (bucket, node) for bucket, node in wanted if node not in ready or held.get(node, {}).get(bucket) != "complete"
    ]
    nodes = {node for _, node in wanted}
    is_safe = _is_leaving(origin, view) and evidence.is_newer(origin, nodes, seen.agent_views)
    left_out = {node: one for node, one in target.failing_targets.items() if seen.now < one.retry_at}
    return Transfer(view, origin, group, bucket_bytes, held, tuple(missing), len(wanted), is_safe, left_out)


def _is_leaving(origin: ObservedGroup, view: TableView) -> bool:
    """Whether the old group's status promises that it deletes nothing of the table any more."""
    return any(member.uid == view.uid and member.leaving for member in origin.status.members)


class TransferClones:
    """Starts and ends the clone Jobs of all transfers, within the limits that groups and nodes have.

    Args:
        cluster: the clone Jobs, and the addresses of agents.
        snapshot: nodes and limits.
        receiving: clones by node that run, or that the plan starts now.
    """

    def __init__(self, cluster: ClusterView, snapshot: Snapshot, receiving: Counter[str]) -> None:
        self._seen = seen = cluster.observation
        self._tables = cluster.tables
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._limits = snapshot.limits
        self._receiving = receiving
        self._jobs: dict[str, list[ObservedCloneJob]] = {}
        for job in filter(is_transfer, seen.clone_jobs):
            self._jobs.setdefault(job.group, []).append(job)

    def actions(self, transfer: Transfer) -> tuple[Action, ...]:
        """The Jobs to remove and to start for one table."""
        return tuple(self._actions(transfer))

    def _actions(self, transfer: Transfer) -> Iterator[Action]:
        uid, target = transfer.table.identity.uid, transfer.target
        jobs = {job.identity.name: job for job in self._jobs.get(transfer_name(uid), ())}
        wanted = {clone_job_name(uid, bucket, node): (bucket, node) for bucket, node in transfer.missing}
        for name, job in jobs.items():
            is_over = self._has_settled(job) or is_given_up(job, target, self._seen.now, self._limits)
            is_needed = name in wanted or self._ends_by_itself(job, target)
            if not job.identity.deleting and (not is_needed or is_over):
                yield RemoveClone(job.identity)
        running = sum(job.phase in ("pending", "running") for job in jobs.values())
        most = target.spec.balancing.max_concurrent_clones if target.spec else 0
        for name, (bucket, node) in wanted.items():
            last = jobs.get(name)
            if running < most and not transfer.shortage and self._may_start(transfer, node, last):
                action = self._start(transfer, name, bucket, node, last)
                if action:
                    running += 1
                    if last:
                        message = f"bucket {bucket} to node {node}: attempt {last.failures} failed: {last.message}"
                        yield PostEvent(
                            TABLE_KIND, transfer.table.identity, "Warning", EventReason.CLONE_FAILED, message
                        )
                    self._receiving[node] += 1
                    yield action

    def strays(self, transfers: Iterable[Transfer]) -> Iterator[RemoveClone]:
        """Jobs of tables that have arrived, or stay where they are."""
        moving = {transfer_name(transfer.table.identity.uid) for transfer in transfers}
        left = {name: jobs for name, jobs in self._jobs.items() if name not in moving}
        groups = {transfer_name(uid): view.group for uid, view in self._tables.items()} if left else {}
        for name, jobs in left.items():
            group = groups.get(name)
            for job in jobs:
                if not job.identity.deleting and not self._ends_by_itself(job, group):
                    yield RemoveClone(job.identity)

    def _ends_by_itself(self, job: ObservedCloneJob, group: ObservedGroup | None) -> bool:
        """Whether a running Job copies what the group's map wants: it checks its files once more after the agent has
        found them. One that is removed before it has ended leaves its folder on the node for a day.
        """
        if group is None or job.phase != "running" or is_given_up(job, group, self._seen.now, self._limits):
            return False
        rows = group.status.backends_per_bucket_seq or ()
        return job.bucket < len(rows) and job.target in rows[job.bucket]

    def _has_settled(self, job: ObservedCloneJob) -> bool:
        """It has succeeded, and the agent has had the time to find the files."""
        if job.phase != "succeeded":
            return False
        return job.finished_at is None or (self._seen.now - job.finished_at).total_seconds() >= SETTLE_SECONDS

    def _may_start(self, transfer: Transfer, node: str, last: ObservedCloneJob | None) -> bool:
        if node in transfer.left_out:
            return False
        if last is not None:
            again_at = retry_at(last)
            if again_at is None or again_at > self._seen.now:
                return False
        if not self._limits.clone_bandwidth.allows_another(self._receiving.total(), is_repair=False):
            return False
        found = self._nodes.get(node)
        return found is not None and found.ready and self._receiving[node] < self._limits.max_concurrent_clones_per_node

    def _start(
        self, transfer: Transfer, name: str, bucket: int, node: str, last: ObservedCloneJob | None
    ) -> StartClone | None:
        failures = last.failures if last else 0
        sources = self._sources(transfer, bucket, node, failures)
        if not sources or transfer.target.spec is None:
            return None
        balancing, uid = transfer.target.spec.balancing, transfer.table.identity.uid
        bandwidth = self._limits.clone_bandwidth
        spec = CloneSpec(
            namespace=transfer.table.identity.namespace,
            group=transfer_name(uid),
            bucket=bucket,
            target=node,
            tables=(transfer.view.reference,),
            sources=sources,
            max_bandwidth_mib_per_second=bandwidth.of_clone(balancing),
            max_node_bandwidth_mib_per_second=bandwidth.per_node_mib_per_second,
            disk_id=self._nodes[node].disk_id,
        )
        return StartClone(name, spec, None, failures, last.identity if last else None)

    def _sources(self, transfer: Transfer, bucket: int, node: str, failures: int) -> tuple[CloneSource, ...]:
        """Ready nodes that hold the bucket, complete ones first; another one first after each failure."""
        urls, held = self._seen.readers_urls, transfer.held
        holders = [
            found
            for found in self._nodes.values()
            if found.ready and found.name != node and bucket in held.get(found.name, {})
        ]

        def rank(found: Node) -> tuple[bool, str]:
            return held[found.name][bucket] != "complete", found.name

        ranked = sorted(holders, key=rank)
        shared = self._seen.shared_certificate_nodes
        sources = [
            CloneSource(node=one.name, url=url, shares_certificate=one.name in shared)
            for one in ranked
            if (url := urls.get(one.name))
        ]
        turn = failures % max(1, len(sources))
        return tuple(sources[turn:] + sources[:turn])


def reserve(room: dict[str, float], wanted: Mapping[str, int], headroom_fraction: float) -> str | None:
    """Take the bytes that are wanted of each node; where one has too few take nothing, and return what is short.

    ``room``: node -> bytes that may be written there.
    """
    short = [node for node in sorted(wanted) if wanted[node] > max(0, room.get(node, 0))]
    if short:
        return _shortage(room, wanted, short, headroom_fraction)
    for node in wanted.keys() & room.keys():
        room[node] -= wanted[node]
    return None


def _shortage(
    room: Mapping[str, float], wanted: Mapping[str, int], short: Iterable[str], headroom_fraction: float
) -> str:
    def words(node: str) -> str:
        free_bytes = max(0, math.floor(room.get(node, 0)))
        return f"node {node} is to take {wanted[node]} bytes and has room for {free_bytes}"

    headroom = f" ({100 * headroom_fraction:g} % of a disk stays free)" if headroom_fraction else ""
    return f"{listed(map(words, short))}{headroom}; add nodes or disks, or take the change back"
