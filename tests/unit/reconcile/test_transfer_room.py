"""Tables that move to nodes without room for them: nothing is copied, and what is short is said everywhere alike."""

from colocation.controller.reconciler import Reconciler
from colocation.model.agent import CloneProgress
from colocation.reconcile.actions import PostEvent, StartClone

from ..controller.fake_cluster import DISK_BYTES, FakeCluster
from ..controller.story import SETTINGS, Story, two_groups

BUCKETS, BUCKET_BYTES = 4, 100
HEADROOM_BYTES = DISK_BYTES // 10 + 1


def wanted_bytes(story: Story, table: str, node: str) -> int:
    """What the table lacks on a node that is to have all of its buckets."""
    return sum(node not in nodes for nodes in story.places_of(table)) * BUCKET_BYTES


def leave_room(story: Story, node: str, size_bytes: int) -> None:
    """The node's disk is full but for that."""
    story.cluster.free_bytes[node] = HEADROOM_BYTES + size_bytes


def clones(cluster: FakeCluster) -> list[StartClone]:
    return [action for action in cluster.performed if isinstance(action, StartClone)]


async def test_move_without_room_starts_nothing_and_says_what_is_short() -> None:
    """Bytes wanted, bytes free, node; the same words in conditions and event. With room it goes on by itself."""
    story = await two_groups()
    wanted = wanted_bytes(story, "orders", "node-3")
    leave_room(story, "node-3", wanted - 1)
    story.cluster.performed.clear()
    story.cluster.edit_table("orders", colocateWith="stock")
    await story.passes(3)
    status, reason, message = story.condition("orders", "Reconciling")
    assert (status, reason) == ("True", "InsufficientSpace")
    assert f"node node-3 is to take {wanted} bytes and has room for {wanted - 1} (10 % of a disk stays free)" in message
    assert story.condition("orders", "Stalled") == (status, reason, message)
    events = [one for one in story.cluster.performed if isinstance(one, PostEvent) and one.reason == "Stalled"]
    assert [(one.type, one.message) for one in events] == [("Warning", f"InsufficientSpace: {message}")]
    assert not clones(story.cluster)
    assert story.cluster.table("orders").status.group == "sales"

    leave_room(story, "node-3", wanted)
    await story.passes(12)
    assert story.cluster.table("orders").status.group == "stock"
    assert story.condition("orders", "Stalled") == ("", "", "")


async def test_tables_that_move_keep_to_the_clusters_budget() -> None:
    """They leave a share of it to repairs, and know theirs; the table arrives all the same."""
    story = await two_groups()
    settings = SETTINGS.model_copy(
        update={"clone_mib_per_second_per_cluster": 8.0, "max_concurrent_clones_per_node": 9}
    )
    story.operator = Reconciler(story.cluster, story.cluster, settings)
    story.cluster.performed.clear()
    story.cluster.edit_table("orders", colocateWith="stock")
    await story.operator.reconcile_once()
    assert [one.spec.max_bandwidth_mib_per_second for one in clones(story.cluster)] == [2.0] * 3
    await story.passes(12)
    assert story.cluster.table("orders").status.group == "stock"


async def test_every_node_that_is_short_is_named() -> None:
    """And none has less than nothing."""
    story = await two_groups()
    story.cluster.free_bytes |= {"node-3": 0, "node-4": 0}
    story.cluster.edit_table("orders", colocateWith="stock")
    await story.passes(1)
    message = story.condition("orders", "Stalled")[2]
    assert "node node-3 is to take" in message and "has room for 0, node node-4 is to take" in message


async def test_failed_clone_needs_room_for_the_rest_only() -> None:
    """What it has copied lies on the disk already, and the next attempt goes on with it."""
    story = await two_groups()
    story.cluster.edit_table("orders", colocateWith="stock")
    while not any(job.target == "node-3" for job in story.cluster.jobs.values()):
        await story.operator.reconcile_once()
    failed = next(job for job in story.cluster.jobs.values() if job.target == "node-3")
    story.cluster.end_clones(succeed=False)
    leave_room(story, "node-3", wanted_bytes(story, "orders", "node-3") - 80)
    await story.operator.reconcile_once()
    assert story.condition("orders", "Reconciling")[1] == "InsufficientSpace"
    story.cluster.progress["node-3"] = CloneProgress(
        namespace=failed.group_namespace, group=failed.group, bucket=failed.bucket, bytes_done=80, bytes_total=100,
        updated_at="2026-11-21T00:00:00Z",
    )  # fmt: skip
    await story.operator.reconcile_once()
    assert story.condition("orders", "Reconciling")[1] == "Moving"


async def test_two_moves_do_not_share_the_same_room() -> None:
    """The second waits, instead of both filling the disk half; clones in flight keep their room."""
    story = await two_groups()
    first, second = (wanted_bytes(story, table, "node-3") for table in ("customers", "orders"))
    leave_room(story, "node-3", first + second - 1)
    for table in ("customers", "orders"):
        story.cluster.edit_table(table, colocateWith="stock")
    for _ in range(2):
        await story.operator.reconcile_once()
        assert story.condition("customers", "Reconciling")[1] == "Moving"
        assert story.condition("orders", "Reconciling")[1] == "InsufficientSpace"
    assert {one.spec.tables[0].directory.partition("-")[0] for one in clones(story.cluster)} == {"customers"}


async def test_move_to_a_group_without_a_map_says_so() -> None:
    """There is nothing to count yet; why it has none stands in the group's own status."""
    story = await two_groups()
    story.cluster.add_table("empty")
    await story.passes(2)
    story.cluster.add_group("wide", replicas=5)
    story.cluster.edit_table("empty", colocateWith="wide")
    await story.passes(2)
    message = "from group sales, which places it until then, to group wide, which has no map yet"
    assert story.condition("empty", "Reconciling") == ("True", "Moving", message)
    assert story.cluster.table("empty").status.group == "sales"


async def arrived() -> Story:
    """All replicas of ``orders`` are where the group that it moves to wants them; no pass has been made since."""
    story = await two_groups()
    story.cluster.edit_table("orders", colocateWith="stock")
    rows = story.cluster.group("stock").status.backends_per_bucket_seq or ()
    directory = story.cluster.table("orders").directory
    for bucket, row in enumerate(rows):
        for node in row:
            story.cluster.disks[node].setdefault(directory, set()).add(bucket)
    return story


async def test_table_moves_only_once_the_old_group_deletes_nothing_of_it() -> None:
    """The old group says first that it lets the table go, with a new map version: deletions of before are void."""
    story = await arrived()
    version = story.cluster.group("sales").status.map_version or 0
    await story.operator.reconcile_once()
    assert story.cluster.table("orders").status.group == "sales"
    assert any(member.leaving for member in story.cluster.group("sales").status.members)
    assert story.cluster.group("sales").status.map_version == version + 1
    await story.passes(3)
    assert story.cluster.table("orders").status.group == "stock"
    assert story.cluster.group("sales").status.map_version == version + 1, "it begins to leave once"


async def test_table_moves_only_once_all_agents_have_spoken_since() -> None:
    """What one said before the old group let the table go may have been deleted on its behalf since."""
    story = await arrived()
    story.cluster.set_slow("node-3")
    await story.passes(4)
    assert story.cluster.table("orders").status.group == "sales"
    del story.cluster.last_words["node-3"]
    await story.passes(1)
    assert story.cluster.table("orders").status.group == "stock"
