"""Tables that are dropped and come back."""

from dataclasses import replace

import pytest

from colocation.reconcile.actions import PostEvent, RestoreTable, StartClone

from .fake_cluster import minutes
from .story import Story

DAY = minutes(24 * 60)


@pytest.mark.parametrize("seen", [True, False], ids=["the operator is there", "the operator is away"])
async def test_dropped_table_comes_back_whole(seen: bool) -> None:
    """It waits in the bin with its mark; asked for, it is made again with the same snapshot and files."""
    story = Story()
    story.cluster.add_group("sales")
    await story.loaded("orders", recycleAfterSeconds=7200, retention={"seconds": 5})
    snapshot = story.cluster.table("orders").status.snapshot
    story.cluster.drop_table("orders", seen)
    if not seen:
        story.restart()
    await story.passes(3)
    group = story.cluster.group().status
    assert (group.tables, group.table_count) == (("orders*",), 0)
    assert group.delete_after == group.recycled[0].purge_at
    assert not any(story.cluster.disks.values())
    assert any(story.cluster.bins.values())

    story.cluster.ask_for("orders")
    await story.passes(12, restarting=True)
    await story.passes(3)
    table = story.cluster.table("orders")
    assert table.status.snapshot == snapshot
    assert table.spec is not None
    assert (table.spec.recycle_after_seconds, table.spec.retention.seconds) == (7200, 5)
    assert story.places_of("orders") == story.map_of("sales")
    group = story.cluster.group().status
    assert (group.tables, group.recycled, group.delete_after, group.stable) == (("orders",), (), None, True)
    assert story.cluster.group().recover_requests == set()
    assert not any(story.cluster.bins.values())
    assert {"TableDropped", "TableRecovered"} <= set(story.cluster.events())


@pytest.mark.parametrize("slow", [True, False], ids=["an agent is slow", "all answer"])
async def test_recovery_of_a_healthy_table_raises_no_alarm(slow: bool) -> None:
    """No step on the way reports that files are lacking: every node has its folder, and takes it over in turn."""
    story, said = Story(), set[str]()
    story.cluster.add_group("sales")
    await story.loaded("orders")
    if slow:
        story.cluster.set_slow(story.cluster.group().status.nodes[0])
    story.cluster.drop_table("orders")
    await story.passes()
    story.cluster.ask_for("orders")
    for number in range(12):
        if number == 6:
            story.cluster.last_words.clear()
        await story.passes(1)
        if (await story.cluster.observe()).tables:
            said.add(story.condition("orders", "Accepted")[2])
    assert story.cluster.table("orders").status.snapshot is not None
    assert not [message for message in said if "lack" in message]


async def test_node_that_was_away_gives_its_files_back_too() -> None:
    """Its folder was never recycled; once a live replica of each bucket is back, the table is, and the rest follows."""
    story = Story()
    story.cluster.add_group("sales", relocation={"enabled": False})
    await story.loaded("orders")
    story.cluster.set_ready("node-1", False)
    story.cluster.silent_since["node-1"] = story.cluster.now
    story.cluster.drop_table("orders")
    await story.passes()
    story.cluster.ask_for("orders")
    await story.passes(10)
    assert story.cluster.table("orders").status.snapshot is not None
    story.cluster.set_ready("node-1", True)
    del story.cluster.silent_since["node-1"]
    await story.passes(14)
    assert story.cluster.group().status.stable
    assert story.places_of("orders") == story.map_of("sales")


async def test_recovery_asks_every_agent_that_answers() -> None:
    """One that is slow, on a busy machine, has its folder renamed like the others: nothing is cloned."""
    story = Story()
    story.cluster.add_group("sales")
    await story.loaded("orders")
    places = story.places_of("orders")
    slow = story.cluster.group().status.nodes[0]
    story.cluster.set_slow(slow)
    story.cluster.drop_table("orders")
    await story.passes()
    story.cluster.ask_for("orders")
    await story.passes()
    assert story.condition("orders", "Accepted")[:2] == ("False", "Recovering")
    del story.cluster.last_words[slow]
    await story.passes()
    assert story.cluster.table("orders").status.snapshot is not None
    assert story.places_of("orders") == places
    assert not [one for one in story.cluster.performed if isinstance(one, StartClone)]


