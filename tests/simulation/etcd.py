"""etcd's data, copied, and put back minutes later: commits, drops, groups and tables since then are as if never done.

What the copy names may be gone from the disks by then, as no one knew that it would be wanted again. Then nothing is
put back: such a loss is the administrator's, who took too old a copy (docs/how-to/back-up.md).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from colocation.kube.api import GROUPS, NODES, PODS, TABLES, Resource

from .administrator import Administrator
from .api import JsonObject, Key
from .disks import files_in
from .world import World

if TYPE_CHECKING:
    from .operators import SimulatedOperator

SLOWEST_START_SECONDS = 40.0
"""Users may be quicker than operators, whose containers wait before they are started again."""
PURGE_SECONDS = 300.0
"""What is purged so soon after a restore counts as gone: users have to ask for it first, and nodes may be away."""
Objects = dict[Resource, dict[Key, JsonObject]]


class Etcd:
    """Keeps one copy at a time."""

    def __init__(self, world: World, operators: "list[SimulatedOperator]", administrator: Administrator) -> None:
        self._world = world
        self._operators = operators
        self._administrator = administrator
        self._copy: Objects | None = None

    def copy_or_restore(self) -> None:
        """Take a copy; or, where there is one, stop the API server for it."""
        if self._copy is None:
            self._copy = {resource: dict(found) for resource, found in self._world.api.objects.items()}
        else:
            self._world.api.is_down = True

    def put_back(self) -> None:
        """The copy becomes what is so, if the disks still have what it names; then the API server runs again."""
        world, copy = self._world, self._copy or {}
        self._copy, world.api.is_down = None, False
        if not self._is_whole(copy):
            world.note("the copy of etcd is too old")
            return
        running = [operator for operator in self._operators if operator.is_alive]
        for operator in running:
            operator.kill()
        world.holder_pods.drains.clear()
        world.api.restore(self._with_living_nodes(copy))
        world.checks.after_restore()
        for name, machine in world.machines.items():
            world.show_ready(name, machine.is_up)
        for operator in running:
            world.loop.call_later(world.random.uniform(0, SLOWEST_START_SECONDS), operator.start)
        self._administrator.is_needed = True
        world.note("etcd is restored")

    def _with_living_nodes(self, copy: Objects) -> Objects:
        """Kubelets register their nodes again, and run agents; nodes that are gone are deleted."""
        now = self._world.api.objects
        nodes = {key: copy[NODES].get(key, body) for key, body in now[NODES].items()}
        return copy | {NODES: nodes, PODS: now[PODS]}

    def _is_whole(self, copy: Objects) -> bool:
        """Whether everything is somewhere that live, retained and dropped tables of the copy name."""
        return all(self._is_stored(*one) for one in self._named(copy))

    def _named(self, copy: Objects) -> Iterator[tuple[str, str, str]]:
        """(namespace, table, manifest)."""
        for (namespace, name), table in copy.get(TABLES, {}).items():
            if table["metadata"]["uid"] not in self._world.hostile:
                yield from ((namespace, name, digest) for digest in _digests(table.get("status", {})))
        for group in copy.get(GROUPS, {}).values():
            for record in group.get("status", {}).get("recycled", ()):
                yield from ((record["namespace"], record["name"], digest) for digest in _digests(record))

    def _is_stored(self, namespace: str, name: str, digest: str) -> bool:
        """Whether folders of a table's name have a snapshot's manifest, and each of its files whole."""
        world, kept_until = self._world, self._world.loop.elapsed + PURGE_SECONDS
        disks = [machine.disk for machine in world.machines.values()]
        folders = [folder for disk in disks for folder in disk.folders_of(namespace, name, kept_until)]
        is_known = any(digest in folder.manifests for folder in folders)
        return is_known and files_in(world.manifest(digest), "") <= world.lying(namespace, name, kept_until)


def _digests(status: JsonObject) -> Iterator[str]:
    """Of all snapshots that a table's status, or the record of a dropped one, names."""
    snapshots: list[Any] = [status.get("snapshot"), *status.get("history", ())]
    return (str(one["manifest"]).removeprefix("sha256:") for one in snapshots if one)
