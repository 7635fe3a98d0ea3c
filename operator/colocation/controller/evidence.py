"""How far an agent's last word may be trusted: what was ordered or decided since then may have made it untrue.

Safety invariants (the simulation checks them):

- a replica is deleted only while every replica in the map is known to be complete from a report that was asked for when
  this map was in place already. From then on nobody deletes a replica of the map, as every deletion is checked
  against the map's version; an older report may tell of a replica that has been deleted since;
- a replica that this operator ordered to be deleted counts as gone until its agent says otherwise.

What is remembered here only makes the operator wait; an operator that has just started knows nothing, and waits for one
report more.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ..kube.actions import Action, DropBucket
from ..kube.observation import AgentView, Observation, ObservedGroup
from ..model.snapshot import GroupState, Snapshot

Replica = tuple[str, str, str, int]
"""(node, namespace, group, bucket)."""


@dataclass(frozen=True)
class Evidence:
    """What an operator remembers of its own.

    ``maps_seen``: group uid -> (map version, when it was first seen). ``dropped``: replica -> when that was ordered.
    """

    maps_seen: Mapping[str, tuple[int, datetime]] = field(default_factory=dict)
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

    def allows_drop(self, group: ObservedGroup, bucket: int, views: Mapping[str, AgentView]) -> bool:
        """Whether every replica of the bucket in the map is reported on since the map is in place."""
        rows, version = group.status.backends_per_bucket_seq, group.status.map_version
        seen_version, seen_at = self.maps_seen.get(group.identity.uid, (None, None))
        if rows is None or seen_at is None or seen_version != version:
            return False
        if bucket >= len(rows):
            return True  # of a predecessor of the group
        found = [views.get(node) for node in rows[bucket]]
        return all(view is not None and view.silent_since is None and view.is_newer_than(seen_at) for view in found)

    def _not_told(self, observation: Observation) -> dict[Replica, datetime]:
        views = observation.agent_views
        return {
            replica: moment
            for replica, moment in self.dropped.items()
            if (view := views.get(replica[0])) and not view.is_newer_than(moment)
        }

    def _seen(self, group: ObservedGroup, now: datetime) -> tuple[int, datetime]:
        version = group.status.map_version or 0
        known = self.maps_seen.get(group.identity.uid)
        return known if known and known[0] == version else (version, now)


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
