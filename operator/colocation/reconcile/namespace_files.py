"""Decides about the PersistentVolumes and claims by which Spark's pods get the files of their own namespace.

One of each per namespace in which a group's pods run: where the group is, and where its tables are. The claim is made
first, then the volume for the claim of that uid, so that no other claim ever gets it: a namespace that was deleted
and made again has a claim with another uid, and the volume is made again for that one. A volume cannot be changed, so
one that is not as it should be is deleted and made again; that deletes no files.

Safety invariant: an action names objects of ours only, and a volume holds the folder of the namespace whose claim it is
for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..model.conditions import Reason
from ..model.names import DATA_CLAIM, data_path, data_volume_name
from ..state.objects import ObservedClaim, ObservedVolume
from ..state.views import ClusterView, GroupView
from .actions import Action, CreateDataClaim, CreateDataVolume, DeleteDataClaim, DeleteDataVolume


@dataclass(frozen=True)
class FilesProblem:
    """Why the Spark pods of a namespace do not get its files."""

    reason: Reason
    message: str


class NamespaceFiles:
    """What is there of volumes and claims, and what is to be done about it.

    Args:
        cluster: groups and tables, volumes and claims.
        data_root: on the nodes.
    """

    def __init__(self, cluster: ClusterView, data_root: str) -> None:
        self._groups = cluster.groups
        self._data_root = data_root
        self._seen = seen = cluster.observation
        self._claims: Mapping[str, ObservedClaim] = {
            claim.identity.namespace: claim for claim in seen.claims if claim.identity.name == DATA_CLAIM
        }
        self._volumes: Mapping[str, ObservedVolume] = {volume.identity.name: volume for volume in seen.volumes}

    def actions(self) -> Iterator[tuple[str, tuple[Action, ...]]]:
        """Per namespace the next step to what should be there; several steps are taken in as many passes."""
        for namespace in sorted(self._wanted):
            actions = tuple(self._actions_of(namespace))
            if actions:
                yield namespace, actions
        yield from self._unwanted()

    def problem_of_group(self, view: GroupView) -> FilesProblem | None:
        """Of the first namespace in which pods of the group do not get its files."""
        problems = (self.problem_of(namespace) for namespace in sorted(view.namespaces))
        return next((problem for problem in problems if problem), None)

    def problem_of(self, namespace: str) -> FilesProblem | None:
        """What keeps a namespace's pods from its files, and does not pass by itself; None = nothing."""
        taken = self._taken(namespace)
        if taken:
            message = f"{taken} was not made by the operator, which needs its name for the files of Spark's pods"
            return FilesProblem(Reason.DATA_CLAIM_TAKEN, f"{message}; delete it")
        refused = self._seen.refused_files.get(namespace)
        if refused is None:
            return None
        message = f"the API server refuses the volume or the claim of namespace {namespace}: {refused.message}"
        return FilesProblem(Reason.DATA_CLAIM_REFUSED, message)

    def _taken(self, namespace: str) -> str:
        """What has a name of ours and is not the operator's; empty = nothing."""
        claim, volume = self._claims.get(namespace), self._volumes.get(data_volume_name(namespace))
        if claim is not None and not claim.is_ours:
            return f"PersistentVolumeClaim {DATA_CLAIM} of namespace {namespace}"
        if volume is not None and volume.namespace != namespace:
            return f"PersistentVolume {volume.identity.name}"
        return ""

    @cached_property
    def _wanted(self) -> frozenset[str]:
        """Namespaces in which pods of groups run."""
        of_groups = (view.group.identity for view in self._groups.values())
        return frozenset(identity.namespace for identity in of_groups if not identity.deleting) | frozenset(
            one.table.identity.namespace for view in self._groups.values() for one in view.tables
        )

    @cached_property
    def _kept(self) -> frozenset[str]:
        """Namespaces that hold any group or table: what is there stays, whatever is not understood for the moment."""
        groups = (group.identity.namespace for group in self._seen.groups)
        return frozenset(groups).union(table.identity.namespace for table in self._seen.tables)

    def _actions_of(self, namespace: str) -> Iterator[Action]:
        refused = self._seen.refused_files.get(namespace)
        if self._taken(namespace) or (refused and self._seen.now < refused.retry_at):
            return
        claim, volume = self._claims.get(namespace), self._volumes.get(data_volume_name(namespace))
        if claim is None:
            yield CreateDataClaim(namespace)
        elif claim.identity.deleting:
            return  # it is made again once it is gone
        elif claim.volume not in ("", data_volume_name(namespace)):
            yield DeleteDataClaim(claim.identity)
        elif volume is None:
            yield CreateDataVolume(namespace, self._data_root, claim.identity.uid)
        else:
            yield from self._mend(namespace, claim, volume)

    def _mend(self, namespace: str, claim: ObservedClaim, volume: ObservedVolume) -> Iterator[Action]:
        """A volume that somebody has deleted serves its claim until that one goes, too."""
        is_for_claim = volume.claim_uid == claim.identity.uid
        is_elsewhere = volume.path != data_path(self._data_root, namespace)
        if is_elsewhere and is_for_claim:
            yield DeleteDataClaim(claim.identity)  # a volume stays as long as its claim
        if (is_elsewhere or not is_for_claim) and not volume.identity.deleting:
            yield DeleteDataVolume(volume.identity)

    def _unwanted(self) -> Iterator[tuple[str, tuple[Action, ...]]]:
        for namespace, claim in sorted(self._claims.items()):
            if claim.is_ours and not claim.identity.deleting and namespace not in self._kept:
                yield namespace, (DeleteDataClaim(claim.identity),)
        for _, volume in sorted(self._volumes.items()):
            if volume.namespace and not volume.identity.deleting and volume.namespace not in self._kept:
                yield volume.namespace, (DeleteDataVolume(volume.identity),)
