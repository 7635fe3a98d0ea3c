"""A commit whose answer is lost: the table's status says whether it happened, else the error says how to find out."""

import contextlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.model.table import Retention, TableSnapshot
from colocation.spark.catalog import NoAnswer, NotAllowed, TableObject, WriteConflict
from colocation.spark.write.changes import Mode, NewFiles
from colocation.spark.write.commit import ANSWER_DEADLINE_SECONDS, Committed, CommitUnknown, LoadConflict, commit

from .fake_catalog import FakeCatalog
from .test_commit import NOW, SPEC, A, B, C, Storage, data_file

LOST = NoAnswer("ColocatedTable shop/orders: the API server answered 504: Gateway Timeout")


@dataclass
class UnsureCatalog(FakeCatalog):
    """Each write and each read first asks the next of its scripts, while there are any.

    Attributes:
        writes: of each compare-and-set: what happens to it (``apply``, ``drop`` or ``late``: just after the next read),
            and always the answer is lost.
        reads: of each read after a commit, the error that it ends with.
    """

    writes: list[str] = field(default_factory=list)
    reads: list[Exception] = field(default_factory=list)
    always: Exception | None = None

    def __post_init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.before_read: Callable[[], None] = lambda: None
        self._late: list[Callable[[], None]] = []

    def commit(self, table: TableObject, snapshot: TableSnapshot, history: object) -> None:
        what = self.writes.pop(0) if self.writes else "answer"
        if what == "late":
            self._late.append(lambda: super(UnsureCatalog, self).commit(table, snapshot, history))
        elif what != "drop":
            super().commit(table, snapshot, history)
        if what != "answer":
            raise LOST

    def get_table(self, namespace: str, name: str) -> TableObject:
        if self.always or self.reads:
            raise self.always or self.reads.pop(0)
        self.before_read()
        found = super().get_table(namespace, name)
        for late in self._late:
            with contextlib.suppress(WriteConflict):
                late()
        self._late.clear()
        return found

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def catalog() -> UnsureCatalog:
    catalog = UnsureCatalog()
    catalog.add_table("orders", SPEC, str(uuid.uuid4()))
    return catalog


@pytest.fixture
def storage() -> Storage:
    return Storage()


def run(catalog: UnsureCatalog, storage: Storage, mode: Mode, *files: object) -> Committed:
    new = NewFiles(mode, files, buckets=2)  # type: ignore[arg-type]
    return commit(
        catalog, catalog.tables["orders"], new, storage.parent_of, storage.publish, lambda: NOW,
        clock=lambda: catalog.seconds, sleep=catalog.sleep,
    )  # fmt: skip


def committed_paths(catalog: FakeCatalog, storage: Storage) -> list[str]:
    manifest = storage.parent_of(catalog.tables["orders"])
    return sorted(file.path for file in manifest.files) if manifest else []


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize(
    ("writes", "commits"),
    [
        pytest.param(["apply"], 1, id="it happened"),
        pytest.param(["drop"], 1, id="it did not"),
        pytest.param(["late"], 1, id="it happens after the table was read"),
        pytest.param(["drop", "drop", "late", "apply"], 1, id="again and again"),
    ],
)
def test_a_lost_answer_is_one_commit(
    mode: Mode, writes: list[str], commits: int, catalog: UnsureCatalog, storage: Storage
) -> None:
    """The rows are there once, and the load says so."""
    catalog.writes = list(writes)
    assert run(catalog, storage, mode, A).snapshot.id == commits
    assert committed_paths(catalog, storage) == [A.path]
    assert catalog.tables["orders"].status.snapshot.id == commits


def test_reads_that_fail_are_tried_again(catalog: UnsureCatalog, storage: Storage) -> None:
    """The API server is away for a moment: the load waits for it, longer each time."""
    catalog.writes, catalog.reads = ["apply"], [LOST, NoAnswer("connection refused"), LOST]
    assert run(catalog, storage, "append", A).snapshot.id == 1
    assert 1 < catalog.seconds < ANSWER_DEADLINE_SECONDS


