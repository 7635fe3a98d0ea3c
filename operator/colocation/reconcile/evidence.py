"""How far an agent's last word may be trusted: what was ordered or decided since then may have made it untrue.

Safety invariants (the simulation checks them):

- a replica is deleted only while every replica in the map is known to be complete from a report that was asked for when
  this map was in place already. From then on no replica of the map is deleted, as every deletion is checked
  against the map's version; an older report may tell of a replica that has been deleted since;
- and only once readers can know of every node that has the bucket now (``READERS_LEARN_SECONDS``);
- the same holds for a table that comes from another group: reports count since its new group's status names it;
- files that this operator ordered to be deleted count as gone until the order has ended or can no longer run, *and* a
  report that was asked for after that shows otherwise: an order may wait in a queue while newer reports come.

Each order to delete carries a proof: what it was decided on. It is void once the agent finds any of that untrue.

What is remembered here only makes the operator wait; an operator that has just started knows nothing, and waits for one
report more. Orders of its predecessor are void where they are carried out: they are of an older term.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ..model.agent import DeletionProof, TableReport
from ..model.group import BucketSequence
from ..state.agent_view import AgentView
from ..state.objects import ObservedCloneJob, ObservedGroup, ObservedNode, ObservedTable
from ..state.observation import Observation
from .actions import Action, DropBucket, RecycleTable, RestoreTable

Files = tuple[str, str, str, int | None]
"""(node, namespace, directory, bucket); without a bucket the whole folder."""
Fence = tuple[int, tuple[tuple[str, bool], ...]]
"""(map version, 0 without a map; the members' uids and whether they are leaving)."""
Holders = tuple[BucketSequence, Mapping[str, datetime]]
Progress = tuple[str, int, int]
"""(phase of a clone Job, bytes that it has copied, steps that it has taken)."""
Folder = tuple[str, str]
"""(node, '<namespace>/<directory>')."""
BRAKE_WINDOW = timedelta(hours=1)
"""Unexplained deletions within it count together, so that the brake is not passed in small steps."""
RESTORE_AGAIN = timedelta(minutes=2)
ORDER_VALIDITY_SECONDS = 30.0
"""Of the agent's own clock, since the report that the order was decided on. An order is void after that."""
UNCERTAIN = timedelta(seconds=ORDER_VALIDITY_SECONDS + 1)
"""An order that is not known to have ended cannot run later than this."""
READERS_LEARN_SECONDS = 150.0
"""After it all readers know a node that has come into a group's map. A query asks the nodes of when it was planned, and
those in its pods' file of the group's ConfigMap, which the kubelet renews within some two minutes (period and cache).
"""
NO_HOLDERS: Holders = ((), {})


@dataclass(frozen=True)
class Evidence:
    """What an operator remembers of its own.

    ``maps_seen``: group uid -> (map version and members, when they were first seen). ``holders_seen``: group uid ->
    (rows of its map, node -> since when the map names it, for any bucket). ``ordered``: files that were ordered to be
    deleted -> until when the order may run. ``clones_seen``: Job uid -> (phase and bytes, when they were
    first seen). ``future_seen``: name of a time that is in the future, as another's clock is ahead -> when it was
    first seen. ``unknown_seen``: folder without a table -> when it was first seen. ``unexplained``: folder that was
    ordered into the bin lately although no group knows that its table was dropped -> when, and its bytes.
    ``restored``: order to give a table a folder, or files of it -> when. ``unneeded_since``: node with a holder pod
    that no group needs -> since when.
    """

    maps_seen: Mapping[str, tuple[Fence, datetime]] = field(default_factory=dict)
    ordered: Mapping[Files, datetime] = field(default_factory=dict)
    clones_seen: Mapping[str, tuple[Progress, datetime]] = field(default_factory=dict)
    future_seen: Mapping[str, datetime] = field(default_factory=dict)
    unknown_seen: Mapping[Folder, datetime] = field(default_factory=dict)
    unexplained: Mapping[Folder, tuple[datetime, int]] = field(default_factory=dict)
    restored: Mapping[RestoreTable, datetime] = field(default_factory=dict)
    holders_seen: Mapping[str, Holders] = field(default_factory=dict)
    unneeded_since: Mapping[str, datetime] = field(default_factory=dict)

    def after(
        self, observation: Observation, attempted: Iterable[Action], unneeded: Iterable[str] = ()
    ) -> "Evidence":
        """What to remember after a pass that attempts these actions. ``unneeded``: nodes with a holder pod that no
        group needs.

        All questions that the observation knows the answers of were put before its ``now``.
        """
        maps_seen = {group.identity.uid: self._seen(group, observation.now) for group in observation.groups}
        holders_seen = {group.identity.uid: self._holders_seen(group, observation.now) for group in observation.groups}
        clones_seen = {job.identity.uid: self._clone_seen(observation, job) for job in observation.clone_jobs}
        future_seen = {name: self.future_seen.get(name, observation.now) for name in _future_times(observation)}
        attempted = tuple(attempted)
        ordered = dict.fromkeys(_deletions(attempted), observation.now + UNCERTAIN)
        unexplained = {
            (one.node, f"{one.namespace}/{one.directory}"): (observation.now, one.size_bytes)
            for one in attempted
            if isinstance(one, RecycleTable) and not one.is_explained
        }
        return Evidence(
            maps_seen=maps_seen,
            holders_seen=holders_seen,
            ordered={**self._uncertain(observation), **ordered},
            clones_seen=clones_seen,
            future_seen=future_seen,
            unneeded_since={node: self.unneeded_since.get(node, observation.now) for node in unneeded},
            unknown_seen={key: self.unknown_seen.get(key, observation.now) for key in _unknown_folders(observation)},
            unexplained={**self._in_window(observation.now), **unexplained},
            restored={
                **{order: at for order, at in self.restored.items() if observation.now - at < RESTORE_AGAIN},
                **{one: observation.now for one in attempted if isinstance(one, RestoreTable)},
            },
        )

    def not_asked_lately(self, orders: Iterable[RestoreTable], now: datetime) -> Iterator[RestoreTable]:
        """Those that were not sent just now: one that found nothing to do looks like one that did."""
        return (order for order in orders if now - self.restored.get(order, now - RESTORE_AGAIN) >= RESTORE_AGAIN)

    def is_unknown_for(self, action: RecycleTable, now: datetime, seconds: float) -> bool:
        """Whether this operator has seen the folder without a table for so long."""
        seen_at = self.unknown_seen.get((action.node, f"{action.namespace}/{action.directory}"))
        return seen_at is not None and (now - seen_at).total_seconds() >= seconds

    def unexplained_in_window(self, observation: Observation) -> tuple[int, ...]:
        """The bytes of each folder that was ordered into the bins lately, unexplained, and is there no longer."""
        lying = set(_unknown_folders(observation))
        return tuple(
            size_bytes for folder, (_, size_bytes) in self._in_window(observation.now).items() if folder not in lying
        )

    def _in_window(self, now: datetime) -> dict[Folder, tuple[datetime, int]]:
        return {folder: one for folder, one in self.unexplained.items() if now - one[0] < BRAKE_WINDOW}

    def ended(self, performed: Iterable[Action], now: datetime) -> "Evidence":
        """What to remember when these actions were done by ``now``: only reports from before that are doubtful."""
        done = {files: now for files in _deletions(performed) if files in self.ordered}
        return replace(self, ordered={**self.ordered, **done}) if done else self

    @property
    def doubtful(self) -> Mapping[str, datetime]:
        """Nodes whose agents have to say again what they hold, and from when on: after the last order has ended."""
        moments: dict[str, datetime] = {}
        for (node, *_), until in self.ordered.items():
            moments[node] = max(until, moments.get(node, until))
        return moments

    def trusted(self, observation: Observation) -> Observation:
        """The observation as far as it is known to be true.

        Without the files that were ordered to be deleted, while that may be true or become true; with the times of
        others' clocks that lie in the future as they were first seen, and since when clones have not advanced.
        """
        return self._with_known_times(self._without_ordered(observation))

    def _with_known_times(self, observation: Observation) -> Observation:
        def known(name: str, moment: datetime | None) -> datetime | None:
            if moment is None or moment <= observation.now:
                return moment
            return self.future_seen.get(name, observation.now)

        jobs = tuple(
            replace(
                job,
                finished_at=known(_job_time(job), job.finished_at),
                advanced_at=self._clone_seen(observation, job)[1],
            )
            for job in observation.clone_jobs
        )
        nodes = observation.nodes
        if any(node.ready_changed_at and node.ready_changed_at > observation.now for node in nodes):
            nodes = tuple(
                replace(node, ready_changed_at=known(_node_time(node), node.ready_changed_at)) for node in nodes
            )
        is_same = not jobs and nodes is observation.nodes
        return observation if is_same else replace(observation, nodes=nodes, clone_jobs=jobs)

    def _clone_seen(self, observation: Observation, job: ObservedCloneJob) -> tuple[Progress, datetime]:
        shown = observation.clone_progress.get(job.place)
        progress = (job.phase, shown.bytes_done if shown else 0, shown.steps if shown else 0)
        known = self.clones_seen.get(job.identity.uid)
        return known if known and known[0] == progress else (progress, observation.now)

    def _without_ordered(self, observation: Observation) -> Observation:
        by_node: dict[str, list[Files]] = {}
        for files in self._uncertain(observation):
            by_node.setdefault(files[0], []).append(files)
        views = {
            node: _without(view, gone)
            for node, gone in by_node.items()
            if (view := observation.agent_views.get(node)) is not None
        }
        return replace(observation, agent_views={**observation.agent_views, **views}) if views else observation

    def allows_drop(
        self, group: ObservedGroup, tables: Iterable[ObservedTable], bucket: int, observation: Observation
    ) -> bool:
        """Whether every replica of the bucket in the map is reported on since the map is in place, for these tables,
        and readers can know their nodes: a query that began before would ask only nodes that have lost the bucket.

        So a replica goes later, also on a node that is drained or short of disk. A table of which the group's status
        does not know yet has just come from another group.
        """
        rows = group.status.backends_per_bucket_seq
        known = {member.uid for member in group.status.members}
        if rows is None or any(table.identity.uid not in known for table in tables):
            return False
        if bucket >= len(rows):
            return self._seen_at(group) is not None  # of a predecessor of the group
        are_known = all(self._is_known_to_readers(group, node, observation.now) for node in rows[bucket])
        return are_known and self.is_newer(group, rows[bucket], observation.agent_views)

    def _is_known_to_readers(self, group: ObservedGroup, node: str, now: datetime) -> bool:
        _, nodes = self.holders_seen.get(group.identity.uid, NO_HOLDERS)
        since = nodes.get(node)
        return since is not None and (now - since).total_seconds() >= READERS_LEARN_SECONDS

    def is_newer(self, group: ObservedGroup, nodes: Iterable[str], views: Mapping[str, AgentView]) -> bool:
        """Whether the nodes answer, and were asked since the group's map and members are what they are."""
        seen_at = self._seen_at(group)
        if seen_at is None:
            return False
        found = [views.get(node) for node in nodes]
        return all(view is not None and view.silent_since is None and view.is_newer_than(seen_at) for view in found)

    def _seen_at(self, group: ObservedGroup) -> datetime | None:
        fence, seen_at = self.maps_seen.get(group.identity.uid, (None, None))
        return seen_at if fence == _fence(group) else None

    def _uncertain(self, observation: Observation) -> dict[Files, datetime]:
        """Of a node that is gone only while the order may run: no other report can come."""

        def may_be_true(node: str, until: datetime) -> bool:
            view = observation.agent_views.get(node)
            return observation.now < until if view is None else not view.is_newer_than(until)

        return {files: until for files, until in self.ordered.items() if may_be_true(files[0], until)}

    def _seen(self, group: ObservedGroup, now: datetime) -> tuple[Fence, datetime]:
        fence = _fence(group)
        known = self.maps_seen.get(group.identity.uid)
        return known if known and known[0] == fence else (fence, now)

    def _holders_seen(self, group: ObservedGroup, now: datetime) -> Holders:
        rows = group.status.backends_per_bucket_seq or ()
        known = self.holders_seen.get(group.identity.uid, NO_HOLDERS)
        return known if known[0] == rows else (rows, {node: known[1].get(node, now) for row in rows for node in row})


def _unknown_folders(observation: Observation) -> Iterator[Folder]:
    for node, view in observation.agent_views.items():
        for path in view.report.unknown_directories if view.report else ():
            yield node, path


def _future_times(observation: Observation) -> Iterator[str]:
    for node in observation.nodes:
        if node.ready_changed_at and node.ready_changed_at > observation.now:
            yield _node_time(node)
    for job in observation.clone_jobs:
        if job.finished_at and job.finished_at > observation.now:
            yield _job_time(job)


def _node_time(node: ObservedNode) -> str:
    return f"node {node.name} {node.ready_changed_at}"


def _job_time(job: ObservedCloneJob) -> str:
    return f"job {job.identity.uid}"


def _fence(group: ObservedGroup) -> Fence:
    return group.status.map_version or 0, tuple((member.uid, member.leaving) for member in group.status.members)


def _without(view: AgentView, gone: Collection[Files]) -> AgentView:
    """The agent's last word without these files."""
    tables: dict[tuple[str, str], TableReport] = dict(view.tables)
    for _, namespace, directory, bucket in gone:
        key = (namespace, directory)
        found = tables.get(key)
        if found is not None and bucket is None:
            del tables[key]
        elif found is not None:
            left = {number: held for number, held in found.buckets.items() if number != bucket}
            unnamed = tuple(number for number in found.unnamed_buckets if number != bucket)
            tables[key] = replace(found, buckets=left, unnamed_buckets=unnamed)
    folders = {f"{namespace}/{directory}" for _, namespace, directory, bucket in gone if bucket is None}
    report = view.report
    if report is not None and folders:
        lying = tuple(path for path in report.unknown_directories if path not in folders)
        report = report.model_copy(update={"unknown_directories": lying})
    return replace(view, report=report, tables=tables)


def _deletions(actions: Iterable[Action]) -> Iterator[Files]:
    for action in actions:
        match action:
            case DropBucket():
                for table in action.tables:
                    yield action.node, table.namespace, table.directory, action.bucket
            case RecycleTable():
                yield action.node, action.namespace, action.directory, None
            case _:
                pass


def proof_of_table(observation: Observation, view: AgentView, table: ObservedTable) -> DeletionProof | None:
    """That files of a table may go, as the agent was last asked about it.

    None while it was not asked about this very table, or is silent: it could not know which files are wanted.
    """
    asked = view.asked.get((table.identity.namespace, table.directory))
    if asked is None or asked.uid != table.identity.uid:
        return None
    return _proof(observation, view, asked.uid, asked.group_uid, asked.map_version)


def proof_of_folder(observation: Observation, view: AgentView, table_uid: str) -> DeletionProof | None:
    """That a folder is of no table, by the agent's last word; None while it is silent."""
    return _proof(observation, view, table_uid, None, 0)


def _proof(
    observation: Observation, view: AgentView, table_uid: str, group_uid: str | None, map_version: int
) -> DeletionProof | None:
    report = view.report
    if report is None or view.answered_at is None or view.silent_since is not None:
        return None
    since_seconds = max(0.0, (observation.now - view.answered_at).total_seconds())
    return DeletionProof(
        instance=report.instance,
        not_after_seconds=report.uptime_seconds + since_seconds + ORDER_VALIDITY_SECONDS,
        term=observation.term,
        table_uid=table_uid,
        group_uid=group_uid,
        map_version=map_version,
    )
