"""How far an agent's last word may be trusted: what was ordered or decided since then may have made it untrue.

Safety invariants (the simulation checks them):

- a replica is deleted only while every replica in the map is known to be complete from a report that was asked for when
  this map was in place already. From then on nobody deletes a replica of the map, as every deletion is checked
  against the map's version; an older report may tell of a replica that has been deleted since;
- the same holds for a table that comes from another group: reports count since its new group's status names it;
- a replica that this operator ordered to be deleted counts as gone until its agent says otherwise.

What is remembered here only makes the operator wait; an operator that has just started knows nothing, and waits for one
report more.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ..model.snapshot import GroupState, Snapshot
from ..state.observation import AgentView, Observation, ObservedGroup, ObservedTable
from .actions import Action, DropBucket

Replica = tuple[str, str, str, int]
"""(node, namespace, group, bucket)."""
Fence = tuple[int, tuple[tuple[str, bool], ...]]
"""(map version, the members' uids and whether they are leaving)."""


@dataclass(frozen=True)
class Evidence:
    """What an operator remembers of its own.

    ``maps_seen``: group uid -> (map version and members, when they were first seen). ``dropped``: replica -> when that
    was ordered.
    """

    maps_seen: Mapping[str, tuple[Fence, datetime]] = field(default_factory=dict)
    dropped: Mapping[Replica, datetime] = field(default_factory=dict)

    def after(self, observation: Observation, attempted: Iterable[Action]) -> "Evidence":
        """What to remember after a pass that attempted these actions.

        All questions that the observation knows the answers of were put before its ``now``.
        """
        maps_seen = {
            group.identity.uid: self._seen(group, observation.now)
            for group in observation.groups
            if group.status.map_version is not None
        }
        dropped = dict.fromkeys(_drops(attempted), observation.now)
        return Evidence(maps_seen, {**self._not_told(observation), **dropped})

    def correct(self, snapshot: Snapshot, observation: Observation) -> Snapshot:
        """The snapshot without the replicas that were ordered to be deleted and not spoken of since."""
        gone = self._not_told(observation)
        if not gone:
            return snapshot
        groups = tuple(_without(group, gone) for group in snapshot.groups)
        return snapshot.model_copy(update={"groups": groups})

    def allows_drop(
        self, group: ObservedGroup, tables: Iterable[ObservedTable], bucket: int, views: Mapping[str, AgentView]
    ) -> bool:
        """Whether every replica of the bucket in the map is reported on since the map is in place, for these tables.

        A table of which the group's status does not know yet has just come from another group.
        """
        rows = group.status.backends_per_bucket_seq
        known = {member.uid for member in group.status.members}
        if rows is None or any(table.identity.uid not in known for table in tables):
            return False
        if bucket >= len(rows):
            return self._seen_at(group) is not None  # of a predecessor of the group
        return self.is_newer(group, rows[bucket], views)

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

    def _not_told(self, observation: Observation) -> dict[Replica, datetime]:
        views = observation.agent_views
        return {
            replica: moment
            for replica, moment in self.dropped.items()
            if (view := views.get(replica[0])) and not view.is_newer_than(moment)
        }

    def _seen(self, group: ObservedGroup, now: datetime) -> tuple[Fence, datetime]:
        fence = _fence(group)
        known = self.maps_seen.get(group.identity.uid)
        return known if known and known[0] == fence else (fence, now)


def _fence(group: ObservedGroup) -> Fence:
    return group.status.map_version or 0, tuple((member.uid, member.leaving) for member in group.status.members)


def _without(group: GroupState, gone: Collection[Replica]) -> GroupState:
    held = {
        node: {
            bucket: state
            for bucket, state in states.items()
            if (node, group.namespace, group.name, bucket) not in gone
        }
        for node, states in group.held.items()
    }
    return group.model_copy(update={"held": {node: states for node, states in held.items() if states}})


def _drops(attempted: Iterable[Action]) -> Iterable[Replica]:
    for action in attempted:
        if isinstance(action, DropBucket):
            yield action.node, action.group.namespace, action.group.name, action.bucket
