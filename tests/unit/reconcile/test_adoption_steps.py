"""What `colocation adopt` does with each folder."""

from typing import Any

import pytest

from colocation.model.adoption import Folders, FolderSnapshot, NamedTable, TableFolder
from colocation.model.agent import ManifestSummary, RecycledSchema
from colocation.model.table import Column, TableSnapshot
from colocation.reconcile.adoption import (
    NEVER_COMPLETE,
    AdoptionStep,
    Does,
    adoption_steps,
    group_name,
    newest_first,
    replicas_of,
)

COLUMNS = (Column(name="k", type="bigint"),)
SCHEMA = RecycledSchema(columns=COLUMNS, bucketed_by=("k",), buckets=8)
OWN, OTHER = "0a1b2c3d", "11111111"


def snapshot(number: int, missing: tuple[int, ...] | None = (), copies: int = 2, mark: str = "a") -> FolderSnapshot:
    """The manifest's digest is ``mark`` and the number."""
    taken = TableSnapshot(
        id=number, manifest=f"sha256:{mark}{number:063x}", committed_at=f"2026-11-{number:02}T00:00:00Z", rows=10,
        bytes=2048,
    )  # fmt: skip
    nodes = ("n1", "n2")
    return FolderSnapshot(snapshot=taken, table_schema=SCHEMA, nodes=nodes, missing_buckets=missing, copies=copies)


def folder(*snapshots: FolderSnapshot, uid: str = OWN, table: str = "orders", binned: bool = False) -> TableFolder:
    nodes = ("n1", "n2")
    return TableFolder(
        namespace="shop", directory=f"{table}-{uid}", table=table, nodes=nodes, recycled_nodes=nodes if binned else (),
        snapshots=snapshots,
    )  # fmt: skip


REFUSAL = "node n1: 403 Forbidden: it may not"


def unchecked(*snapshots: FolderSnapshot) -> TableFolder:
    """One of whose agents gave no answer."""
    return folder(*snapshots).model_copy(update={"problem": REFUSAL, "is_checked": False})


def living(number: int = 2, is_whole: bool = True, **fields: Any) -> NamedTable:
    committed = snapshot(number).snapshot if number else None
    known = {"columns": COLUMNS, "snapshot": committed, "is_whole": is_whole, **fields}
    return NamedTable(namespace="shop", name="orders", directory=f"orders-{OWN}", **known)


def steps(*folders: TableFolder, table: NamedTable | None = None, recycled: bool = False) -> list[AdoptionStep]:
    found = Folders(folders=folders, tables=(table,) if table else (), etcd_restored=True)
    return adoption_steps(found, recycled=recycled)


def only(*folders: TableFolder, table: NamedTable | None = None, recycled: bool = False) -> AdoptionStep:
    [found] = steps(*folders, table=table, recycled=recycled)
    return found


LATER = snapshot(2).snapshot.model_copy(update={"committed_at": "2026-11-04T00:00:00Z"})


# Which manifest is the newest


def reported(name: str, number: int, parent: str | None, *minutes: int) -> list[ManifestSummary]:
    """A manifest as the nodes report it that have it; ``minutes``: when it was written, by their clocks."""
    return [
        ManifestSummary(
            sha256=name, table="orders", uid="", snapshot_id=number, partitions=1, files=1, rows=1, bytes=1,
            modified_at=f"2026-11-21T00:{minute:02}:00Z", table_schema=SCHEMA, parent=parent,
        )
        for minute in minutes
    ]  # fmt: skip


def timeless(found: list[ManifestSummary]) -> list[ManifestSummary]:
    """From a file system without times."""
    return [one.model_copy(update={"modified_at": ""}) for one in found]


LOST_HISTORY = [reported("a1", 1, None, 0, 0, 0), reported("a2", 2, "a1", 1, 1, 1), reported("a3", 3, "a2", 2, 2, 2)]


