"""One pass, decided: observation in, actions out. Pure; the same observation gives the same actions.

Actions come in scopes. Within a scope their order matters: a later one builds on the earlier ones, so when one fails,
the rest of its scope waits for the next pass. Scopes do not touch each other: a refused table or a failing group never
harms the others, and neither does an exception that one object provokes (``Decision.errors``).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from ..model.conditions import Reason
from ..model.group import BucketSequence, GroupMember, RecycledTable, RememberedDisk
from ..model.names import node_label
from ..model.plan import GroupPlan, Plan
from ..model.schema_check import Refusal
from ..model.snapshot import GroupState, Snapshot
from ..state.clone_jobs import group_uids, is_current, transfer_name
from ..state.confirmation import faults_of
from ..state.containment import Containment, group_scope, table_scope
from ..state.disks import next_disks
from ..state.held import TableReports
from ..state.index import TableIndex
from ..state.membership import GroupKey, memberships
from ..state.memo import Memo
from ..state.objects import ObservedCloneJob, ObservedGroup, ObservedTable
from ..state.observation import Observation
from ..state.snapshot import awaits_files, snapshot_of
from .actions import Action, CollectGarbage, DropBucket, LabelNode, MarkAgent, RecycleTable, RestoreTable
from .agent_marks import mark_actions
from .clones import clone_actions, ends_of
from .config_maps import agents_of, config_maps
from .deletion import (
    Leftover,
    collect_actions,
    delete_group,
    drop_actions,
    leftover_drops,
    leftovers,
    stray_clones,
)
from .evidence import Evidence
from .group_status import GroupFacts, invalid_status, next_status, status_actions, unstable_actions, waiting_status
from .members import delete_after, next_members, next_recycled
from .namespace_files import FilesProblem, NamespaceFiles
from .node_labels import group_nodes, label_actions
from .planned import planned
from .policy import Policy
from .recovery import (
    Recovery,
    bins_of,
    folders_taken_over,
    lacks_manifest,
    lying_of,
    recoveries_of,
    request_actions,
)
from .recycling import Withheld, recycling
from .tables import TableFacts, fault_actions, missing_groups, table_actions
from .transfers import Transfer, TransferClones, transfers_of

DELETIONS = (DropBucket, RecycleTable, CollectGarbage)
"""From disks; each is a scope of its own."""


@dataclass(frozen=True)
class Scope:
    """Actions that are performed in order, up to the first that fails. ``name`` is for logs and metrics."""

    name: str
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class Decision:
    """What a pass found and wants done.

    ``is_waiting``: tables are on their way or being brought back, or a grace ends with the clock alone.
    ``errors``: scope -> what deciding about it raised; the group or table says so itself (``InternalError``), and all
    others are decided about as ever. ``withheld``: folders that are not recycled, as they would be too many at once.
    """

    snapshot: Snapshot
    plan: Plan
    scopes: tuple[Scope, ...]
    is_waiting: bool = False
    errors: Mapping[str, Exception] = field(default_factory=dict)
    withheld: Withheld | None = None


def decide(
    observation: Observation, evidence: Evidence, policy: Policy, collect: bool, memo: Memo | None = None
) -> Decision:
    """What to do about this observation.

    ``evidence``: how far to trust it. ``collect``: whether it is time to collect garbage. ``memo``: of the decisions
    before, which saves work and changes nothing.
    """
    memo = memo or Memo()
    memo.begin()
    return _Pass(evidence.trusted(observation), evidence, policy, memo).decision(collect)


class _Pass:
    """The steps of one decision, each with what the ones before it found."""

    def __init__(self, observation: Observation, evidence: Evidence, policy: Policy, memo: Memo) -> None:
        self.observation, self.evidence, self.policy, self.memo = observation, evidence, policy, memo
        self.containment = Containment()
        membership, self.reports = memberships(observation, memo), TableReports(observation, memo)
        self.index = TableIndex(observation, membership, faults_of(observation, membership, self.reports), memo)
        self.snapshot = snapshot_of(
            self.index, self.reports, policy.limits, policy.agent_grace_seconds, self.containment
        )
        self.plan = planned(self.snapshot, self.containment)
        self.jobs = self._jobs_by_group()
        self.nodes = {node.name: node for node in self.snapshot.nodes}
        self.ready = frozenset(name for name, node in self.nodes.items() if node.ready)
        self.disk_missing = frozenset(
            name for name, node in self.nodes.items() if node.not_ready_reason == Reason.DISK_MISSING
        )
        self.recycled = {group.key: self._recycled(group) for group in observation.groups}
        records = chain.from_iterable(self.recycled.values())
        self.recycling = recycling(self.index, records, evidence, policy)
        self.leftovers: Mapping[GroupKey, list[Leftover]] = {}
        self.bins, self.lying = bins_of(observation), lying_of(observation)
        self.labelled: dict[str, frozenset[str]] = {}
        self.files = NamespaceFiles(self.index, policy.data_root)

    def decision(self, collect: bool) -> Decision:
        """All scopes, those of the groups first."""
        transfers = list(
            transfers_of(self.index, self.reports, self.snapshot, self.plan, self.evidence, self.containment)
        )
        grace_seconds = self.policy.garbage_grace_seconds
        self.leftovers = leftovers(self.index) if collect else {}
        scopes = [
            Scope("missing groups", tuple(missing_groups(self.index.membership))),
            *(Scope(f"files of namespace {name}", actions) for name, actions in self.files.actions()),
            *self._scopes_of_groups(),
            *self._scopes_of_tables(transfers),
            *self._transfer_scopes(transfers),
            *_single("stray clone", stray_clones(self.observation)),
            *_single("recycle", self.recycling.actions),
            *_single("collect", collect_actions(self.index, self.reports, grace_seconds) if collect else ()),
            *(Scope(f"labels of node {action.node}", (action,)) for action in self._label_actions()),
            *(Scope(f"mark of agent {action.node}", (action,)) for action in self._mark_actions()),
        ]
        wanted = tuple(scope for scope in scopes if scope.actions and not self._is_withheld(scope))
        errors = self.containment.errors
        is_waiting = bool(transfers or errors) or any(table.is_recovering for table in self.observation.tables)
        is_waiting = is_waiting or bool(self.evidence.ordered)
        is_waiting = is_waiting or any(group.unconfirmed for group in self.snapshot.groups)
        is_waiting = is_waiting or self.recycling.is_waiting
        return Decision(self.snapshot, self.plan, wanted, is_waiting, errors, self.recycling.withheld)

    def _is_withheld(self, scope: Scope) -> bool:
        """Nothing is deleted from disks while the API server does not keep all that operators remember in statuses."""
        return bool(self.observation.lost_fields) and isinstance(scope.actions[0], DELETIONS)

    def _recycled(self, group: ObservedGroup) -> tuple[RecycledTable, ...]:
        found = self.containment.run(group_scope(group), lambda: next_recycled(self.index, self.reports, group))
        return group.status.recycled if found is None else found

    def _scopes_of_groups(self) -> Iterator[Scope]:
        states = {(one.namespace, one.name): one for one in self.snapshot.groups}
        plans = {(one.namespace, one.name): one for one in self.plan.groups}
        for group in self.observation.groups:
            if group.identity.deleting:
                continue
            name, key = group_scope(group), group.key
            scopes: list[Scope] | None = None
            if group.status_error:
                problem = f"{group.status_error}; correct the status"
                said = unstable_actions(group, Reason.INVALID_STATUS, problem, self.observation.now)
                scopes = [Scope(name, tuple(said))]
            elif group.spec is None:
                scopes = [Scope(name, tuple(status_actions(group, invalid_status(self.observation, group))))]
            elif awaits_files(self.index, group):
                waiting = waiting_status(self.observation, group, self.recycled[key])
                scopes = [Scope(name, tuple(status_actions(group, waiting)))]
            elif key in states and plans[key].is_judged and name not in self.containment.errors:
                parts = (group, states[key], plans[key], tuple(self.jobs.get(key, ())))
                scopes = self.containment.run(name, partial(self._scopes_of_group, *parts))
            yield from [self._failed_group(group)] if scopes is None else scopes

    def _failed_group(self, group: ObservedGroup) -> Scope:
        """A group that cannot be decided about is not stable, and says so; nothing else is done for it."""
        name = group_scope(group)
        error = self.containment.errors.get(name) or self.containment.errors.get(f"plan of {name}")
        message = f"deciding about the group failed: {error!r}; the operator's log has more"
        return Scope(name, tuple(unstable_actions(group, Reason.INTERNAL_ERROR, message, self.observation.now)))

    def _jobs_by_group(self) -> dict[GroupKey, list[ObservedCloneJob]]:
        jobs: dict[GroupKey, list[ObservedCloneJob]] = {}
        uids = group_uids(self.observation)
        for job in self.observation.clone_jobs:
            if is_current(uids, job) and not job.identity.deleting:
                jobs.setdefault((job.group_namespace, job.group), []).append(job)
        return jobs

    def _withheld_of(self, group: ObservedGroup) -> Withheld | None:
        """What is not recycled in the group's namespace."""
        withheld = self.recycling.withheld
        return withheld.within(group.identity.namespace) if withheld else None

    def _files_problem_of(self, group: ObservedGroup) -> FilesProblem | None:
        """Of the first namespace in which pods of the group do not get its files."""
        tables = self.index.membership.members[group.key]
        namespaces = {group.identity.namespace, *(table.identity.namespace for table in tables)}
        problems = (self.files.problem_of(namespace) for namespace in sorted(namespaces))
        return next((problem for problem in problems if problem), None)

    def _arriving_jobs(self, key: GroupKey) -> Iterator[ObservedCloneJob]:
        """Of the tables that move to the group."""
        for table in self.index.membership.arriving.get(key, ()):
            identity = table.identity
            yield from self.jobs.get((identity.namespace, transfer_name(identity.uid)), ())

    def _scopes_of_group(
        self, group: ObservedGroup, state: GroupState, group_plan: GroupPlan, jobs: tuple[ObservedCloneJob, ...]
    ) -> list[Scope]:
        """What does not build on the status is apart from it: a status that cannot be written stops no repair."""
        recycled = self.recycled[group.key]
        facts = GroupFacts(
            group=group,
            spec=state.spec,
            state=state,
            plan=group_plan,
            tables=self.index.membership.members[group.key],
            jobs=jobs,
            members=self._members_of(group),
            recycled=recycled,
            delete_after=delete_after(self.index, group, state.spec, recycled),
            withheld=self._withheld_of(group),
            ends=ends_of((*jobs, *self._arriving_jobs(group.key)), self.observation.now, self.snapshot.limits),
            disks=self._disks_of(group, group_plan.next_map or state.map or ()),
            ready=self.ready.intersection(chain.from_iterable(state.map or ())),
            files_problem=self._files_problem_of(group),
            lost_fields=self.observation.lost_fields,
        )
        name = group_scope(group)
        written, maps = self._status_of_group(facts), self._config_maps(facts)
        if facts.plan.next_map:
            written, maps = (*written, *maps), ()  # they name the nodes of a map that has to be there first
        answers = request_actions(self.index, group, self.lying)
        requested = (*answers, *delete_group(facts, self.observation.now))
        self.labelled[node_label(*group.key)] = self._nodes_of(facts)
        return [
            Scope(name, (*written, *requested)),
            Scope(f"clones of {name}", tuple(clone_actions(self.index, self.snapshot, facts))),
            *_single(f"ConfigMaps of {name}", maps),
            *self._drop_scopes(facts),
        ]

    def _disks_of(self, group: ObservedGroup, rows: BucketSequence) -> tuple[RememberedDisk, ...]:
        placed = {node for row in rows for node in row}
        return next_disks(group.status.disks, placed, self.observation, self.disk_missing)

    def _members_of(self, group: ObservedGroup) -> tuple[GroupMember, ...]:
        index, tables = self.index, self.index.membership.members[group.key]
        memories = tuple(index.membership.memories.get(table.identity.uid) for table in tables)
        leaving = index.leaving and index.leaving.intersection(table.identity.uid for table in tables)
        known = {table.identity.uid for table in tables}
        others = tuple(member.uid for member in group.status.members if member.uid not in known)
        return self.memo.of(
            ("members", group.key),
            (tables, memories, leaving, others),
            lambda: next_members(index, group),
            is_lasting=lambda _: not others,
        )

    def _status_of_group(self, facts: GroupFacts) -> tuple[Action, ...]:
        """The clock has a part in what changes, none in what stays as it is."""
        namespace_uid = self.observation.namespace_uids.get(facts.group.identity.namespace)
        return self.memo.of(
            ("status", facts.group.key),
            (facts, namespace_uid),
            lambda: tuple(status_actions(facts.group, next_status(self.observation, facts))),
            is_lasting=lambda actions: not (actions or facts.jobs or facts.ends or facts.group.status.failing_targets),
        )

    def _nodes_of(self, facts: GroupFacts) -> frozenset[str]:
        """A group at rest has the nodes of its map, as it had before."""
        if facts.jobs or facts.plan.moves:
            return group_nodes(facts)
        return self.memo.of(("nodes", facts.group.key), (facts.map,), lambda: group_nodes(facts))

    def _undecided_labels(self) -> frozenset[str]:
        """Of groups about which nothing is known in this pass."""
        known = (group for group in self.observation.groups if not group.identity.deleting)
        return frozenset(node_label(*group.key) for group in known) - self.labelled.keys()

    def _mark_actions(self) -> tuple[MarkAgent, ...]:
        """After what is decided about each group."""
        seen = self.observation
        parts = (seen.agents, seen.nodes, tuple(self.labelled.values()), self._undecided_labels())
        return self.memo.of("agent marks", parts, lambda: mark_actions(*parts))

    def _label_actions(self) -> tuple[LabelNode, ...]:
        """Of all groups together, so that a node is written once; after what is decided about each of them."""
        nodes, wanted, undecided = self.observation.nodes, self.labelled, self._undecided_labels()
        parts = (nodes, tuple(wanted.items()), undecided)
        return self.memo.of("node labels", parts, lambda: tuple(label_actions(nodes, wanted, undecided)))

    def _config_maps(self, facts: GroupFacts) -> tuple[Action, ...]:
        agents = agents_of(facts, self.observation.readers_urls, self.ready, self.disk_missing)
        return self.memo.of(
            ("ConfigMaps", facts.group.key),
            (facts.group, facts.tables, facts.map, agents, self.policy, self.observation.ca_certificate),
            lambda: tuple(config_maps(self.observation.ca_certificate, facts, agents, self.policy)),
        )

    def _drop_scopes(self, facts: GroupFacts) -> Iterator[Scope]:
        """Drops that are known to be safe now; the others wait for newer reports."""
        views = self.observation.agent_views
        grace_seconds, left = self.policy.garbage_grace_seconds, self.leftovers.get(facts.group.key, ())
        drops = drop_actions(self.index, self.reports, facts, grace_seconds)
        more = leftover_drops(self.index, facts, left, self.ready, grace_seconds)
        allowed = (
            drop for drop in (*drops, *more) if self.evidence.allows_drop(facts.group, facts.tables, drop.bucket, views)
        )
        return _single("drop", allowed)

    def _scopes_of_tables(self, transfers: Iterable[Transfer]) -> Iterator[Scope]:
        moving = {transfer.table.identity.uid: transfer for transfer in transfers}
        found = recoveries_of(self.index, self.reports, self.snapshot, self.containment, self.lying)
        recoveries = {one.table.identity.uid: one for one in found}
        for table in self.observation.tables:
            if table.identity.deleting:
                continue
            uid, name = table.identity.uid, table_scope(table)
            scopes: tuple[Scope, ...] | None = None
            if name not in self.containment.errors:
                scopes = self.containment.run(
                    name, self._scopes_of_table, name, table, moving.get(uid), recoveries.get(uid)
                )
            yield from (self._failed_table(table),) if scopes is None else scopes

    def _failed_table(self, table: ObservedTable) -> Scope:
        name = table_scope(table)
        message = f"deciding about the table failed: {self.containment.errors.get(name)!r}; the operator's log has more"
        refusal = Refusal(reason=Reason.INTERNAL_ERROR, message=message)
        return Scope(name, tuple(fault_actions(self.observation, table, refusal)))

    def _scopes_of_table(
        self, name: str, table: ObservedTable, transfer: Transfer | None, recovery: Recovery | None
    ) -> tuple[Scope, ...]:
        index, uid = self.index, table.identity.uid
        group, refusal = index.groups.get(index.places.get(uid, ("", ""))), index.membership.refusals.get(uid)
        fault = index.faults.get(uid)
        if fault and fault.reason == Reason.INVALID_STATUS:
            return (Scope(name, tuple(fault_actions(self.observation, table, fault))),)
        if transfer and transfer.is_done:
            group, transfer = transfer.target, None
        urgent: list[RestoreTable] = []
        others: list[RestoreTable] = []
        for order in folders_taken_over(index, self.bins, self.lying, table):
            (urgent if lacks_manifest(self.observation, table, order.node) else others).append(order)
        orders: tuple[Action, ...] = (*urgent, *self.evidence.not_asked_lately(others, self.observation.now))
        if recovery:
            orders = (*orders, *recovery.orders)
            group, refusal = (recovery.group, None) if recovery.is_whole else (None, recovery.refusal)
        written = self._status_of_table(
            TableFacts(table, group, refusal, transfer, recovery, fault, uid in index.membership.staying)
        )
        return (Scope(name, written), *_single("restore", orders)) if written or orders else ()

    def _status_of_table(self, facts: TableFacts) -> tuple[Action, ...]:
        """The clock has a part in what changes, and in which snapshots are retained; none in what stays as it is."""
        table, group, membership, now = facts.table, facts.group, self.index.membership, self.observation.now
        is_over = table.history_ends_at is not None and now >= table.history_ends_at
        is_lasting = group is not None and facts.transfer is None and facts.recovery is None and not is_over
        uid, namespace_uids = table.identity.uid, self.observation.namespace_uids
        namespace_uid = namespace_uids.get(group.identity.namespace) if group else None
        wanted = membership.wanted.get(uid)
        orphans = membership.orphans.get(wanted) if wanted else None
        return self.memo.of(
            ("table", uid),
            (
                *(table, group, facts.refusal, facts.transfer, facts.recovery, facts.fault, facts.is_staying),
                *(membership.memories.get(uid), wanted, orphans, namespace_uid, is_over),
            ),
            lambda: tuple(table_actions(self.observation, membership, facts)),
            is_lasting=lambda actions: is_lasting and not actions,
        )

    def _transfer_scopes(self, transfers: list[Transfer]) -> Iterator[Scope]:
        """Clones of tables that move to another group, after those that the groups themselves need."""
        receiving = Counter(clone.to for clone in self.snapshot.clones if clone.retry_at is None)
        receiving.update(one.moves[number].to for one in self.plan.groups for number in one.start_now)
        clones = TransferClones(self.index, self.snapshot, receiving)
        for transfer in transfers:
            name = f"transfer of {table_scope(transfer.table)}"
            yield Scope(name, self.containment.run(name, partial(clones.actions, transfer)) or ())
        yield from _single("arrived", clones.strays(transfers))


def _single(name: str, actions: Iterable[Action]) -> Iterator[Scope]:
    """Actions that do not build on each other."""
    return (Scope(name, (action,)) for action in actions)