@pytest.mark.parametrize("last", [NoAnswer("connection refused"), NotAllowed("not any more"), ValueError("status")])
def test_what_cannot_be_found_out_is_said(last: Exception, catalog: UnsureCatalog, storage: Storage) -> None:
    """The error names the snapshot to look for, and what to do in either case; it comes by the stated deadline."""
    catalog.writes, catalog.always = ["apply"], last
    with pytest.raises(CommitUnknown) as raised:
        run(catalog, storage, "append", A)
    text = str(raised.value)
    manifest = catalog.tables["orders"].status.snapshot.manifest
    assert f"it is not known whether snapshot 1 ({manifest}) was committed: {LOST}" in text
    assert f"the API server said: {last}" in text
    assert f"if {manifest} is there, the change is done, do not repeat it; if not, start it again" in text
    assert catalog.seconds < ANSWER_DEADLINE_SECONDS + 10


def test_a_conflict_followed_by_silence_is_not_known_either(catalog: UnsureCatalog, storage: Storage) -> None:
    """The first attempt may be what the second one was in conflict with."""
    catalog.writes = ["late"]
    catalog.before_read = lambda: setattr(catalog, "always", LOST)
    with pytest.raises(CommitUnknown):
        run(catalog, storage, "append", A)
    assert catalog.tables["orders"].status.snapshot.id == 1


def test_a_commit_that_was_followed_is_found(catalog: UnsureCatalog, storage: Storage) -> None:
    """Another load went on top of ours before we looked, and the table keeps no older snapshots."""
    few = SPEC.model_copy(update={"retention": Retention(snapshots=0)})
    for others, mode in ((1, "append"), (1, "overwrite"), (2, "append")):
        table = replace(catalog.tables["orders"], spec=few, status=catalog.tables["orders"].status.model_copy(
            update={"snapshot": None, "history": ()}))  # fmt: skip
        catalog.tables["orders"] = table
        catalog.writes = ["apply"]
        catalog.before_read = lambda count=others, of=mode: follow(catalog, storage, count, of)
        assert run(catalog, storage, "append", A).snapshot.id == 1
        assert committed_paths(catalog, storage).count(A.path) == (mode == "append")


def follow(catalog: UnsureCatalog, storage: Storage, count: int, mode: Mode) -> None:
    """Another loader's commits."""
    catalog.before_read = lambda: None
    for number in range(count):
        run(catalog, storage, mode, data_file(f"0000010{number}"))


def test_a_commit_that_later_ones_hide_is_not_known(catalog: UnsureCatalog, storage: Storage) -> None:
    """Two overwrites since: nothing says any more whether ours was among them."""
    few = SPEC.model_copy(update={"retention": Retention(snapshots=0)})
    catalog.tables["orders"] = replace(catalog.tables["orders"], spec=few)
    catalog.writes = ["drop"]
    catalog.before_read = lambda: follow(catalog, storage, 3, "overwrite")
    with pytest.raises(CommitUnknown, match="the API server said: snapshot 3 is there"):
        run(catalog, storage, "append", A)


def test_an_overwrite_that_was_overtaken_lost(catalog: UnsureCatalog, storage: Storage) -> None:
    """Its lost answer hid a conflict."""
    catalog.writes = ["drop"]
    catalog.before_read = lambda: follow(catalog, storage, 1, "append")
    with pytest.raises(LoadConflict, match="lost: it began on snapshot 0, and snapshot 1 was committed"):
        run(catalog, storage, "overwrite", B)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["apply", "drop", "late"]), max_size=6),
    st.lists(st.sampled_from([LOST, NoAnswer("refused")]), max_size=6),
    st.integers(0, 2),
)
def test_whatever_is_lost_rows_are_loaded_once(writes: list[str], reads: list[Exception], others: int) -> None:
    """Success means that the rows are there once; other loads' rows stay."""
    catalog, storage = UnsureCatalog(), Storage()
    catalog.add_table("orders", SPEC, str(uuid.uuid4()))
    run(catalog, storage, "append", C)
    catalog.writes, catalog.reads = list(writes), list(reads)

    def follow_quietly() -> None:
        scripts, catalog.writes = catalog.writes, []
        follow(catalog, storage, others, "append")
        catalog.writes = scripts

    catalog.before_read = follow_quietly
    run(catalog, storage, "append", A)
    paths = committed_paths(catalog, storage)
    assert (paths.count(A.path), paths.count(C.path)) == (1, 1)
    assert len(paths) == len(set(paths))
