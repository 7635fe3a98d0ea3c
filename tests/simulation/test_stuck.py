"""Faults that never heal: what cannot be repaired is named, and everything else is repaired within its bound."""

from collections import Counter
from dataclasses import replace

from colocation.kube.api import GROUPS
from colocation.model.conditions import ConditionType, Reason

from .disks import File
from .liveness import HEADROOM_FRACTION, repairs_left
from .loads import APPEND
from .scenes import MINUTE, Scene, play

EVERY_BUCKET = replace(APPEND, share=1.0)
TOLERANCE_SECONDS = 300
BOUND_SECONDS = TOLERANCE_SECONDS + 10 * MINUTE


async def two_groups(scene: Scene, replicas: int) -> None:
    """``sales`` and, later in the order of groups, ``stock``: both loaded, all well."""
    relocation = {"downToleranceSeconds": TOLERANCE_SECONDS}
    await scene.make(buckets=6, replicas=replicas, change=EVERY_BUCKET, relocation=relocation)
    scene.users.make_group("stock", buckets=6, replicas=2, relocation=relocation)
    scene.users.make_table("parts", "stock")
    await scene.until(lambda: scene.table("parts").get("status", {}).get("accepted") and scene.rows("stock"), MINUTE)
    await scene.load(EVERY_BUCKET, "parts")
    await scene.until_well()


def files_on(scene: Scene, node: str, table: str = "orders") -> list[File]:
    committed = scene.world.committed(scene.table(table))
    held = (file for file in committed if scene.world.machines[node].disk.holds(file))
    return sorted(held, key=lambda file: file.bucket)


def leave_room(scene: Scene, node: str, room_bytes: int) -> None:
    """Others fill the node's disk, so that clones may write only so much."""
    disk = scene.world.machines[node].disk
    disk.foreign_bytes += disk.free_bytes - int(HEADROOM_FRACTION * disk.capacity_bytes) - room_bytes
    scene.world.machines[node].agent.ring()


async def all_that_can_be_is_repaired(scene: Scene, reason: Reason) -> None:
    """Within the bound, and the first group gives the reason why it is stalled, and names buckets."""

    def left() -> list[str]:
        return [one for group in scene.world.api.peek(GROUPS) for one in repairs_left(scene.world, group)]

    await scene.sleep(TOLERANCE_SECONDS)
    is_done = await scene.cluster.until(lambda: not left(), BOUND_SECONDS, 5.0)
    assert is_done, left()
    stalled = next(one for one in scene.status()["conditions"] if one["type"] == ConditionType.STALLED)
    assert (stalled["status"], stalled["reason"]) == ("True", reason)
    assert stalled["message"].startswith("bucket")


def test_too_few_nodes_keep_no_damaged_file_from_being_replaced() -> None:
    """P1: three replicas, two nodes left for good; a file of each goes bad. The other group moves what it lost."""

    async def story(scene: Scene) -> None:
        await two_groups(scene, replicas=3)
        gone, *kept = sorted(scene.world.machines)
        scene.world.delete_node(gone)
        await scene.sleep(MINUTE)
        for bucket, node in enumerate(kept):
            scene.world.machines[node].disk.damage(files_on(scene, node)[bucket])
        await all_that_can_be_is_repaired(scene, Reason.INSUFFICIENT_NODES)

    play(story)


def test_a_bucket_without_room_keeps_no_other_one_from_being_repaired() -> None:
    """P1: a node is lost, and the largest bucket there fits on none of the others; the other group is repaired, too."""

    async def story(scene: Scene) -> None:
        await two_groups(scene, replicas=2)
        gone = scene.rows()[0][0]
        sizes = Counter[int]()
        for file in scene.world.committed(scene.table()):
            sizes[file.bucket] += file.size_bytes
        largest = max(sizes[bucket] for bucket, row in enumerate(scene.rows()) if gone in row)
        for node in sorted(scene.world.machines):
            leave_room(scene, node, largest - 1)
        await scene.sleep(MINUTE)
        scene.world.delete_node(gone)
        await all_that_can_be_is_repaired(scene, Reason.INSUFFICIENT_SPACE)

    play(story, nodes=6)


def test_a_silent_node_and_a_sick_disk_hold_up_only_what_needs_them() -> None:
    """One agent is never heard again, another node's disk takes no writes for good, and four replicas have no other
    nodes: damaged files on the sound ones are replaced, and the other group leaves both.
    """

    async def story(scene: Scene) -> None:
        await two_groups(scene, replicas=4)
        silent, sick, *sound = sorted(scene.world.machines)
        scene.world.network.cut_off(silent)
        scene.world.machines[sick].disk.set_fault(Reason.DISK_READ_ONLY, scene.world.loop.elapsed)
        await scene.sleep(TOLERANCE_SECONDS + MINUTE)
        for bucket, node in enumerate(sound):
            scene.world.machines[node].disk.damage(files_on(scene, node)[bucket])
        await all_that_can_be_is_repaired(scene, Reason.INSUFFICIENT_NODES)

    play(story, nodes=4, with_disks=True)
