"""Observations of a small quiet cluster; tests say what is different about theirs."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from colocation.model.agent import AskedTable, DiskReport, TableReport
from colocation.model.group import BucketSequence, ColocationGroupStatus, GroupMember, RecycledTable, RememberedDisk
from colocation.model.snapshot import Limits
from colocation.reconcile.decide import Decision, decide
from colocation.reconcile.evidence import Evidence
from colocation.reconcile.policy import Policy
from colocation.state.agent_view import AgentView
from colocation.state.objects import ObservedGroup, ObservedTable
from colocation.state.observation import Observation
from colocation.state.placement import recycled_records, reference_of

from ..state.objects import GROUP_UID, MANIFEST, NOW, agent, group, node, seconds, table, table_report, view

POLICY = Policy(Limits(), agent_grace_seconds=30, garbage_grace_seconds=3600)
MAP: BucketSequence = (("node-1", "node-2"), ("node-2", "node-3"))
NODES = ("node-1", "node-2", "node-3")
MAP_VERSION = 3
BUCKET_BYTES = {0: 50, 1: 50}
OWN, STRANGE = "0" * 16, "1" * 16
"""Ids of disks."""
SETTLED = NOW - seconds(3600)
"""When everything was first seen, in a scene where nothing is new."""


def member_of(of: ObservedTable) -> GroupMember:
    identity = of.identity
    return GroupMember(namespace=identity.namespace, name=identity.name, uid=identity.uid, snapshot=of.status.snapshot)


def settled_table(name: str, **spec: object) -> ObservedTable:
    """A loaded table that its group has taken."""
    made = table(name, **spec)  # type: ignore[arg-type]
    status = made.status.model_copy(update={"group": "sales", "buckets": 2, "accepted": True})
    return replace(made, status=status)


def settled_group(
    tables: Iterable[ObservedTable], recycled: tuple[RecycledTable, ...] = (), rows: BucketSequence = MAP
) -> ObservedGroup:
    """Stable, with a map."""
    status = ColocationGroupStatus(
        stable=True,
        backends_per_bucket_seq=rows,
        map_version=MAP_VERSION,
        members=tuple(member_of(one) for one in tables),
        recycled=recycled,
    )
    return group(status=status)


def held_by(node_name: str, of: ObservedTable, rows: BucketSequence = MAP, manifest: str = MANIFEST) -> TableReport:
    """What a node should have of a table by the map."""
    states: dict[int, str | None] = {number: "complete" for number, row in enumerate(rows) if node_name in row}
    return table_report(of, states, manifest)


def asked(of: ObservedTable, groups: Iterable[ObservedGroup]) -> AskedTable:
    """The question about a table, as the agents were put it."""
    reference = reference_of(of, recycled_records(groups))
    return AskedTable(reference=reference, uid=of.identity.uid, group_uid=GROUP_UID, map_version=MAP_VERSION)


def agent_view(
    observed_group: ObservedGroup,
    tables: Iterable[ObservedTable],
    reports: Iterable[TableReport],
    unknown: tuple[str, ...] = (),
) -> AgentView:
    """An agent that answered a moment ago what it was asked about these tables."""
    report = view(*reports, unknown=unknown).report
    assert report is not None
    report = report.model_copy(update={"instance": "agent-process", "uptime_seconds": 1000.0})
    questions = [asked(one, (observed_group,)) for one in tables]
    return AgentView.of(report, questions, NOW - seconds(5), None, NOW - seconds(6))


def observe(
    observed_group: ObservedGroup, tables: Iterable[ObservedTable], views: Mapping[str, AgentView], **more: object
) -> Observation:
    """Three nodes with agents; an operator that has led for an hour."""
    tables = tuple(tables)
    found: dict[str, object] = {
        "groups": (observed_group,),
        "tables": tables,
        "nodes": tuple(node(name) for name in NODES),
        "agents": tuple(agent(name) for name in NODES),
        "agent_views": views,
        "bucket_bytes": {("shop", one.directory, MANIFEST): BUCKET_BYTES for one in tables},
        "namespace_uids": {"shop": "12345678-0000"},
        "term": 7,
        "started_at": SETTLED,
        **more,
    }
    return Observation(NOW, **found)  # type: ignore[arg-type]


def on_disk(observation: Observation, node_name: str, disk: str) -> Observation:
    """The same, where a node's agent tells of this disk; the group remembers ``OWN`` there."""
    [group] = observation.groups
    node_uid = observation.nodes_by_name[node_name].uid[:8]
    remembered = (RememberedDisk(node=node_name, node_uid=node_uid, disk=OWN),)
    group = replace(group, status=group.status.model_copy(update={"disks": remembered}))
    found = observation.agent_views[node_name]
    assert found.report is not None
    shown = replace(found, report=found.report.model_copy(update={"disk": DiskReport(id=disk)}))
    return replace(observation, groups=(group,), agent_views={**observation.agent_views, node_name: shown})


def quiet_observation(*names: str) -> Observation:
    """Loaded tables of one group, complete on every node of its map."""
    tables = tuple(settled_table(name) for name in names)
    made = settled_group(tables)
    views = {name: agent_view(made, tables, [held_by(name, one) for one in tables]) for name in NODES}
    return observe(made, tables, views)


def decided(observation: Observation, collect: bool = True) -> Decision:
    """By an operator that has seen the map for long."""
    earlier = replace(observation, now=SETTLED)
    return decide(observation, Evidence().after(earlier, ()), POLICY, collect)


Kind = TypeVar("Kind")


def actions_of(decision: Decision, kind: type[Kind]) -> list[Kind]:
    """The actions of one kind, in their order."""
    return [action for scope in decision.scopes for action in scope.actions if isinstance(action, kind)]