@pytest.mark.parametrize(
    ("found", "order"),
    [
        pytest.param(LOST_HISTORY, ["a3", "a2", "a1"], id="one history"),
        pytest.param([*LOST_HISTORY, reported("b2", 2, "a1", 5, 5, 5)], ["b2", "a1", "a3", "a2"],
                     id="loaded again after a restore of etcd"),
        pytest.param([*LOST_HISTORY, reported("b2", 2, "a1", 9, 2, 2)], ["a3", "a2", "a1", "b2"],
                     id="a writer that lost a race, and a clock that is ahead"),
        pytest.param([reported("a3", 3, None, 2), reported("a2", 2, None, 9)], ["a3", "a2"],
                     id="agents of an older release, and a replica that was made later"),
        pytest.param([reported("a2", 2, "a1", 9), reported("a3", 3, "a2", 2)], ["a3", "a2"],
                     id="a replica that was made later"),
        pytest.param([reported("a2", 2, "a1", 1), reported("b2", 2, "a1", 1, 1)], ["b2", "a2"],
                     id="that which more nodes have"),
        pytest.param([*LOST_HISTORY, reported("b2", 2, "a1", 1, 9, 5)], ["b2", "a1", "a3", "a2"],
                     id="the time in the middle is later"),
        pytest.param([*LOST_HISTORY, reported("b2", 2, "a1", 9, 2)], ["a3", "a2", "a1", "b2"],
                     id="one of two clocks is ahead"),
        pytest.param([*LOST_HISTORY, reported("b2", 2, "a1", 3)], ["a3", "a2", "a1", "b2"],
                     id="no more than a minute later"),
        pytest.param([*LOST_HISTORY, timeless(reported("b2", 2, "a1", 9))], ["a3", "a2", "a1", "b2"], id="no time"),
        pytest.param([timeless(reported("a3", 3, "a2", 1)), reported("b2", 2, "a1", 9)], ["a3", "b2"],
                     id="the newest one has no time"),
        pytest.param([reported("a2", 2, "a3", 1), reported("a3", 3, "a2", 1)], ["a3", "a2"],
                     id="each calls the other one its parent"),
        pytest.param([], [], id="none"),
    ],
)  # fmt: skip
def test_the_newest_manifest_is_the_end_of_the_latest_history(
    found: list[list[ManifestSummary]], order: list[str]
) -> None:
    """In any order of the reports."""
    for manifests in (found, found[::-1]):
        assert [one.sha256 for one in newest_first(manifests)] == order


# Tables that are missing


def test_a_lost_table_is_created_with_its_newest_whole_snapshot() -> None:
    """And what is newer and not whole is named."""
    found = only(folder(snapshot(3, (4,)), snapshot(2), snapshot(1, None)))
    assert (found.does, found.group, found.chosen and found.chosen.snapshot.id) == (
        Does.CREATE, "adopted-bigint-8", 2,
    )  # fmt: skip
    assert found.passed_over == ("snapshot 3: no node has complete buckets 4",)


def test_a_folder_without_a_whole_snapshot_waits() -> None:
    """Nodes that are away may have the rest."""
    found = only(folder(snapshot(1, (0,))))
    assert (found.does, found.reason) == (
        Does.NOTHING, "no snapshot is complete; nodes that are away may have the rest",
    )  # fmt: skip


@pytest.mark.parametrize("snapshots", [(snapshot(1, None),), ()], ids=["not verified", "its manifests are not known"])
def test_a_folder_that_an_agent_gave_no_answer_about_is_waited_for(snapshots: tuple[FolderSnapshot, ...]) -> None:
    """It may be whole. Else the command would end, and let the operator recycle the folder."""
    found = steps(unchecked(*snapshots), folder(snapshot(9), uid=OTHER))
    assert [(one.folder.uid_digits, one.does) for one in found] == [(OWN, Does.WAIT), (OTHER, Does.NOTHING)]
    assert found[0].reason == REFUSAL and "is not checked yet" in found[1].reason


def test_a_folder_in_the_bins_is_adopted_only_on_request() -> None:
    """Somebody may have dropped the table for good."""
    binned = folder(snapshot(3, None), binned=True)
    refused = only(binned)
    assert refused.does is Does.NOTHING
    assert "recycle bin of n1, n2; to adopt it, unless it was dropped" in refused.reason
    taken = only(binned, recycled=True)
    assert (taken.does, taken.chosen, taken.schema) == (Does.CREATE, None, SCHEMA)


