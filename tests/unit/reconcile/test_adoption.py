"""Tables that are made again from the manifests on the disks, after their objects and groups were lost."""

from dataclasses import replace

import pytest

from colocation.reconcile.actions import RecycleTable, RestoreTable, StartClone
from colocation.state.objects import ObservedTable

from ..controller.fake_cluster import minutes
from ..controller.story import Story


async def lost(*names: str) -> tuple[Story, dict[str, ObservedTable]]:
    """Loaded tables of one group; then all objects are gone, as after a restore of etcd."""
    story = Story(nodes=4)
    story.cluster.add_group("sales")
    for name in names:
        await story.loaded(name)
    before = {name: story.cluster.table(name) for name in names}
    story.cluster.tables.clear()
    story.cluster.groups.clear()
    story.cluster.performed.clear()
    story.restart()
    return story, before


def adopt(story: Story, of: ObservedTable, name: str | None = None) -> None:
    """As the command does: a group that stays, and a table that takes over the folder."""
    cluster = story.cluster
    if ("shop", "adopted") not in cluster.groups:
        cluster.add_group("adopted", deletionPolicy="Retain")
    cluster.add_table(name or of.identity.name, "adopted")
    made = cluster.table(name or of.identity.name)
    cluster.tables["shop", made.identity.name] = replace(made, adopts=of.directory.rpartition("-")[2])


def commit(story: Story, of: ObservedTable) -> None:
    """As the command does once the nodes have handed over the folder."""
    made = story.cluster.table(of.identity.name)
    status = made.status.model_copy(update={"snapshot": of.status.snapshot})
    story.cluster.tables["shop", of.identity.name] = replace(made, status=status)


@pytest.mark.parametrize("restarting", [False, True], ids=["one operator", "operators that restart"])
async def test_lost_tables_come_back_where_they_lie(restarting: bool) -> None:
    """With their snapshots, and without a copy: the new group's map follows the files."""
    story, before = await lost("orders", "lines")
    places = {name: [set(nodes) for nodes in holders(story, table)] for name, table in before.items()}
    for table in before.values():
        adopt(story, table)
    await story.passes(4, restarting)
    assert all(story.condition(name, "Accepted")[:2] == ("False", "Recovering") for name in before)
    for table in before.values():
        commit(story, table)
    await story.passes(8, restarting)
    for name, table in before.items():
        assert story.cluster.table(name).status.snapshot == table.status.snapshot
        assert story.places_of(name) == places[name] == story.map_of("adopted")
    group = story.cluster.group("adopted").status
    assert group.stable and group.tables == ("lines", "orders") and group.recycled == ()
    assert not [one for one in story.cluster.performed if isinstance(one, StartClone | RecycleTable)]


def holders(story: Story, of: ObservedTable) -> list[list[str]]:
    disks = story.cluster.disks.items()
    return [[node for node, disk in disks if bucket in disk.get(of.directory, ())] for bucket in range(4)]


async def test_another_name_adopts_nothing() -> None:
    """Whatever the annotation says: only a table of the name and namespace of the folder gets its files."""
    story, before = await lost("orders")
    adopt(story, before["orders"], name="mine")
    await story.passes(6)
    assert not [one for one in story.cluster.performed if isinstance(one, RestoreTable)]
    assert story.cluster.table("mine").status.snapshot is None


async def test_group_does_not_wait_for_files_for_ever() -> None:
    """One table's files are not there: the other tables of the group are placed all the same."""
    story, before = await lost("orders", "lines")
    for disk in story.cluster.disks.values():
        disk.pop(before["lines"].directory, None)
    for table in before.values():
        adopt(story, table)
    await story.passes(4)
    commit(story, before["orders"])
    await story.passes(1)
    assert story.cluster.group("adopted").status.reason == "Recovering"
    story.cluster.now += minutes(11)
    await story.passes(10)
    group = story.cluster.group("adopted").status
    assert group.stable and group.backends_per_bucket_seq is not None
    assert story.places_of("orders") == story.map_of("adopted")
    assert story.condition("lines", "Accepted")[:2] == ("False", "Recovering")
