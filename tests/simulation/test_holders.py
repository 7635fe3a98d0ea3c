"""Nodes are asked for by evicting their holder pods: each drain ends when it can, and not before."""

from collections.abc import Callable

import pytest

from colocation.kube.api import HOLDERS, NODES

from .scenes import MINUTE, Scene, play


def holders(scene: Scene) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in scene.world.api.peek(HOLDERS)}


def in_maps(scene: Scene) -> set[str]:
    return {node for row in scene.rows() for node in row}


async def drained_by_eviction(scene: Scene, *nodes: str) -> None:
    """Wait until the evicted pods are gone, and no sooner than that."""
    for node in nodes:
        scene.world.holder_pods.drain(node)
    await scene.until(lambda: not scene.world.holder_pods.drains, 30 * MINUTE)
    assert set(scene.world.holder_pods.drained) == set(nodes)
    assert not in_maps(scene) & set(nodes)


def test_a_drain_waits_for_the_copies_and_for_readers() -> None:
    """The holder goes some minutes after the last replica did, and the group was stable all the time."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=4)
        node = scene.rows()[0][0]
        assert holders(scene) == in_maps(scene)
        scene.world.holder_pods.drain(node)
        await scene.until(lambda: node not in in_maps(scene), 10 * MINUTE)
        moved_at = scene.world.loop.elapsed
        assert scene.is_stable()
        await scene.until(lambda: not scene.world.holder_pods.drains, 10 * MINUTE)
        assert scene.world.loop.elapsed - moved_at >= 2 * MINUTE
        await scene.until_well()
        assert holders(scene) == in_maps(scene) == set(scene.world.machines) - {node}

    play(story, nodes=4)


def test_several_nodes_are_drained_at_once() -> None:
    """Those left take everything."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=4)
        await drained_by_eviction(scene, *sorted(scene.world.machines)[:2])
        await scene.until_well()

    play(story, nodes=5)


def test_a_drain_that_is_taken_back_leaves_a_new_holder() -> None:
    """`kubectl uncordon` while the holder is Terminating."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=4)
        node = scene.rows()[0][0]
        evicted = scene.world.holder_pods.of(node)
        assert evicted is not None
        for machine in scene.world.machines.values():
            machine.holds_jobs = True
        scene.world.holder_pods.drain(node)
        await scene.sleep(5 * MINUTE)
        assert scene.world.holder_pods.drains
        scene.world.holder_pods.cordon(node, cordoned=False)
        for machine in scene.world.machines.values():
            machine.holds_jobs = False
        await scene.until_well()
        made = scene.world.holder_pods.of(node)
        assert node in in_maps(scene)
        assert made is not None and made["metadata"]["uid"] != evicted["metadata"]["uid"]

    play(story, nodes=4)


def test_a_cordon_alone_moves_nothing() -> None:
    """Nor does a pod that is deleted on a node that takes pods."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=4)
        before, node = scene.rows(), scene.rows()[0][0]
        scene.world.holder_pods.cordon(node)
        await scene.sleep(10 * MINUTE)
        scene.world.holder_pods.cordon(node, cordoned=False)
        scene.world.holder_pods.evict(node)
        await scene.until_well()
        assert scene.rows() == before

    play(story, nodes=4)


def test_a_drain_without_room_waits_for_a_node() -> None:
    """Three nodes, three replicas: nothing may go before there is a fourth node."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=2, replicas=3)
        node = scene.rows()[0][0]
        scene.world.holder_pods.drain(node)
        await scene.sleep(30 * MINUTE)
        assert node in scene.world.holder_pods.drains
        scene.world.add_node("a", {"disks": "fast"})
        await scene.until(lambda: not scene.world.holder_pods.drains, 20 * MINUTE)
        assert scene.world.holder_pods.drained == [node]
        await scene.until_well()

    play(story, nodes=3)


def kill_operator(scene: Scene, node: str) -> None:
    scene.operator.restart()


def end_node(scene: Scene, node: str) -> None:
    scene.world.take_down(node)


@pytest.mark.parametrize("happens", [kill_operator, end_node])
def test_a_drain_ends_whatever_happens_meanwhile(happens: Callable[[Scene, str], None]) -> None:
    """The operator starts again and again; the node dies."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=4)
        node = scene.rows()[0][0]
        scene.world.holder_pods.drain(node)
        for _ in range(3):
            await scene.sleep(20)
            happens(scene, node)
        await scene.until(lambda: not scene.world.holder_pods.drains, 30 * MINUTE)
        assert scene.world.holder_pods.drained == [node]

    play(story, nodes=4)


def test_a_node_that_is_gone_leaves_no_holder() -> None:
    """The pod goes with its node, and a node of the same name gets another."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=4)
        node = scene.rows()[0][0]
        scene.world.delete_node(node)
        await scene.until_well()
        assert node not in holders(scene)

    play(story, nodes=4)


def test_a_holder_that_ends_is_made_again() -> None:
    """Not at once, each time: a kubelet may refuse it for ever."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=4)
        node = scene.rows()[0][0]
        made = scene.recorded(HOLDERS)
        end = scene.world.loop.elapsed + 10 * MINUTE
        while scene.world.loop.elapsed < end:
            scene.world.holder_pods.fail(node)
            await scene.sleep(5)
        assert 5 <= len([event for event in made if event.deleted]) <= 11
        await scene.until_well()

    play(story, nodes=4)


def test_an_operator_that_has_not_heard_of_the_cordon_keeps_the_holder() -> None:
    """The watch of pods may be faster than that of Nodes: the drain would be over before anything moved."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=4)
        node = scene.rows()[0][0]
        assert scene.operator.process is not None
        hear = scene.operator.process.take

        def deaf(resource: object, body: object, deleted: bool = False) -> None:
            if resource != NODES:
                hear(resource, body, deleted)  # type: ignore[arg-type]

        scene.operator.process.take = deaf  # type: ignore[method-assign]
        await drained_by_eviction(scene, node)

    play(story, nodes=4)