async def test_recovery_waits_for_the_last_live_replica() -> None:
    """A table without all of its rows is never shown: it names which buckets are missing, and goes on with them."""
    story = Story()
    story.cluster.add_group("sales", replicas=1, relocation={"enabled": False})
    await story.loaded("orders")
    away = story.cluster.group().status.nodes[0]
    story.cluster.set_ready(away, False)
    story.cluster.silent_since[away] = story.cluster.now
    story.cluster.drop_table("orders")
    await story.passes()
    story.cluster.ask_for("orders")
    await story.passes()
    assert story.cluster.table("orders").status.snapshot is None
    status, reason, message = story.condition("orders", "Accepted")
    assert (status, reason) == ("False", "Recovering")
    assert "the live nodes lack files of buckets" in message
    story.cluster.set_ready(away, True)
    del story.cluster.silent_since[away]
    await story.passes(10)
    assert story.cluster.table("orders").status.snapshot is not None


@pytest.mark.parametrize("everywhere", [True, False], ids=["all files", "the files of one node"])
async def test_recovery_that_the_purge_overtakes_ends(everywhere: bool) -> None:
    """Asked for in time, purged before it was back: while a node is away it may still come; then it reports it."""
    story = Story()
    story.cluster.add_group("sales", replicas=1, deletionPolicy="Retain", relocation={"enabled": False})
    await story.loaded("orders")
    purged = story.cluster.group().status.nodes[: None if everywhere else 1]
    story.cluster.drop_table("orders")
    await story.passes(3)
    story.cluster.ask_for("orders")
    await story.passes(1)
    for node in purged:
        story.cluster.purge(node)
    story.cluster.silent_since[purged[0]] = story.cluster.now
    story.cluster.now += DAY + minutes(1)
    await story.passes(6)
    assert story.condition("orders", "Accepted")[:2] == ("False", "Recovering")
    assert len(story.cluster.group().status.recycled) == 1

    del story.cluster.silent_since[purged[0]]
    await story.passes(3)
    assert story.condition("orders", "Accepted")[:2] == ("False", "Purged")
    assert story.cluster.table("orders").status.snapshot is None
    assert story.cluster.group().status.recycled == ()
    assert "TablePurged" in story.cluster.events()
    assert "TableRecovered" not in story.cluster.events()


async def test_recovery_that_began_in_time_ends_well() -> None:
    """The time in the bin is over while a node is away that has the last files: they still come back."""
    story = Story()
    story.cluster.add_group("sales", replicas=1, deletionPolicy="Retain", relocation={"enabled": False})
    await story.loaded("orders")
    away = story.cluster.group().status.nodes[0]
    story.cluster.drop_table("orders")
    await story.passes(3)
    story.cluster.silent_since[away] = story.cluster.now
    story.cluster.ask_for("orders")
    await story.passes(4)
    story.cluster.now += DAY + minutes(1)
    await story.passes(4)
    del story.cluster.silent_since[away]
    await story.passes(8)
    assert story.cluster.table("orders").status.snapshot is not None
    assert story.places_of("orders") == story.map_of("sales")


@pytest.mark.parametrize("case", ["exists", "purged"])
async def test_recovery_is_refused(case: str) -> None:
    """While another table has the name, and when it is too late: the event reports it, and nothing changes."""
    story = Story()
    story.cluster.add_group("sales", deletionPolicy="Retain")
    await story.loaded("orders")
    story.cluster.drop_table("orders")
    await story.passes(3)
    story.cluster.ask_for("orders")
    if case == "exists":
        story.cluster.add_table("orders")
    else:
        story.cluster.now += DAY + minutes(1)
    await story.passes(4)
    assert "RecoverRefused" in story.cluster.events()
    assert story.cluster.group().recover_requests == set()
    if case == "purged":
        assert ("shop", "orders") not in story.cluster.tables
        assert story.cluster.group().status.tables == ()
        assert "TablePurged" in story.cluster.events()
    else:
        assert story.cluster.table("orders").status.snapshot is None
        assert story.cluster.group().status.tables == ("orders", "orders*")


