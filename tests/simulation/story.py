"""One run: a cluster, users, operators, faults from a seed; then peace, in which all has to become well."""

import asyncio
import logging
import re
from collections.abc import Coroutine, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import Any, TypeVar

from colocation.kube.api import CLAIMS, GROUPS, JOBS, NODES, VOLUMES
from colocation.model.conditions import ConditionType
from colocation.model.names import DATA_CLAIM, NODE_LABEL_PREFIX, RECOVER_PREFIX, data_volume_name, node_label

from .api import JsonObject
from .disks import File
from .faults import Faults
from .liveness import repairs_left
from .operators import SimulatedOperator, virtual_processes
from .users import Users
from .virtual_time import VirtualLoop
from .world import World, directory_of

FAULTS = 30
SECONDS_BETWEEN_FAULTS = 30.0
HURRIES = 1.0, 10.0
"""How many times as fast faults follow each other where etcd is restored: also before an operator is back."""
OUTAGE_SECONDS = 40.0, 120.0
"""Of the API server, for which etcd is restored: longer than a Lease and the validity of orders."""
STAYING_SHARE = 0.3
"""Of the runs in which one node stays bad for ever."""
SECONDS_TO_HEAL = 4 * 3600.0
Answer = TypeVar("Answer")


@dataclass
class Cluster:
    """A world with its users and operators, on a loop of its own. ``bad_node``: one that takes no clone any more."""

    loop: VirtualLoop
    world: World
    users: Users
    processes: AbstractContextManager[None]
    operators: list[SimulatedOperator] = field(default_factory=list)
    bad_node: str = ""

    def run(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        """Run to the end, next to all that happens by itself."""
        return self.loop.run_until_complete(self._in_the_background(coroutine))

    async def _in_the_background(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        living = self.loop.create_task(self.world.live())
        acting = self.loop.create_task(coroutine)
        try:
            done, _ = await asyncio.wait({living, acting}, return_when=asyncio.FIRST_COMPLETED)
            if self.world.checks.harm:
                raise self.world.checks.harm
            return acting.result() if acting in done else living.result()  # type: ignore[return-value]
        finally:
            rest = [task for task in asyncio.all_tasks(self.loop) if task is not asyncio.current_task()]
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

    async def sleep(self, seconds: float) -> None:
        """Let time pass; harm that was done meanwhile ends the run."""
        await asyncio.sleep(seconds)
        if self.world.checks.harm:
            raise self.world.checks.harm

    async def until(self, what: Any, seconds: float, step_seconds: float = 5.0) -> bool:
        """Let time pass until ``what()`` holds; whether it does in time."""
        end = self.loop.time() + seconds
        while not what():
            if self.loop.time() >= end:
                return False
            await self.sleep(step_seconds)
        return True

    def close(self) -> None:
        """End everything."""
        for operator in self.operators:
            operator.kill()
        self.processes.__exit__(None, None, None)
        self.loop.close()


def new_cluster(seed: int, operators: int = 1) -> Cluster:
    """An empty one."""
    logging.disable(logging.CRITICAL)
    loop = VirtualLoop()
    world = World(loop, Random(seed))
    random = world.random
    processes = virtual_processes(loop)
    processes.__enter__()
    cluster = Cluster(loop, world, Users(world), processes)
    cluster.operators = [SimulatedOperator(world, f"operator-{n}", Random(random.random())) for n in range(operators)]
    return cluster


def tell(seed: int, faults: int = FAULTS, with_disks: bool = False, with_restores: bool = False) -> World:
    """The story of a seed, with so many faults: with fewer it begins alike. ``with_disks``: disks get sick, too.
    ``with_restores``: etcd is restored from copies, too.

    Raises:
        AssertionError: what must never happen did, or all did not become well; with the timeline.
    """
    cluster = new_cluster(seed, operators=Random(seed).choice([1, 1, 2]))
    cluster.world.tells_disks_apart, cluster.world.loses_etcd = with_disks, with_restores
    try:
        cluster.run(_story(cluster, faults))
    except AssertionError as error:
        command = f"SEED={seed} FAULTS={faults}{profile(with_disks, with_restores)} make simulate"
        lines = [f"SEED={seed}: {error}", *map(str, cluster.world.timeline), f"replay: {command}"]
        raise AssertionError("\n".join(lines)) from error
    finally:
        cluster.close()
    return cluster.world


def profile(with_disks: bool, with_restores: bool) -> str:
    """The variables that choose it."""
    return f"{' DISKS=1' if with_disks else ''}{' RESTORES=1' if with_restores else ''}"


def shortest(seed: int, with_disks: bool = False, with_restores: bool = False) -> str:
    """What goes wrong with a seed that fails, with as few faults as it takes."""
    for faults in range(FAULTS + 1):
        try:
            tell(seed, faults, with_disks, with_restores)
        except AssertionError as error:
            return str(error)
    return f"SEED={seed} does not fail"


async def _story(cluster: Cluster, fault_count: int) -> None:
    world, random = cluster.world, cluster.world.random
    _set_the_scene(cluster)
    faults = Faults(world, cluster.users, cluster.operators)
    administrator = faults.administrator
    adopting = world.loop.create_task(administrator.live())
    for _ in range(fault_count):
        hurry = random.choice(HURRIES) if world.loses_etcd else 1.0
        await cluster.sleep(random.uniform(0, SECONDS_BETWEEN_FAULTS) / hurry + faults.pause)
        faults.pause = 0.0
        faults.one()
        if world.api.is_down:
            await cluster.sleep(random.uniform(*OUTAGE_SECONDS))
            faults.etcd.put_back()
            cluster.users.load_and_drop()  # before operators are there, or not
    world.note("all faults end")
    faults.heal()
    world.verdicts.look()  # another disk may lie in a node since
    _meddle_with_labels(world)
    if random.random() < STAYING_SHARE:
        cluster.bad_node = faults.let_one_node_stay_bad()
    cluster.users.give_up_purged()
    await cluster.sleep(60)
    for group, record in list(world.records()):
        cluster.users.ask_back(group, record)
    await cluster.sleep(60)
    if administrator.is_needed:
        administrator.adopt(recycled=True)  # of requests that were refused, files are under another uid
    if not await cluster.until(lambda: _is_well(cluster), SECONDS_TO_HEAL, 20.0):
        raise AssertionError("not well in the end: " + "; ".join(problems(cluster)))
    adopting.cancel()
    world.checks.everything_is_there()


def _is_well(cluster: Cluster) -> bool:
    cluster.users.accept_disks()
    return not problems(cluster)


def _set_the_scene(cluster: Cluster) -> None:
    world, random = cluster.world, cluster.world.random
    for _ in range(random.randint(3, 5)):
        world.add_node(random.choice("ab"), {"disks": "fast"} if random.random() < 0.8 else {})
    for name in ("sales", "parts")[: random.choice([1, 2, 2])]:
        cluster.users.make_any_group(name)
    cluster.users.make_any_table("lonely", "")
    world.network.faults.order_rate = random.choice([0.0, 0.05, 0.3])
    world.network.faults.slow_rate = random.choice([0.0, 0.05, 0.3])
    world.kubelet.fail_rate = random.choice([0.0, 0.02, 0.1])
    world.kubelet.hang_rate = random.choice([0.0, 0.2, 0.6])
    world.verdicts.operators = cluster.operators
    for operator in cluster.operators:
        operator.faults.rate = random.choice([0.0, 0.01, 0.05])
        operator.faults.stale_rate = random.choice([0.0, 0.3])
        operator.faults.on_stale = world.verdicts.confuse
        operator.lost_events_rate = random.choice([0.0, 0.0, 0.05])
        if operator.lost_events_rate or operator.faults.stale_rate:  # the next full list mends what they leave
            world.verdicts.news_delay_seconds = world.limits.resync + 15
        operator.start()


def _meddle_with_labels(world: World) -> None:
    """Somebody takes a node's labels away, and gives them, and some of no group, to others."""
    nodes = world.api.peek(NODES)
    labels = [node_label(one["metadata"]["namespace"], one["metadata"]["name"]) for one in world.api.peek(GROUPS)]
    for number, node in enumerate(nodes):
        for label in (*labels, node_label("nowhere", "gone")):
            world.label(node["metadata"]["name"], label, [None, "true", "no"][number % 3])


def problems(cluster: Cluster) -> list[str]:
    """What is not so: every group is stable, every committed file whole on just the map's nodes, nothing runs."""
    world = cluster.world
    cluster.users.give_up_purged()
    jobs = [] if cluster.bad_node else world.api.peek(JOBS)
    found = [f"job {job['metadata']['name']} {job.get('status')}" for job in jobs][:3]
    for table in world.honest_tables():
        if not _is_settled(table) and not _is_kept_from_moving(cluster, table):
            found.append(f"table {table['metadata']['name']}: {table['spec']['colocateWith']}, {table.get('status')}")
    for group in world.api.peek(GROUPS):
        found += _problems_of_group(cluster, group)
        found += _problems_of_files(world, group["metadata"]["namespace"])
    return found or ([] if cluster.bad_node else list(_problems_of_nodes(world)))


def _problems_of_nodes(world: World) -> Iterator[str]:
    """Whether Spark's executors find each group's nodes, and no others, and these have holder pods."""
    wanted: dict[str, set[str]] = {}
    for group in world.api.peek(GROUPS):
        metadata, status = group["metadata"], group.get("status", {})
        rows = status.get("backendsPerBucketSeq") or []
        label = node_label(metadata["namespace"], metadata["name"])
        if not _has_excuse(group):
            wanted[label] = {node for row in rows for node in row}
    excused = {node_label(one["metadata"]["namespace"], one["metadata"]["name"]) for one in world.api.peek(GROUPS)}
    excused -= wanted.keys()
    kept: set[str] = set()
    for node in world.api.peek(NODES):
        name, labels = node["metadata"]["name"], node["metadata"].get("labels", {})
        if not excused.isdisjoint(labels):
            kept.add(name)
        there = {label: value for label, value in labels.items() if label.startswith(NODE_LABEL_PREFIX)}
        due = {label: "true" for label, nodes in wanted.items() if name in nodes}
        if {label: value for label, value in there.items() if label not in excused} != due:
            yield f"node {name} has the labels {there}, not {due}"
    yield from world.holder_pods.problems(set().union(*wanted.values()), kept)


def _problems_of_files(world: World, namespace: str) -> list[str]:
    """Whether pods of the namespace get its files."""
    claim = world.api.find(CLAIMS, namespace, DATA_CLAIM)
    volume = world.api.find(VOLUMES, "", data_volume_name(namespace))
    if claim and volume and volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]:
        return []
    return [f"namespace {namespace} has claim {claim} and volume {volume}"]


def _problems_of_group(cluster: Cluster, group: JsonObject) -> list[str]:
    world, metadata, status = cluster.world, group["metadata"], group.get("status", {})
    name = f"group {metadata['name']}"
    unanswered = [one["name"] for one in status.get("recycled", ()) if _is_asked_back(world, group, one)]
    if unanswered:
        return [f"{name} has not answered who asked for {unanswered}"]
    if not status.get("stable") and _has_excuse(group):
        return []
    if not status.get("stable") and cluster.bad_node and _is_hopeless(world, group):
        left = repairs_left(world, group, cluster.bad_node)
        silent = f"{name} cannot be stable, and does not say so: {status.get('conditions')}"
        return left if _stalled(group) else [silent, *left]
    if not status.get("stable"):
        return [f"{name} is not stable: {status.get('reason')}, {status.get('conditions')}"]
    rows = status.get("backendsPerBucketSeq") or []
    found = []
    for table in world.tables_of((metadata["namespace"], metadata["name"])):
        for file in world.committed(table):
            row = set(rows[file.bucket]) - {cluster.bad_node}
            spare = _copies_for_its_move(cluster, table, file) - row
            is_kept = not any(_knows_retained(world, node, table) for node in row & world.machines.keys())
            if row and (is_kept or _waits_to_move(cluster, group, file.bucket)):
                spare = set(world.machines) - row
            holders = {one for one in world.holders(file) if one in row or not _is_nameless(world, rows, one, table)}
            if holders - spare - {cluster.bad_node} != row:
                found.append(f"{name}: {file} is on {world.holders(file)}, the map has {rows[file.bucket]}")
    return found[:3]


def _is_asked_back(world: World, group: JsonObject, record: JsonObject) -> bool:
    """Whether a request for the dropped table waits, though a node has its manifest: the last one may be gone with its
    node, when the table had no files.
    """
    request = f"{RECOVER_PREFIX}{record['uid'][:8]}"
    if not record.get("snapshot") or request not in group["metadata"].get("annotations", {}):
        return False
    digest = record["snapshot"]["manifest"].removeprefix("sha256:")
    disks = (machine.disk for machine in world.machines.values())
    folders = chain.from_iterable(disk.folders_of(record["namespace"], record["name"]) for disk in disks)
    return any(digest in folder.manifests for folder in folders)


def _is_kept_from_moving(cluster: Cluster, table: JsonObject) -> bool:
    """Whether the bad node is one of the group to which the table is to move, and the table reports that it is stalled:
    until that node is drained the other tables are well where they are, and this one is in its old group.
    """
    return cluster.bad_node in chain.from_iterable(_rows_of_wanted(cluster, table)) and _stalled(table)


def _copies_for_its_move(cluster: Cluster, table: JsonObject, file: File) -> set[str]:
    """The nodes that hold a file already for the group to which its table is kept from moving."""
    rows = _rows_of_wanted(cluster, table) if _is_kept_from_moving(cluster, table) else []
    return set(rows[file.bucket]) if file.bucket < len(rows) else set()


def _rows_of_wanted(cluster: Cluster, table: JsonObject) -> list[list[str]]:
    """The map of the group that the table names."""
    group = cluster.world.api.find(GROUPS, table["metadata"]["namespace"], table["spec"].get("colocateWith") or "")
    return (group or {}).get("status", {}).get("backendsPerBucketSeq") or []


def _waits_to_move(cluster: Cluster, group: JsonObject, bucket: int) -> bool:
    """Whether the group reports that the bad node cannot take the bucket. Another node may have its part of that change
    already, and keeps it for the map that names both.
    """
    messages = [one["message"] for one in group["status"]["conditions"] if one["type"] == ConditionType.STALLED]
    named = re.match(r"buckets? ([\d, ]+)", messages[0]) if cluster.bad_node and _stalled(group) else None
    return named is not None and str(bucket) in re.findall(r"\d+", named[1])


def _knows_retained(world: World, node: str, table: JsonObject) -> bool:
    """Whether the node has the manifests of all retained snapshots. When no node of the map has (the bucket was empty,
    and moved while it was loaded), anyone who has may have their last copies, and keeps them until those are over.
    """
    folder = world.machines[node].disk.folders.get((table["metadata"]["namespace"], directory_of(table)))
    digests = {one["manifest"].removeprefix("sha256:") for one in table["status"].get("history", ())}
    return folder is not None and digests <= folder.manifests.keys()


def _is_nameless(world: World, rows: list[list[str]], node: str, table: JsonObject) -> bool:
    """Whether the map names the node for an empty bucket only, so that no clone brought the manifest: what else is
    there cannot be distinguished from garbage until the next load.
    """
    folder = world.machines[node].disk.folders.get((table["metadata"]["namespace"], directory_of(table)))
    manifest = table["status"]["snapshot"]["manifest"].removeprefix("sha256:")
    return folder is not None and manifest not in folder.manifests and any(node in row for row in rows)


def _is_hopeless(world: World, group: JsonObject) -> bool:
    """Whether too few nodes are left besides the bad one, or a map set by hand names it."""
    return len(world.machines) - 1 < group["spec"]["replicas"] or bool(group["spec"].get("bucketSequence"))


def _stalled(body: JsonObject) -> bool:
    """Whether a group or a table reports that it is stalled, and why."""
    conditions = {one["type"]: one for one in body.get("status", {}).get("conditions", ())}
    stalled = conditions.get(ConditionType.STALLED)
    return stalled is not None and stalled["status"] == "True" and bool(stalled["message"])


def _has_excuse(group: JsonObject) -> bool:
    """A group that users have put out of order reports it."""
    conditions = {one["type"]: one for one in group.get("status", {}).get("conditions", ())}
    stable, stalled = conditions.get(ConditionType.STABLE), conditions.get(ConditionType.STALLED)
    if stable is not None and stable["reason"] in ("MarkedUnstable", "InvalidSpec"):
        return "; also " not in stable["message"]
    return stalled is not None and stalled["status"] == "True" and stalled["reason"] == "InvalidBucketSequence"


def _is_settled(table: JsonObject) -> bool:
    """Whether the table is in the group that it names, or gives the reason."""
    status = table.get("status", {})
    if status.get("accepted") is False:
        return any(one["type"] == "Accepted" and one["reason"] != "Recovering" for one in status.get("conditions", ()))
    wanted = table["spec"].get("colocateWith")
    return bool(status.get("accepted")) and (not wanted or status.get("group") == wanted)