@pytest.mark.parametrize(
    ("folders", "winner", "reason"),
    [
        pytest.param((folder(snapshot(9)), folder(snapshot(12), uid=OTHER)), OTHER,
                     f"folder orders-{OTHER} of the same table has a newer snapshot", id="the newer snapshot"),
        pytest.param((folder(snapshot(3)), folder(snapshot(9, None), uid=OTHER, binned=True)), OWN,
                     f"folder orders-{OWN} of the same table is in its place", id="in its place"),
        pytest.param((folder(snapshot(9)), folder(snapshot(12, (1,)), uid=OTHER)), OWN,
                     "no snapshot is complete; nodes that are away may have the rest", id="the newer one is not whole"),
        pytest.param((folder(snapshot(12, (1,)), snapshot(3)), folder(snapshot(9), uid=OTHER)), OTHER,
                     f"folder orders-{OTHER} of the same table has a newer snapshot", id="its newest one is not whole"),
    ],
)  # fmt: skip
def test_of_two_folders_of_a_name_one_is_taken(folders: tuple[TableFolder, ...], winner: str, reason: str) -> None:
    """The other one stays as it is."""
    found = steps(*folders, recycled=True)
    assert {one.folder.uid_digits: one.does for one in found} == {
        one.uid_digits: Does.CREATE if one.uid_digits == winner else Does.NOTHING for one in folders
    }
    assert [one.reason for one in found if one.folder.uid_digits != winner] == [reason]


def test_created_tables_are_put_into_the_group_that_is_asked_for() -> None:
    """Those from the bins, too."""
    found = Folders(folders=(folder(snapshot(1)), folder(snapshot(1, None), table="lines", binned=True)), tables=())
    assert [one.group for one in adoption_steps(found, "mine", recycled=True)] == ["mine", "mine"]


def test_a_folder_in_the_bins_without_a_manifest_is_left_alone() -> None:
    """Nothing is known of the table."""
    assert only(folder(binned=True), recycled=True).does is Does.NOTHING


def test_a_step_is_known_by_its_folder_and_what_is_done_with_it() -> None:
    """A commit by its snapshot, too: the next one is another step."""
    path = folder().path
    created = [only(folder(snapshot(number))).key for number in (1, 2)]
    assert created == [(path, Does.CREATE, 0)] * 2
    committed = [only(folder(snapshot(number)), table=living(2)).key for number in (3, 4)]
    assert committed == [(path, Does.COMMIT, 3), (path, Does.COMMIT, 4)]
    assert only(folder(snapshot(1, (0,)))).key == (path, Does.NOTHING, 0)


def test_a_created_table_has_the_columns_of_its_snapshot() -> None:
    """Not those of a newer one that is not whole."""
    newer = snapshot(3, (4,)).model_copy(update={"table_schema": SCHEMA.model_copy(update={"buckets": 16})})
    found = only(folder(newer, snapshot(2)))
    assert (found.schema.buckets, found.group) == (8, "adopted-bigint-8")


def test_a_group_has_as_many_replicas_as_there_are_copies() -> None:
    """Files in the bins are not counted: two, if so many nodes have the folder."""
    found = steps(
        folder(snapshot(1, copies=3)), folder(snapshot(1, None), table="lines", binned=True), recycled=True
    )
    assert [replicas_of(one, found) for one in found] == [3, 3]
    assert replicas_of(found[1], found[1:]) == 2
    many = folder(snapshot(1, None), binned=True).model_copy(update={"nodes": tuple("abcd")})
    [only] = steps(many, recycled=True)
    assert replicas_of(only, [only]) == 2, "some may be left from moves"
    assert replicas_of(only, []) == 1
    created = AdoptionStep(folder(), Does.CREATE, snapshot(1, copies=2), group="mine")
    foreign = folder().model_copy(update={"namespace": "bank"})
    others = [
        AdoptionStep(foreign, Does.CREATE, snapshot(1, copies=5), group="mine"),
        AdoptionStep(folder(), Does.CREATE, snapshot(1, copies=5), group="other"),
        AdoptionStep(folder(), Does.NOTHING, snapshot(1, copies=5), group="mine"),
    ]
    assert replicas_of(created, [created, *others]) == 2, "tables of this group, which are created"


def test_group_names_follow_from_the_bucket_key() -> None:
    """However long its types are."""
    columns = tuple(Column(name=f"c{number}", type="decimal(38,10)") for number in range(9))
    wide = RecycledSchema(columns=columns, bucketed_by=tuple(one.name for one in columns), buckets=16)
    assert group_name(SCHEMA) == "adopted-bigint-8"
    assert group_name(wide) == "adopted-decimal-38-10-decimal-38-10-decimal-38-10-decima-16"
    types = (*("decimal(38,10)",) * 3, *("int",) * 3)
    fitting = tuple(Column(name=f"c{number}", type=kind) for number, kind in enumerate(types))
    longest = RecycledSchema(columns=fitting, bucketed_by=tuple(one.name for one in fitting), buckets=8)
    assert group_name(longest) == "adopted-decimal-38-10-decimal-38-10-decimal-38-10-int-int-int-8"
    more = (*COLUMNS, Column(name="v", type="string"))
    assert group_name(RecycledSchema(columns=more, bucketed_by=("K",), buckets=8)) == "adopted-bigint-8"


