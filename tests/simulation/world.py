"""The simulated cluster: objects, disks, loads, faults, and time."""

from datetime import datetime, timedelta
from random import Random
from typing import Any

from colocation.kube.api import GROUPS, JOBS, NAMESPACES, NODES, PODS, TABLES, Conflict, NotFound
from colocation.model.names import APP_NAME, LABEL_COMPONENT, LABEL_NAME, LABEL_ZONE
from colocation.state.parse import format_time

from .api import FakeApi
from .checks import Checks
from .disks import GIB, Disk, File, Manifest, files_in
from .kubelet import run_jobs
from .schedule import Clock
from .tables import TableChanges, directory_of, group_of

NAMESPACE = "shop"
OPERATOR_NAMESPACE = "colocation"
MOST_NODES = 7
NODE_MONITOR_SECONDS = 40


class World:
    """Everything but the operators. ``slow_rate`` and ``fault_rate`` say how often things are slow or fail."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.clock = Clock()
        self.api = FakeApi(self.clock)
        self.checks = Checks(self)
        self.fault_rate = random.choice([0.0, 0.01, 0.05])
        self.slow_rate = random.choice([0.0, 0.2, 0.6])
        self.disks: dict[str, Disk] = {}
        self.down: dict[str, datetime] = {}
        self.addresses: dict[str, str] = {}
        self.manifests: dict[str, Manifest] = {}
        self.written_at: dict[int, datetime] = {}
        self.losses: list[tuple[int, File]] = []
        self._replicas_before: list[tuple[int, str, int]] = []
        self._commits: list[tuple[int, File]] = []
        self._deletions: dict[str, int] = {}
        self._numbers = iter(range(1, 1_000_000))
        self._seen_events = 0
        self.requests = 0
        self.has_two_operators = False
        self.buckets = random.randint(1, 6)
        self.keep_until: dict[str, datetime] = {}
        self.changes = TableChanges(self)
        self.api.add(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})

    # Objects

    def add_node(self) -> None:
        number = next(self._numbers)
        name = f"node-{number}"
        zone = {LABEL_ZONE: self.random.choice("ab")}
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(self.clock.now())}
        self.disks[name] = Disk(name)
        self.api.add(NODES, "", {"metadata": {"name": name, "labels": zone}, "status": {"conditions": [ready]}})
        self.start_agent(name)

    def start_agent(self, node: str) -> None:
        """A new pod of the node's agent, at a new address."""
        for body in self.api.all(PODS):
            if body["spec"]["nodeName"] == node:
                self.api.remove(PODS, OPERATOR_NAMESPACE, body["metadata"]["name"])
        number = next(self._numbers)
        address = f"10.0.{number // 250}.{number % 250 + 1}"
        self.addresses = {ip: name for ip, name in self.addresses.items() if name != node} | {address: node}
        labels = {LABEL_NAME: APP_NAME, LABEL_COMPONENT: "agent"}
        metadata = {"name": f"agent-{number}", "labels": labels}
        body = {"metadata": metadata, "spec": {"nodeName": node}, "status": {"podIP": address}}
        self.api.add(PODS, OPERATOR_NAMESPACE, body)

    def add_group(self, name: str) -> None:
        """A group of any kind, with one or two tables."""
        choice = self.random.choice
        buckets, replicas = choice([self.buckets, self.buckets, self.random.randint(1, 6)]), choice([2, 2, 3])
        group: dict[str, Any] = {"bucketKey": ["bigint"], "buckets": buckets, "replicas": replicas}
        group |= {"relocation": {"downToleranceSeconds": choice([0, 120, 1800])}, "deletionPolicy": "Retain"}
        group |= {"topologyKey": choice(["", LABEL_ZONE]), "balancing": {"strict": self.random.random() < 0.15}}
        self.api.add(GROUPS, NAMESPACE, {"metadata": {"name": name}, "spec": group})
        for number in range(choice([1, 2])):
            columns = [{"name": "key", "type": "bigint"}]
            spec = {"colocateWith": name, "columns": columns, "bucketedBy": ["key"]}
            spec |= {"recycleAfterSeconds": choice([600, 86400])}
            spec |= {"retention": {"seconds": choice([0, 600, 86400]), "snapshots": 10}}
            spec |= choice([{}, {"buckets": buckets, "replicas": replicas}])
            self.api.add(TABLES, NAMESPACE, {"metadata": {"name": f"{name}-{number}"}, "spec": spec})

    def groups(self) -> list[dict[str, Any]]:
        return self.api.all(GROUPS)

    def tables(self) -> list[dict[str, Any]]:
        return self.api.all(TABLES)

    # What is committed, and where it is

    def reachable(self, url: str | None) -> Disk | None:
        """The disk behind an agent's URL; None when nobody answers there."""
        node = self.addresses.get(url.removeprefix("https://").rpartition(":")[0]) if url else None
        return None if node is None or node in self.down else self.disks.get(node)

    def committed_files(self, group: tuple[str, str] | None = None) -> set[File]:
        """Of the tables of one group, or of all."""
        found: set[File] = set()
        for table in self.tables():
            if group in (None, (table["metadata"]["namespace"], group_of(table))):
                found |= self.committed_of(table)
        return found

    def committed_of(self, table: dict[str, Any]) -> Manifest:
        snapshot = table.get("status", {}).get("snapshot")
        return self._files_of(table, snapshot) if snapshot else frozenset()

    def retained_files(self) -> set[File]:
        """Of snapshots that were replaced and can still be read."""
        found: set[File] = set()
        for table in self.tables():
            for snapshot in table.get("status", {}).get("history", ()):
                found |= self._files_of(table, snapshot)
        return found

    def _files_of(self, table: dict[str, Any], snapshot: dict[str, Any]) -> Manifest:
        return files_in(self.manifests[snapshot["manifest"].removeprefix("sha256:")], directory_of(table))

    def replicas_of(self, file: File, since: int) -> int:
        """The fewest that the file's group has wanted of it since then."""
        group = next(group_of(t) for t in self.tables() if directory_of(t) == file.directory)
        wanted = int(self.api.read(GROUPS, NAMESPACE, group)["spec"]["replicas"])
        return min([wanted, *(n for moment, name, n in self._replicas_before if name == group and moment >= since)])

    def copies(self, file: File) -> list[str]:
        """Nodes that hold the file whole, up or down."""
        return [name for name, disk in self.disks.items() if file in disk.intact()]

    def files_committed_since(self, since: int) -> set[File]:
        return {file for moment, file in self._commits if moment >= since}

    def deleted_since(self, node: str, since: int) -> bool:
        return node in self._deletions and self._deletions[node] >= since

    # Time

    def tick(self) -> None:
        """A few seconds pass."""
        self.clock.advance(self.random.uniform(1, 8))
        for node, since in self.down.items():
            if self.clock.now() - since >= timedelta(seconds=NODE_MONITOR_SECONDS):
                self.show_ready(node, ready=False)
        run_jobs(self, self.random)
        self.changes.purge()
        self.check_writes()

    def check_writes(self) -> None:
        """Look at what was written to groups since the last time."""
        for event in self.api.events[self._seen_events :]:
            if event.resource == GROUPS and not event.deleted:
                self.checks.after_group_write(event.body)
            if event.resource == TABLES and not event.deleted:
                self._commits += [(self.requests, file) for file in self.changes.moved(event.body)]
        self._seen_events = len(self.api.events)

    def show_ready(self, node: str, ready: bool) -> None:
        """What the node controller says of the node."""
        body = self.api.read(NODES, "", node)
        status = "True" if ready else "Unknown"
        if body["status"]["conditions"][0]["status"] != status:
            condition = {"type": "Ready", "status": status, "lastTransitionTime": format_time(self.clock.now())}
            self.api.merge(NODES, "", node, {"status": {"conditions": [condition]}})

    # Loads

    def load(self) -> None:
        """A loader appends to a table: files to all nodes of the map, a majority must have them, then commit."""
        tables = [table for table in self.tables() if table.get("status", {}).get("accepted")]
        if not tables:
            return
        table = self.random.choice(tables)
        try:
            group = self.api.read(GROUPS, NAMESPACE, group_of(table))
        except NotFound:
            return
        rows = group.get("status", {}).get("backendsPerBucketSeq")
        if not rows:
            return
        number, directory = next(self._numbers), directory_of(table)
        new = {File(NAMESPACE, directory, number, b, self.random.randint(1, GIB)) for b in range(len(rows))}
        digest = f"{number:064x}"
        overwrites = self.random.random() < 0.3
        self.manifests[digest] = frozenset(new) if overwrites else self.committed_of(table) | new
        self.written_at[number] = self.clock.now()
        for file in sorted(new, key=lambda file: file.bucket):
            for node in rows[file.bucket]:
                disk = self.disks.get(node)
                if disk is not None and node not in self.down and self.random.random() >= self.fault_rate:
                    disk.put(file)
                    disk.manifests.add(digest)
        if all(2 * len(self.copies(file)) > len(rows[file.bucket]) for file in new):
            self._commit(table, number, digest, new)

    def _commit(self, table: dict[str, Any], number: int, digest: str, new: set[File]) -> None:
        files = self.manifests[digest]
        snapshot = {"id": number, "manifest": f"sha256:{digest}", "committedAt": format_time(self.clock.now())}
        snapshot |= {"files": len(files), "bytes": sum(file.size_bytes for file in files)}
        metadata = {"resourceVersion": table["metadata"]["resourceVersion"]}
        before = table.get("status", {})
        replaced = [before["snapshot"]] if before.get("snapshot") else []
        history = [*replaced, *before.get("history", ())]
        patch = {"metadata": metadata, "status": {"snapshot": snapshot, "history": history}}
        try:
            self.api.merge(TABLES, NAMESPACE, table["metadata"]["name"], patch)
        except Conflict:
            return
        self._commits += [(self.requests, file) for file in new]

    # Faults: none of them takes a file's last copy, so that everything can be made good again

    def fault(self) -> str:
        """Let one thing go wrong, or be put right; its name is for the log."""
        faults = [self.take_down, self.bring_up, self.delete_node, self.grow, self.damage, self.drain, self.undrain]
        faults += [self.restart_agent, self.fill_disk, self.empty_disks, self.load, self.load, self.let_time_pass]
        faults += [self.change_replicas, self.changes.move, self.changes.move, self.changes.drop]
        faults += [self.changes.recover, self.changes.recover]
        fault = self.random.choice(faults)
        fault()
        return fault.__name__

    def take_down(self) -> None:
        node = self.random.choice(sorted(self.disks))
        self.down.setdefault(node, self.clock.now())

    def bring_up(self) -> None:
        if self.down:
            node = self.random.choice(sorted(self.down))
            del self.down[node]
            self.show_ready(node, ready=True)

    def delete_node(self) -> None:
        node = self.random.choice(sorted(self.disks))
        files = self.committed_files() | self.retained_files()
        needed = self.changes.keeps_dropped(node) or any(self.copies(file) == [node] for file in files)
        if len(self.disks) > 4 and not needed:
            self._lose(file for file in self.disks[node].intact() if file in files)
            del self.disks[node]
            self.down.pop(node, None)
            self._deletions[node] = self.requests
            self.addresses = {ip: name for ip, name in self.addresses.items() if name != node}
            for body in self.api.all(PODS):
                if body["spec"]["nodeName"] == node:
                    self.api.remove(PODS, OPERATOR_NAMESPACE, body["metadata"]["name"])
            self.api.remove(NODES, "", node)

    def grow(self) -> None:
        if len(self.disks) < MOST_NODES:
            self.add_node()

    def damage(self) -> None:
        disk = self.disks[self.random.choice(sorted(self.disks))]
        committed = self.committed_files()
        files = sorted(disk.intact() & committed, key=repr)
        if files:
            file = self.random.choice(files)
            if len(self.copies(file)) > 1:
                disk.damaged.add(file)
                self._lose([file])

    def drain(self) -> None:
        self._label(self.random.choice(sorted(self.disks)), "true")

    def undrain(self) -> None:
        self._label(self.random.choice(sorted(self.disks)), None)

    def _label(self, node: str, value: str | None) -> None:
        body = self.api.read(NODES, "", node)
        labels = {**body["metadata"]["labels"], "colocation.dev/drain": value}
        body["metadata"]["labels"] = {key: text for key, text in labels.items() if text is not None}
        self.api._store(NODES, ("", node), body)

    def change_replicas(self) -> None:
        """A user raises or lowers a group's replicas, to no more than there will always be nodes for.

        Not before its tables are in the group: they name the old number.
        """
        group = self.random.choice(self.groups())
        name, before = group["metadata"]["name"], int(group["spec"]["replicas"])
        tables = [table for table in self.tables() if table["spec"]["colocateWith"] == name]
        if not all(table.get("status", {}).get("accepted") for table in tables):
            return
        after = self.random.choice([2, 3] if len(self.disks) < 4 else [2, 3, 4])
        self._replicas_before.append((self.requests, name, before))
        self.api.merge(GROUPS, NAMESPACE, name, {"spec": {"replicas": after}})

    def let_time_pass(self) -> None:
        """Longer than any tolerance and any deadline: the operator was away, or the clock jumped."""
        self.clock.advance(self.random.choice([300, 900, 2400]))

    def restart_agent(self) -> None:
        self.start_agent(self.random.choice(sorted(self.disks)))

    def fill_disk(self) -> None:
        disk = self.disks[self.random.choice(sorted(self.disks))]
        disk.foreign_bytes += disk.free_bytes

    def empty_disks(self) -> None:
        for disk in self.disks.values():
            disk.foreign_bytes = 10 * GIB

    def _lose(self, files: Any) -> None:
        self.losses += [(self.requests, file) for file in files]

    def heal(self) -> None:
        """All faults end: nodes come up, disks have room, requests are answered."""
        self.fault_rate = self.slow_rate = 0.0
        self.empty_disks()
        while self.down:
            self.bring_up()
        for node in self.disks:
            self._label(node, None)
        self.changes.settle()
        self.changes.move()
        self.changes.recover_all()

    def jobs(self) -> list[dict[str, Any]]:
        return self.api.all(JOBS)
