"""ConfigMaps for Spark: written when they change, renewed in turn, and never by an operator that does not lead."""

import json
import math
from collections import Counter
from typing import Any

from colocation.kube.api import CONFIG_MAPS, GROUPS, NODES
from colocation.model.names import node_label

from .api import Event
from .loads import EVERY_BUCKET
from .scenes import MINUTE, Scene, play
from .users import SHOP
from .world import directory_of

GROUPS_ON_TWO_NODES = 5


def data_of(body: dict[str, Any]) -> dict[str, Any]:
    """What Spark reads, without the sign of life, which changes with every renewal."""
    return {name: content for name, content in body["data"].items() if name != "operator.json"}


def agents_of(scene: Scene, group: str) -> tuple[set[str], set[str]]:
    """The nodes whose agents the ConfigMap names: those that are ready, and the others."""
    data = scene.world.api.read(CONFIG_MAPS, SHOP, f"{group}-spark")["data"]
    return set(json.loads(data["agents.json"])), set(json.loads(data["agents-not-ready.json"]))


async def some_groups(scene: Scene) -> list[str]:
    """Five groups on the first two nodes, group ``other`` on the last two; the nodes."""
    nodes = sorted(scene.world.machines)
    for number in range(GROUPS_ON_TWO_NODES):
        scene.users.make_group(f"group-{number}", buckets=4, replicas=2, bucketSequence=[nodes[:2]] * 4)
    scene.users.make_group("other", buckets=4, replicas=2, bucketSequence=[nodes[2:]] * 4)
    await scene.until_well()
    await scene.sleep(2 * MINUTE)
    return nodes


class Writes:
    """ConfigMaps written from now on: how often each, and which of them with other content."""

    def __init__(self, scene: Scene) -> None:
        self.counts: Counter[str] = Counter()
        self.changed: set[str] = set()
        self._data = {body["metadata"]["name"]: data_of(body) for body in scene.world.api.peek(CONFIG_MAPS)}
        scene.world.api.watchers.append(self._see)

    def _see(self, event: Event) -> None:
        if event.resource == CONFIG_MAPS and not event.deleted:
            name = event.body["metadata"]["name"].removesuffix("-spark")
            self.counts[name] += 1
            if self._data.get(event.body["metadata"]["name"]) != data_of(event.body):
                self.changed.add(name)


def test_an_agent_that_goes_changes_the_config_maps_of_its_groups_only() -> None:
    """One node's agent must not cause a write for each of a thousand groups."""

    async def story(scene: Scene) -> None:
        nodes = await some_groups(scene)
        writes = Writes(scene)
        scene.world.take_down(nodes[2])
        await scene.until(lambda: agents_of(scene, "other") == ({nodes[3]}, {nodes[2]}), 2 * MINUTE)
        assert writes.changed == {"other"}

    play(story, nodes=4)


def test_all_agents_stay_listed_while_none_seems_to_be_ready() -> None:
    """After an outage of the API server every node looks down; a reader that knows no agent fails at once."""

    async def story(scene: Scene) -> None:
        nodes = await some_groups(scene)
        for node in nodes[2:]:
            scene.world.show_ready(node, ready=False)
        await scene.sleep(20)
        assert agents_of(scene, "other") == (set(nodes[2:]), set())

    play(story, nodes=4)


def test_nodes_that_hold_replicas_next_to_the_map_are_listed() -> None:
    """Spark may read from them; executors are placed on the nodes of the map only."""

    async def story(scene: Scene) -> None:
        nodes = await some_groups(scene)
        scene.users.make_table("orders", "other")
        await scene.sleep(20)
        await scene.load(EVERY_BUCKET)
        scene.world.network.hold_orders_to[nodes[0]] = math.inf  # the copies there are surplus, and are to be deleted
        disk, files = scene.world.machines[nodes[0]].disk, scene.world.committed(scene.table())
        manifest = scene.table()["status"]["snapshot"]["manifest"].removeprefix("sha256:")
        disk.put_manifest((SHOP, directory_of(scene.table())), manifest)
        for file in files:
            disk.put(file)
        await scene.until(lambda: nodes[0] in agents_of(scene, "other")[0], MINUTE)
        label = node_label(SHOP, "other")
        labelled = {
            one["metadata"]["name"] for one in scene.world.api.peek(NODES) if label in one["metadata"]["labels"]
        }
        assert labelled == set(nodes[2:])

    play(story, nodes=4)


def test_all_are_renewed_in_turn_while_nothing_happens() -> None:
    """Each about once a minute, also those of which nothing changes."""

    async def story(scene: Scene) -> None:
        await some_groups(scene)
        writes = Writes(scene)
        await scene.sleep(5 * MINUTE)
        groups = {body["metadata"]["name"] for body in scene.world.api.peek(GROUPS)}
        assert groups == writes.counts.keys() and not writes.changed
        assert all(3 <= count <= 5 for count in writes.counts.values()), writes.counts

    play(story, nodes=4)


def test_a_deleted_groups_config_map_is_not_written_again() -> None:
    """A write would bring it back."""

    async def story(scene: Scene) -> None:
        await some_groups(scene)
        scene.world.api.remove(GROUPS, SHOP, "group-0")
        await scene.sleep(20)
        writes = Writes(scene)
        await scene.sleep(5 * MINUTE)
        assert "group-0" not in writes.counts and writes.counts["group-1"]

    play(story, nodes=4)
