"""The simulated cluster: nodes with disks and agents, the API server, manifests, what is committed, and time."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from colocation.kube.api import DEPLOYMENTS, GROUPS, NAMESPACES, NODES, PODS, TABLES
from colocation.model.names import (
    ANNOTATION_ACCEPTED_DISK,
    ANNOTATION_RECOVERS,
    APP_NAME,
    LABEL_COMPONENT,
    LABEL_NAME,
    LABEL_ZONE,
    group_key,
    private_group_name,
    table_directory,
)
from colocation.state.parse import format_time

from .agents import AgentProcess
from .api import FakeApi, JsonObject
from .checks import Checks
from .disks import Disk, File, Manifest, TableKey, files_in
from .holders import HolderPods
from .kubelet import Kubelet
from .network import Network
from .operators import follow_tasks
from .verdicts import Verdicts
from .virtual_time import START, VirtualLoop, WallClock

NAMESPACES_OF_TENANTS = ("shop", "stock")
OPERATOR_NAMESPACE = "colocation"
NODE_MONITOR_SECONDS = 40
GroupKey = tuple[str, str]


@dataclass
class Machine:
    """A node. ``down_since``: by virtual time, None while it runs. ``sick``: every clone to it fails.

    ``shelf``: the disk that lay here before somebody put in another one.
    ``holds_jobs``: no Job starts there: its image cannot be pulled, or no room is left for the pod.
    """

    name: str
    disk: Disk
    wall: WallClock
    agent: AgentProcess
    down_since: float | None = None
    sick: bool = False
    holds_jobs: bool = False
    shelf: Disk | None = None

    @property
    def is_up(self) -> bool:
        return self.down_since is None


@dataclass
class Happening:
    """A line of the timeline."""

    at: float
    text: str

    def __str__(self) -> str:
        return f"{START + timedelta(seconds=self.at):%H:%M:%S} {self.text}"


@dataclass
class Limits:
    """What the world promises to those who act in it, in seconds: the operator's settings follow from them."""

    garbage_grace: int = 600
    longest_load: float = 400
    agent_grace: float = 30
    resync: float = 120
    collect: float = 60


