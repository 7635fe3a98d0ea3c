"""Starts are quiet: whatever starts, in any order, maps stay, nothing is copied, and no verdict turns without cause.

Each case is a cluster at rest, with disks of several sizes, several groups, and maybe nodes that are down; then the
operator, agents, or both start again. What a node that is down warranted has happened before.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from colocation.kube.api import GROUPS, JOBS

from .api import Event
from .disks import GIB
from .scenes import MINUTE, Scene, play

SIZES_GIB = (100, 400, 1600, 100, 800)
SMALL_GROUPS = 24
"""Groups with replicas on a few nodes only, which are even together."""
SILENT_SECONDS = 20.0
"""An agent that starts is silent for less than its grace of 30 s."""


class Changes:
    """What changes from a moment on: maps, clone Jobs that are made, and verdicts that turn."""

    def __init__(self, scene: Scene) -> None:
        self._world = scene.world
        self._rows: dict[str, object] = {}
        self._stable: dict[str, object] = {}
        self.found: list[str] = []
        for body in self._world.api.peek(GROUPS):
            self._look(body)
        self.found.clear()

    def hear(self, event: Event) -> None:
        """An object was written."""
        if event.resource == JOBS and not event.deleted and not event.body.get("status"):
            self._note(f"a clone: {event.body['metadata']['name']}")
        if event.resource == GROUPS and not event.deleted:
            self._look(event.body)

    def _look(self, body: dict) -> None:  # type: ignore[type-arg]
        name, status = body["metadata"]["name"], body.get("status", {})
        if self._rows.setdefault(name, status.get("backendsPerBucketSeq")) != status.get("backendsPerBucketSeq"):
            self._note(f"the map of {name}: {self._rows[name]} -> {status.get('backendsPerBucketSeq')}")
        if self._stable.setdefault(name, status.get("stable")) != status.get("stable"):
            self._note(f"the verdict on {name}: {status.get('stable')}, {status.get('reason')}")
        self._rows[name], self._stable[name] = status.get("backendsPerBucketSeq"), status.get("stable")

    def _note(self, text: str) -> None:
        self.found.append(f"{self._world.loop.elapsed:.0f} s: {text}")


@contextmanager
def nothing_changes(scene: Scene) -> Iterator[None]:
    """Within this."""
    changes = Changes(scene)
    scene.world.api.watchers.append(changes.hear)
    yield
    scene.world.api.watchers.remove(changes.hear)
    assert not changes.found, changes.found


async def at_rest(scene: Scene, small_groups: int = SMALL_GROUPS) -> None:
    """Groups of several sizes on disks of several sizes, all well."""
    for machine, size_gib in zip(scene.world.machines.values(), SIZES_GIB, strict=False):
        machine.disk.capacity_bytes = size_gib * GIB
    await scene.sleep(MINUTE)
    await scene.make(buckets=12)
    for number in range(small_groups):
        scene.users.make_group(f"group-{number}", buckets=1 + number % 2, replicas=1 + number % 3 // 2)
        scene.users.make_table(f"table-{number}", f"group-{number}")
    await scene.sleep(MINUTE)
    for number in range(small_groups):
        await scene.load(table=f"table-{number}")
    await scene.until_well()
    await scene.sleep(MINUTE)


async def restart_agent(scene: Scene, node: str, silent_seconds: float, gap_seconds: float = 0.0) -> None:
    """Its pod goes, another one comes after the gap, and answers after so long."""
    scene.world.network.cut_off(node)
    scene.world.remove_agent_pods(node)
    await scene.sleep(gap_seconds)
    scene.world.start_agent_pod(node)
    await scene.sleep(silent_seconds)
    scene.world.network.cut.discard(node)


@pytest.mark.parametrize("silent", range(5))
def test_an_operator_that_starts_while_an_agent_is_silent_moves_nothing(silent: int) -> None:
    """P3: a node whose disk is not known yet was weighed as one of 1 GiB."""

    async def story(scene: Scene) -> None:
        await at_rest(scene)
        node = sorted(scene.world.machines)[silent]
        with nothing_changes(scene):
            scene.operator.restart()
            await restart_agent(scene, node, SILENT_SECONDS)
            await scene.sleep(5 * MINUTE)

    play(story, nodes=5)


@pytest.mark.parametrize("down", range(5))
def test_an_operator_that_starts_while_a_node_is_down_moves_nothing(down: int) -> None:
    """P3: within the tolerance its share is kept for it, however large its disk is."""

    async def story(scene: Scene) -> None:
        await at_rest(scene)
        scene.world.take_down(sorted(scene.world.machines)[down])
        await scene.sleep(3 * MINUTE)
        with nothing_changes(scene):
            scene.operator.restart()
            await scene.sleep(5 * MINUTE)

    play(story, nodes=5)


@pytest.mark.parametrize("small_groups", [0, 1, 2, 3, 5, 8])
def test_an_agent_whose_pod_is_replaced_moves_nothing(small_groups: int) -> None:
    """A rolling update; also on a node that holds nothing yet, of which only the pod tells."""

    async def story(scene: Scene) -> None:
        await at_rest(scene, small_groups)
        with nothing_changes(scene):
            for node in sorted(scene.world.machines):
                await restart_agent(scene, node, silent_seconds=10, gap_seconds=6)
                await scene.sleep(5)
            await scene.sleep(MINUTE)

    play(story, nodes=5)


@pytest.mark.parametrize("seed", range(12))
def test_starts_in_any_order_change_nothing(seed: int) -> None:
    """Operator and agents, at any distance, some agents slowly, maybe while a node is down."""

    async def story(scene: Scene) -> None:
        random = Random(seed)
        await at_rest(scene, random.choice([0, 3, SMALL_GROUPS]))
        nodes = sorted(scene.world.machines)
        if random.random() < 0.5:
            down = nodes.pop(random.randrange(len(nodes)))
            scene.world.take_down(down)
            await scene.sleep(3 * MINUTE)
        random.shuffle(nodes)
        restarts: list[asyncio.Task[None]] = []
        with nothing_changes(scene):
            for _ in range(8):
                if random.random() < 0.4 or not nodes:
                    scene.operator.restart()
                else:
                    times = random.choice([0.0, 2.0, 10.0, SILENT_SECONDS - 4]), random.choice([0.0, 4.0])
                    restarts.append(asyncio.create_task(restart_agent(scene, nodes.pop(), *times)))
                await scene.sleep(random.choice([0.0, 0.5, 5.0, 20.0, 90.0]))
            await asyncio.gather(*restarts)
            await scene.sleep(5 * MINUTE)

    play(story, nodes=5)