# Tables that exist


def test_a_table_that_lacks_files_takes_over_a_folder_of_its_name() -> None:
    """That which has its snapshot goes first; its own commits wait for that."""
    mine, other = folder(snapshot(4), snapshot(2), uid=OTHER, binned=True), folder(snapshot(9), uid="22222222")
    own = folder(snapshot(5))
    found = steps(own, other, mine, table=living(2, is_whole=False))
    assert [(one.folder.uid_digits, one.does, one.reason) for one in found] == [
        ("22222222", Does.NOTHING, f"folder orders-{OTHER} goes first"),
        (OTHER, Does.TAKE_OVER, "the table lacks files"),
    ]  # fmt: skip


@pytest.mark.parametrize("number", [0, 2], ids=["it has no snapshot", "no folder has its snapshot"])
def test_of_folders_without_its_snapshot_a_table_takes_over_the_newest(number: int) -> None:
    """By the newest manifest in there."""
    older, newer = folder(snapshot(5), uid=OTHER), folder(snapshot(9), snapshot(1), uid="22222222")
    for folders in ((older, newer), (newer, older)):
        found = steps(*folders, table=living(number, is_whole=False))
        assert {one.folder.uid_digits: one.does for one in found} == {OTHER: Does.NOTHING, "22222222": Does.TAKE_OVER}


def test_a_table_that_has_its_files_commits_next_to_another_folder() -> None:
    """That one is of another table."""
    found = steps(folder(snapshot(5)), folder(snapshot(2), uid=OTHER), table=living(2))
    assert [one.does for one in found] == [Does.COMMIT, Does.NOTHING]


def test_the_folder_that_is_being_taken_over_stays_chosen() -> None:
    """Until every node has handed it over; whole or not."""
    for is_whole in (False, True):
        table = living(2, is_whole=is_whole, adopts="22222222")
        found = steps(folder(snapshot(2), uid=OTHER), folder(snapshot(9), uid="22222222"), table=table)
        assert [one.does for one in found] == [Does.NOTHING, Does.TAKE_OVER]
        assert found[1].reason == "nodes hand over their files"


@pytest.mark.parametrize(
    ("committed", "adopts", "missing", "does", "reason"),
    [
        pytest.param(0, OTHER, None, Does.WAIT, "its files are not verified yet", id="no node has looked at them"),
        pytest.param(0, OTHER, (1,), Does.NOTHING, NEVER_COMPLETE, id="files are missing"),
        pytest.param(0, OTHER, (), Does.COMMIT, "", id="files are complete"),
        pytest.param(0, "", None, Does.NOTHING, "no later snapshot can be taken", id="the folder is the table's own"),
        pytest.param(2, OTHER, None, Does.NOTHING, "no later snapshot can be taken", id="the table has rows"),
    ],
)
def test_files_that_were_just_handed_over_are_waited_for(
    committed: int, adopts: str, missing: tuple[int, ...] | None, does: Does, reason: str
) -> None:
    """Else the command would end, and leave the table without a snapshot."""
    found = only(folder(snapshot(3, missing)), table=living(committed, is_whole=bool(committed), adopts=adopts))
    assert (found.does, found.reason) == (does, reason)


def test_files_that_were_looked_at_in_part_are_not_waited_for() -> None:
    """Of a newer snapshot files are missing; an older one is looked at only where no newer one is whole."""
    table = living(0, is_whole=False, adopts=OTHER)
    assert only(folder(snapshot(4, (1,)), snapshot(3, None)), table=table).does is Does.NOTHING


def test_a_created_table_gets_a_snapshot_that_one_node_has() -> None:
    """Nothing is known to be committed, so most nodes need not have it."""
    table = living(0, is_whole=False, adopts=OTHER)
    found = only(folder(snapshot(3).model_copy(update={"nodes": ("n1",)})), table=table)
    assert found.does is Does.COMMIT


def test_a_snapshot_of_the_same_moment_is_taken() -> None:
    """Times are in whole seconds."""
    committed = snapshot(2).snapshot.model_copy(update={"committed_at": snapshot(3).snapshot.committed_at})
    assert only(folder(snapshot(3), snapshot(2)), table=living(snapshot=committed)).does is Does.COMMIT