async def test_recovery_given_up_can_be_asked_for_again() -> None:
    """The table that was to take over the files is deleted half way: they wait under its name, and still come back."""
    story = Story()
    story.cluster.add_group("sales")
    await story.loaded("orders")
    story.cluster.drop_table("orders")
    await story.passes(3)
    story.cluster.ask_for("orders")
    while not any(story.cluster.disks.values()):
        await story.passes(1)
    story.cluster.drop_table("orders")
    await story.passes(3)
    story.cluster.ask_for("orders")
    await story.passes(12)
    assert story.cluster.table("orders").status.snapshot is not None
    assert story.places_of("orders") == story.map_of("sales")


@pytest.mark.parametrize("is_there", [True, False], ids=["it was there until the end", "it was dropped again"])
@pytest.mark.parametrize("copied", ["live", "dropped", "back"])
async def test_files_that_came_back_after_the_copy_of_etcd_are_adopted(copied: str, is_there: bool) -> None:
    """It came back under another uid; restored, etcd does not know that uid (found by chaos, and by reading).

    Whatever it was when the copy was taken: one that was back has no manifest of its own yet.
    """
    story = Story()
    story.cluster.add_group("sales")
    await story.loaded("orders")
    if copied == "back":
        await dropped_and_back(story)
    first = story.cluster.table("orders")
    if copied == "dropped":
        story.cluster.drop_table("orders")
        await story.passes(3)
    copy = story.cluster.copy()
    if copied == "dropped":
        story.cluster.ask_for("orders")
        await story.passes(12)
    await dropped_and_back(story)
    last = story.cluster.table("orders")
    if not is_there:
        story.cluster.drop_table("orders")
        await story.passes(3)
    assert {last.directory} == set.union(*map(set, lying(story).values()))

    story.cluster.restore(copy)
    story.restart()
    if copied == "dropped":
        story.cluster.ask_for("orders")
        await story.passes(3)
        assert ("shop", "orders") not in story.cluster.tables
        assert last.directory in said(story, "RecoverRefused")
        return
    await story.passes(2)
    table = story.cluster.table("orders")
    story.cluster.tables["shop", "orders"] = replace(table, adopts=last.directory.rpartition("-")[2])
    await story.passes(6)
    assert story.cluster.table("orders").status.snapshot == first.status.snapshot
    assert story.places_of("orders") == story.map_of("sales")
    assert story.cluster.group().status.stable
    assert all(folders in ([], [first.directory]) for folders in lying(story).values())


def said(story: Story, reason: str) -> str:
    """The message of the last event of this reason."""
    events = [one for one in story.cluster.performed if isinstance(one, PostEvent) and one.reason == reason]
    return events[-1].message if events else ""


async def dropped_and_back(story: Story) -> None:
    story.cluster.drop_table("orders")
    await story.passes(3)
    story.cluster.ask_for("orders")
    await story.passes(12)


def lying(story: Story) -> dict[str, list[str]]:
    """Node -> folders in its bin and in their places."""
    return {node: [*bin_, *story.cluster.disks[node]] for node, bin_ in story.cluster.bins.items()}


async def test_folders_of_dropped_tables_are_not_taken_over() -> None:
    """Each is of a table that can come back by itself."""
    story = Story()
    story.cluster.add_group("sales")
    for _ in range(2):
        await story.loaded("orders")
        story.cluster.drop_table("orders")
        await story.passes(3)
    await story.loaded("orders")
    for disk in story.cluster.disks.values():
        disk.clear()
    await story.passes(3)
    assert not [one for one in story.cluster.performed if isinstance(one, RestoreTable)]


async def test_a_table_that_came_back_and_was_dropped_unnoticed_is_remembered_once() -> None:
    """By its newer uid: a request for the older one would wait for files that the newer one has (found by the
    simulation).
    """
    story = Story()
    story.cluster.add_group("sales")
    await story.loaded("orders")
    story.cluster.drop_table("orders")
    await story.passes(3)
    story.cluster.ask_for("orders")
    while ("shop", "orders") not in story.cluster.tables or not story.cluster.table("orders").status.snapshot:
        await story.passes(1)
    last = story.cluster.table("orders").identity.uid
    story.cluster.drop_table("orders")
    await story.passes(3)
    assert [record.uid for record in story.cluster.group().status.recycled] == [last]
