"""Disks that are not what they were: nothing is copied onto the wrong one, nothing moves too early, repairs end."""

import pytest

from colocation.model.conditions import Reason

from .scenes import MINUTE, Scene, Story, play
from .world import World


def play_with_disks(story: Story, nodes: int = 3) -> World:
    """With agents that tell disks apart."""
    return play(story, nodes, with_disks=True)


def sicken(scene: Scene, node: str, fault: Reason | None) -> None:
    scene.world.machines[node].disk.set_fault(fault, scene.world.loop.elapsed)


def swap(scene: Scene, node: str) -> None:
    scene.world.put_in(node, scene.world.new_disk(node))


def has_reason(scene: Scene, reason: Reason) -> bool:
    return not scene.is_stable() and scene.status()["reason"] == reason


def test_nothing_is_copied_onto_an_empty_disk_until_somebody_accepts_it() -> None:
    """It may be the folder below a mount that failed; the group reports it within seconds."""

    async def story(scene: Scene) -> None:
        await scene.make(relocation={"downToleranceSeconds": 3600})
        node = scene.rows()[0][0]
        swap(scene, node)
        await scene.until(lambda: has_reason(scene, Reason.DISK_MISSING), 30)
        await scene.sleep(10 * MINUTE)
        assert not scene.world.machines[node].disk.files() and not scene.jobs()
        scene.world.accept_disk(node)
        await scene.until_well(10 * MINUTE)
        assert scene.world.machines[node].disk.files()

    play_with_disks(story)


def test_a_disk_that_comes_back_is_used_as_it_is() -> None:
    """No one has to accept it, and nothing is copied."""

    async def story(scene: Scene) -> None:
        await scene.make(relocation={"downToleranceSeconds": 3600})
        node = scene.rows()[0][0]
        swap(scene, node)
        await scene.until(lambda: has_reason(scene, Reason.DISK_MISSING), 30)
        before = scene.world.machines[node].shelf
        assert before is not None
        scene.world.put_in(node, before)
        await scene.until(scene.is_stable, 30)
        assert not scene.jobs()
        await scene.until_well(MINUTE)

    play_with_disks(story)


@pytest.mark.parametrize("fault", [Reason.DISK_FAILING, Reason.DISK_READ_ONLY, Reason.DISK_MISSING])
def test_a_sick_disk_is_left_after_the_tolerance(fault: Reason) -> None:
    """Its replicas are made elsewhere; only one that can be read and loses nothing keeps the group stable meanwhile."""

    async def story(scene: Scene) -> None:
        await scene.make(relocation={"downToleranceSeconds": 300})
        scene.world.add_node("a", {"disks": "fast"})
        await scene.until_well()
        node = scene.rows()[0][0]
        sicken(scene, node, fault)
        for _ in range(24):
            await scene.sleep(10)
            assert node in scene.rows()[0]
            assert scene.is_stable() == (fault is Reason.DISK_READ_ONLY), scene.status()
        await scene.until(lambda: node not in {one for row in scene.rows() for one in row}, 10 * MINUTE)
        await scene.until(scene.is_stable, MINUTE)
        sicken(scene, node, None)
        await scene.until_well()

    play_with_disks(story)


@pytest.mark.parametrize("fault", [Reason.DISK_READ_ONLY, Reason.DISK_FULL])
def test_a_disk_that_takes_writes_by_turns_moves_nothing(fault: Reason) -> None:
    """The group stays stable, and no Job starts: what is stored there serves."""

    async def story(scene: Scene) -> None:
        await scene.make(relocation={"downToleranceSeconds": 60})
        node, before = scene.rows()[0][0], scene.rows()
        for turn in range(40):
            sicken(scene, node, None if turn % 2 else fault)
            for _ in range(3):
                await scene.sleep(4)
                assert scene.is_stable(), scene.status()
                assert not scene.jobs()
        assert scene.rows() == before
        await scene.until_well(MINUTE)

    play_with_disks(story)


def test_files_that_cannot_be_read_come_back_in_their_places() -> None:
    """Several of one disk at once: the node keeps its buckets, and gets these files again."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=3, replicas=2)
        before = scene.rows()
        disk = scene.world.machines[before[0][0]].disk
        files = disk.files()
        for file in files:
            disk.damage(file)
            scene.world.lose([file])
        await scene.until(lambda: has_reason(scene, Reason.REPLICA_CORRUPT), 30)
        await scene.until_well(5 * MINUTE)
        assert scene.rows() == before and disk.holds_all(files)

    play_with_disks(story)
