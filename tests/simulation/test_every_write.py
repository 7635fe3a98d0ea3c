"""The operator dies at each of its writes, one after the other: nothing is lost, and all becomes well.

A scene is played once without a fault, and the operator's writes and orders are counted. Then it is played again for
each of them: the operator dies just before it is carried out, or just after, and another one takes over. Source of the
idea: Sieve (OSDI 2022).
"""

import functools

import pytest

from .loads import COMPACT, OVERWRITE
from .scenes import MINUTE, Scene, Story, play
from .world import Limits

MOST_WRITES = 60
LIMITS = Limits(garbage_grace=100, longest_load=60, collect=50)
"""Garbage does not wait for long: the scenes are played often."""


async def load_a_new_table(scene: Scene) -> None:
    """A group and a table are made, and loaded."""
    scene.count_writes()
    await scene.make()


async def lose_a_node(scene: Scene) -> None:
    """A node of the map is gone for good."""
    await scene.make(relocation={"downToleranceSeconds": 0})
    scene.count_writes()
    scene.world.delete_node(scene.rows()[0][0])
    await scene.sleep(20)


async def add_a_node(scene: Scene) -> None:
    """Replicas move to a new node."""
    await scene.make(buckets=3)
    scene.count_writes()
    scene.world.add_node()
    await scene.sleep(30)


async def move_to_another_group(scene: Scene) -> None:
    """The table changes its group, whose map is another."""
    await scene.make(replicas=1)
    scene.users.make_group("parts", buckets=2, replicas=2)
    await scene.until(lambda: scene.rows("parts"), MINUTE)
    scene.count_writes()
    scene.users.patch_table(scene.table(), {"colocateWith": "parts"})
    await scene.until(lambda: scene.table()["status"].get("group") == "parts", 20 * MINUTE)


async def drop_and_recover(scene: Scene) -> None:
    """The table is dropped, and comes back."""
    await scene.make()
    scene.count_writes()
    scene.users.drop_table(scene.table())
    await scene.until(lambda: scene.status().get("recycled"), 5 * MINUTE)
    await scene.until(lambda: any(one.disk.bin for one in scene.world.machines.values()), 5 * MINUTE)
    scene.users.ask_back(scene.group(), scene.status()["recycled"][0])
    await scene.until(scene.is_loaded, 20 * MINUTE)


async def collect(scene: Scene) -> None:
    """What an overwrite and a compaction have replaced is deleted, once its time is over."""
    await scene.make(retention={"seconds": 0, "snapshots": 0})
    scene.count_writes()
    await scene.load(OVERWRITE)
    await scene.load(COMPACT)
    await scene.sleep(scene.world.limits.garbage_grace + 3 * MINUTE)


async def lower_the_replicas(scene: Scene) -> None:
    """A replica of each bucket goes."""
    await scene.make(replicas=3)
    scene.count_writes()
    scene.users.patch_group(scene.group(), {"replicas": 1})
    await scene.until(lambda: all(len(row) == 1 for row in scene.rows()), 5 * MINUTE)


SCENES: tuple[Story, ...] = (
    load_a_new_table, lose_a_node, add_a_node, move_to_another_group, drop_and_recover, collect, lower_the_replicas,
)  # fmt: skip


async def _to_peace(story: Story, counted: list[int], scene: Scene) -> None:
    await story(scene)
    await scene.until_well()
    counted.append(scene.operator.writes)


@functools.cache
def writes_of(story: Story) -> int:
    """How many writes the operator makes in a scene without faults."""
    counted: list[int] = []
    play(functools.partial(_to_peace, story, counted), limits=LIMITS)
    return counted[0]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("story", SCENES, ids=lambda story: story.__name__)
def test_the_operator_dies_at_each_write(story: Story, after: bool) -> None:
    """Before it is carried out, or after."""
    count = writes_of(story)
    assert 0 < count <= MOST_WRITES
    for number in range(1, count + 1):

        async def interrupted(scene: Scene, number: int = number) -> None:
            scene.dies_at, scene.dies_after = number, after
            await _to_peace(story, [], scene)

        play(interrupted, limits=LIMITS)