class World:
    """Everything but operators, loaders and users.

    ``tells_disks_apart``: agents report which disk they have, and how it is; set before there are nodes.
    ``loses_etcd``: at times it is restored from a copy. ``settings``: of operators, where they are not the usual ones.
    """

    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self.tells_disks_apart = False
        self.loses_etcd = False
        self.loop = loop
        self.random = random
        self.limits = Limits()
        self.settings: dict[str, Any] = {}
        self.api_wall = WallClock(loop)
        self.api = FakeApi(self.api_wall.now)
        self.task_owners = follow_tasks(loop)
        self.machines: dict[str, Machine] = {}
        self.manifests: dict[str, Manifest] = {}
        self.written: dict[str, tuple[int, str]] = {}
        """Digest -> number of the snapshot, and when the manifest was written."""
        self.buckets_of: dict[str, int] = {}
        self.losses: dict[File, float] = {}
        self.commits: dict[File, float] = {}
        self.committed_at: dict[str, float] = {}
        self.hostile: set[str] = set()
        self.timeline: list[Happening] = []
        self._numbers = iter(range(1, 10_000_000))
        self.network = Network(self)
        self.kubelet = Kubelet(self)
        self.holder_pods = HolderPods(self)
        self.checks = Checks(self)
        self.verdicts = Verdicts(self)
        self.api.watchers.append(self.checks.after_write)
        for namespace in NAMESPACES_OF_TENANTS:
            self.api.add(NAMESPACES, "", {"metadata": {"name": namespace}})
        self.api.add(DEPLOYMENTS, OPERATOR_NAMESPACE, {"metadata": {"name": APP_NAME}})

    def note(self, text: str) -> None:
        """Put a line into the timeline."""
        self.timeline.append(Happening(self.loop.elapsed, text))

    def number(self) -> int:
        """One that was not given before."""
        return next(self._numbers)

    # Nodes

    def add_node(self, zone: str = "a", labels: dict[str, str] | None = None) -> str:
        name = f"node-{self.number()}"
        wall = WallClock(self.loop)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(self.api_wall.now())}
        disk = self.new_disk(name)
        labels = {LABEL_ZONE: zone, "kubernetes.io/hostname": name, **(labels or {})}
        self.machines[name] = Machine(name, disk, wall, AgentProcess(self, disk, "", 0))
        self.api.add(NODES, "", {"metadata": {"name": name, "labels": labels}, "status": {"conditions": [ready]}})
        self.start_agent_pod(name)
        return name

    def new_disk(self, node: str) -> Disk:
        """An empty one for a node."""
        disk = Disk(node, self.manifests, lambda: self.loop.elapsed, lambda: self._ring(node))
        disk.id = f"{self.number():016x}" if self.tells_disks_apart else ""
        return disk

    def put_in(self, node: str, disk: Disk) -> None:
        """Another disk, on which the agent starts again; the copies on the one before are away."""
        machine = self.machines[node]
        self.lose(file for file in machine.disk.files() if machine.disk.holds(file) and not disk.holds(file))
        machine.shelf, machine.disk = machine.disk, disk
        self._start_process(machine, machine.agent.address)

    def has_other_disk(self, node: str) -> bool:
        """Whether groups know another disk of the node than is there, and no one has accepted that one."""
        body, disk_id = self.api.find(NODES, "", node), self.machines[node].disk.id
        if body is None or not disk_id:
            return False
        uid, accepted = body["metadata"]["uid"], body["metadata"].get("annotations", {}).get(ANNOTATION_ACCEPTED_DISK)
        known = {
            one["disk"]
            for group in self.api.peek(GROUPS)
            for one in group.get("status", {}).get("disks", ())
            if one["node"] == node and uid.startswith(one["nodeUid"])
        }
        return bool(known) and disk_id not in known and disk_id != accepted

    def accept_disk(self, node: str) -> None:
        """`colocation accept-disk`: the disk that is there is to stay."""
        patch = {"metadata": {"annotations": {ANNOTATION_ACCEPTED_DISK: self.machines[node].disk.id}}}
        self.api.merge(NODES, "", node, patch)

    def start_agent_pod(self, node: str) -> None:
        """A new pod of the node's agent, at a new address."""
        self.remove_agent_pods(node)
        number = self.number()
        address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        self._start_process(self.machines[node], address)
        labels = {LABEL_NAME: APP_NAME, LABEL_COMPONENT: "agent"}
        body = {
            "metadata": {"name": f"agent-{number}", "labels": labels},
            "spec": {"nodeName": node},
            "status": {"podIP": address, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        self.api.add(PODS, OPERATOR_NAMESPACE, body)

    def restart_agent(self, node: str) -> None:
        """The container starts again, in its pod: another process at the same address."""
        machine = self.machines[node]
        self._start_process(machine, machine.agent.address)

    def _start_process(self, machine: Machine, address: str) -> None:
        machine.agent.is_alive = False
        machine.agent = AgentProcess(self, machine.disk, address, self.number())
        self.network.ring()

    def _ring(self, node: str) -> None:
        if node in self.machines:
            self.machines[node].agent.ring()

    def remove_agent_pods(self, node: str) -> None:
        """The node has no agent until a pod is started."""
        for body in self.api.all(PODS):
            if body["spec"]["nodeName"] == node:
                self.api.remove(PODS, OPERATOR_NAMESPACE, body["metadata"]["name"])

    def take_down(self, node: str) -> None:
        machine = self.machines[node]
        if machine.is_up:
            machine.down_since = self.loop.elapsed
            machine.agent.is_alive = False
            self.network.ring()

    def bring_up(self, node: str) -> None:
        machine = self.machines[node]
        if not machine.is_up:
            machine.down_since = None
            self._start_process(machine, machine.agent.address)
            self.show_ready(node, ready=True)

    def delete_node(self, node: str) -> None:
        """The machine is gone, its Node and all that lay there too."""
        machine = self.machines[node]
        self.lose(file for file in machine.disk.files() if machine.disk.holds(file))
        machine.agent.is_alive = False
        del self.machines[node]
        self.network.ring()
        self.remove_agent_pods(node)
        self.api.remove(NODES, "", node)

    def show_ready(self, node: str, ready: bool) -> None:
        """What the node controller reports of the node."""
        body = self.api.find(NODES, "", node)
        status = "True" if ready else "Unknown"
        if body is not None and body["status"]["conditions"][0]["status"] != status:
            now = format_time(self.api_wall.now())
            condition = {"type": "Ready", "status": status, "lastTransitionTime": now}
            self.api.merge(NODES, "", node, {"status": {"conditions": [condition]}}, "status")

    def label(self, node: str, name: str, value: str | None) -> None:
        self.api.merge(NODES, "", node, {"metadata": {"labels": {name: value}}})

    # What is committed, and where it is

    def manifest(self, digest: str) -> Manifest:
        """Its files; none of one that no one wrote."""
        return self.manifests.get(digest, frozenset())

    def add_manifest(self, files: Iterable[File], buckets: int, number: int = 1) -> str:
        """``number``: of the snapshot."""
        digest = f"{self.number():064x}"
        self.written[digest] = number, format_time(self.api_wall.now())
        self.manifests[digest] = frozenset(files)
        self.buckets_of[digest] = buckets
        return digest

    def honest_tables(self) -> Iterator[JsonObject]:
        """All but those whose status a tenant has written anything into."""
        return (table for table in self.api.peek(TABLES) if table["metadata"]["uid"] not in self.hostile)

    def tables_of(self, group: GroupKey, with_hostile: bool = False) -> list[JsonObject]:
        """The tables that the group places, but for those whose status is not to be trusted."""
        tables = self.api.peek(TABLES) if with_hostile else self.honest_tables()
        return [table for table in tables if placing_key(table) == group]

    def group_of(self, table: JsonObject) -> JsonObject | None:
        """The group that places a table, if it exists."""
        return self.api.find(GROUPS, *placing_key(table))

    def committed(self, table: JsonObject) -> Manifest:
        return self._files_of(directory_of(table), table.get("status", {}).get("snapshot"))

    def has_manifest(self, node: str, table: JsonObject) -> bool:
        """Whether the node has the manifest of the table's snapshot."""
        folder = self.machines[node].disk.folders.get((table["metadata"]["namespace"], directory_of(table)))
        digest = str(table["status"]["snapshot"]["manifest"]).removeprefix("sha256:")
        return folder is not None and digest in folder.manifests

    def retained(self, table: JsonObject) -> set[File]:
        """Of replaced snapshots that can still be read."""
        history = table.get("status", {}).get("history")
        history = history if isinstance(history, list) else ()
        return {file for one in history for file in self._files_of(directory_of(table), one)}

    def records(self) -> Iterator[tuple[JsonObject, JsonObject]]:
        """(group, what it remembers of a dropped table)."""
        for group in self.api.peek(GROUPS):
            for record in group.get("status", {}).get("recycled", ()):
                yield group, record

    def recovering(self, table: JsonObject) -> Manifest:
        """The files that a table which brings back a dropped one is to have, where they lie once they are back."""
        uid = table["metadata"].get("annotations", {}).get(ANNOTATION_RECOVERS)
        if not uid or table.get("status", {}).get("snapshot"):
            return frozenset()
        snapshot = next((record.get("snapshot") for _, record in self.records() if record["uid"] == uid), None)
        return self._files_of(directory_of(table), snapshot)

    def _files_of(self, directory: str, snapshot: Any) -> Manifest:
        """None of what is no snapshot: anybody may have written it."""
        if not isinstance(snapshot, dict) or "manifest" not in snapshot:
            return frozenset()
        return files_in(self.manifest(str(snapshot["manifest"]).removeprefix("sha256:")), directory)

    def table_at(self, key: TableKey) -> JsonObject | None:
        """The table whose folder this is."""
        name = key[1].rpartition("-")[0]
        table = self.api.find(TABLES, key[0], name)
        return table if table is not None and directory_of(table) == key[1] else None

    def holders(self, file: File) -> list[str]:
        """Nodes that hold the file whole, up or down."""
        return [name for name, machine in self.machines.items() if machine.disk.holds(file)]

    def lying(self, namespace: str, table: str, kept_until: float = 0.0) -> Manifest:
        """The files of which a whole copy is in any folder of the table's name, of whichever uid, also in bins that
        are not emptied before; none of them names which folder it is.
        """
        disks = [machine.disk for machine in self.machines.values()]
        folders = [(disk, folder) for disk in disks for folder in disk.folders_of(namespace, table, kept_until)]
        return files_in({file for disk, one in folders for file in one.files if file not in disk.damaged}, "")

    def row_of(self, table: JsonObject, bucket: int) -> tuple[str, ...]:
        """The nodes of the map, as the API server has it now."""
        group = self.group_of(table)
        rows = group.get("status", {}).get("backendsPerBucketSeq") if group else None
        return tuple(rows[bucket]) if rows and bucket < len(rows) else ()

    def lose(self, files: Iterable[File]) -> None:
        """Faults took a copy of each."""
        self.losses.update(dict.fromkeys(files, self.loop.elapsed))

    # Time

    async def live(self) -> None:
        """Everything that happens by itself, for ever."""
        while True:
            await asyncio.sleep(self.random.uniform(1, 4))
            self.tick()

    def tick(self) -> None:
        """The node controller, kubelets and agents do what is due; then everything is looked at."""
        for machine in list(self.machines.values()):
            if machine.down_since is not None:
                if self.loop.elapsed - machine.down_since >= NODE_MONITOR_SECONDS:
                    self.show_ready(machine.name, ready=False)
            else:
                machine.agent.purge()
        self.kubelet.run_jobs()
        self.holder_pods.tick()
        self.verdicts.look()


def directory_of(table: JsonObject) -> str:
    """The table's folder below its namespace."""
    return table_directory(table["metadata"]["name"], table["metadata"]["uid"])


def placing_key(table: JsonObject) -> GroupKey:
    """(namespace, name) of the group that places the table, or is to."""
    metadata = table["metadata"]
    name = table.get("status", {}).get("group") or table["spec"].get("colocateWith")
    if not name or not isinstance(name, str):
        return metadata["namespace"], private_group_name(metadata["name"], metadata["uid"])
    return group_key(metadata["namespace"], name)


def now_of(world: World) -> datetime:
    """What the API server's clock shows."""
    return world.api_wall.now()
