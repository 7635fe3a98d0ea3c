"""Groups that the operator leaves out of its snapshot: nothing of them moves, whatever nodes hold their files.

It leaves out what it cannot decide about: a spec or status that is not valid, an error of its own, a group without a
map whose tables' files it still looks for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kubernetes.client.exceptions import ApiException

from ...model.conditions import Reason
from ...model.group import BucketSequence, ColocationGroupStatus
from ...model.salvage import salvage
from ...model.snapshot import Snapshot
from ..cluster import Cluster
from ..errors import HTTP_FORBIDDEN, CommandFailed, api_message

Json = dict[str, Any]
MAX_GROUPS_TOLD = 3


@dataclass(frozen=True)
class LeftOutGroup:
    """``name``: namespace/name. ``map``: None while nobody can say which nodes hold its files. ``why``: one line."""

    name: str
    map: BucketSequence | None
    why: str

    def may_be_on(self, node: str) -> bool:
        """Whether the node holds replicas of it, as far as anybody knows."""
        return self.map is None or any(node in nodes for nodes in self.map)

    def said(self) -> str:
        """For people."""
        where = "; nobody knows yet which nodes hold its files" if self.map is None else ""
        return f"nothing moves of group {self.name} ({self.why}){where}"


def left_out_groups(cluster: Cluster, snapshot: Snapshot) -> tuple[LeftOutGroup, ...]:
    """The groups of all namespaces that are not in the snapshot, which was taken before.

    Raises:
        CommandFailed: one may not list them.
    """
    try:
        groups = cluster.all_groups()
    except ApiException as error:
        if error.status != HTTP_FORBIDDEN:
            raise
        raise CommandFailed(
            "nobody can say whether all replicas are counted: the operator's snapshot leaves out groups that it cannot "
            f"decide about, and they cannot be listed ({api_message(error)}); needed: list colocationgroups in all "
            "namespaces, which is part of the ClusterRole colocation-admin (bind it by a ClusterRoleBinding)"
        ) from error
    return left_out_of(snapshot, groups)


def left_out_of(snapshot: Snapshot, groups: Iterable[Json]) -> tuple[LeftOutGroup, ...]:
    """Those of the groups that are not in the snapshot."""
    planned = {(group.namespace, group.name) for group in snapshot.groups}
    return tuple(
        _left_out(group)
        for group in groups
        if (group["metadata"]["namespace"], group["metadata"]["name"]) not in planned
    )


def _left_out(group: Json) -> LeftOutGroup:
    metadata = group["metadata"]
    status, _ = salvage(ColocationGroupStatus, group.get("status"))
    rows = status.backends_per_bucket_seq
    has_unreadable_map = rows is None and bool((group.get("status") or {}).get("backendsPerBucketSeq"))
    if rows is None and not has_unreadable_map and status.reason not in (None, Reason.RECOVERING):
        rows = ()  # it never had a map, so no node was given files of it
    return LeftOutGroup(f"{metadata['namespace']}/{metadata['name']}", rows, _why(metadata, status))


def _why(metadata: Json, status: ColocationGroupStatus) -> str:
    """What its conditions say of it, in the operator's words."""
    if metadata.get("deletionTimestamp"):
        return "it is being deleted"
    said = next((one for one in status.conditions if one.status == "False" and one.message), None)
    if said is None:
        return f"the operator has not said why: colocation show {metadata['name']} -n {metadata['namespace']}"
    return f"{said.reason}: {said.message}"


def told(groups: Sequence[LeftOutGroup]) -> str:
    """The first few for people, each with its reason; empty when there are none."""
    parts = [group.said() for group in groups[:MAX_GROUPS_TOLD]]
    if len(groups) > MAX_GROUPS_TOLD:
        parts.append(f"and {len(groups) - MAX_GROUPS_TOLD} more groups like these")
    return "; ".join(parts)