def test_a_created_table_that_cannot_be_whole_is_named() -> None:
    """With what is missing and what to do; nothing waits for it."""
    found = only(folder(snapshot(3, (1,))), table=living(0, is_whole=False, adopts=OTHER))
    assert "bring back nodes that are away" in found.reason and "drop the table" in found.reason
    assert found.passed_over == ("snapshot 3: no node has complete buckets 1",)


@pytest.mark.parametrize(
    ("snapshots", "does"),
    [
        pytest.param((snapshot(3, (1,)), snapshot(2)), Does.WAIT, id="its agent may have the rest"),
        pytest.param((snapshot(3), snapshot(2)), Does.COMMIT, id="the others have all of it"),
        pytest.param((snapshot(3), snapshot(2), snapshot(2, mark="b")), Does.NOTHING, id="it can never be taken"),
        pytest.param((snapshot(4, (1,)), snapshot(3), snapshot(3, mark="b"), snapshot(2)), Does.WAIT,
                     id="one of them can never be taken"),
        pytest.param((snapshot(4, (1,)), snapshot(3), snapshot(2)), Does.COMMIT, id="an older one is there"),
    ],
)  # fmt: skip
def test_a_commit_that_an_agent_gave_no_answer_about_is_waited_for(
    snapshots: tuple[FolderSnapshot, ...], does: Does
) -> None:
    """Only where its answer can make a difference."""
    found = only(unchecked(*snapshots), table=living())
    assert found.does is does
    assert found.reason == {Does.WAIT: REFUSAL, Does.COMMIT: ""}.get(does, "no later snapshot can be taken")


def test_a_table_that_has_its_files_takes_over_nothing() -> None:
    """The folder is of another table of that name."""
    found = only(folder(snapshot(9), uid=OTHER), table=living())
    assert found.does is Does.NOTHING and "another table of the same name" in found.reason


def test_a_table_that_went_back_gets_its_newest_whole_commit() -> None:
    """And what is newer and not whole is named."""
    found = only(folder(snapshot(5, (1,)), snapshot(4), snapshot(3, None), snapshot(2)), table=living())
    assert (found.does, found.chosen and found.chosen.snapshot.id) == (Does.COMMIT, 4)
    assert found.passed_over == ("snapshot 5: no node has complete buckets 1",)


def test_a_table_without_newer_commits_is_not_listed() -> None:
    """Nothing is to be done."""
    assert steps(folder(snapshot(2), snapshot(1, None)), table=living()) == []


@pytest.mark.parametrize(
    ("snapshots", "table", "reason"),
    [
        pytest.param((snapshot(3), snapshot(2), snapshot(2, mark="b")), living(2), "there is another snapshot 2",
                     id="it was loaded since: the other snapshot of that number is of the lost history"),
        pytest.param((snapshot(3), snapshot(2)), living(2, snapshot=LATER), "snapshot 2 is younger",
                     id="it was loaded since, as the times say"),
        pytest.param((snapshot(3), snapshot(3, mark="b"), snapshot(2)), living(2), "two loads wrote a snapshot",
                     id="one of two did not commit"),
        pytest.param((snapshot(3, None), snapshot(2)), living(2), "not checked", id="not verified"),
        pytest.param((snapshot(3).model_copy(update={"nodes": ("n1",)}), snapshot(2)), living(2),
                     "only 1 of 2 nodes have its manifest", id="not on most nodes"),
        pytest.param((snapshot(3), snapshot(2)), living(2, columns=(Column(name="k", type="int"),)),
                     "it has columns k, which the table lacks", id="of other columns"),
    ],
)  # fmt: skip
def test_a_commit_that_may_be_wrong_is_not_taken(
    snapshots: tuple[FolderSnapshot, ...], table: NamedTable, reason: str
) -> None:
    """The report gives the reason."""
    found = only(folder(*snapshots), table=table)
    assert found.does is Does.NOTHING
    assert reason in found.passed_over[0]


def test_a_created_table_gets_the_snapshot_that_more_nodes_have() -> None:
    """Of two with one number, as nothing states which was committed; the operator lists that one first."""
    table = living(0, is_whole=False, adopts=OTHER)
    found = only(folder(snapshot(3), snapshot(3, mark="b")), table=table)
    assert (found.does, found.chosen) == (Does.COMMIT, snapshot(3))
