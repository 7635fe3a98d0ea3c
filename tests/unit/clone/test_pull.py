"""How a clone divides files among transfers, requests pieces of them, and ends."""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from colocation.clone.pull import CloneFailed, PulledFile, Puller, SmallFilesPuller, Source
from colocation.clone.pull_all import BATCH_FILES, SMALL_BYTES, Pullers, Transfers, batches
from colocation.model.conditions import Reason
from colocation.model.file_transfer import FileFrame
from colocation.storage.incoming import IncomingFile
from colocation.storage.paths import TablePath
from colocation.storage.root import DataRoot
from tests.unit.storage.tables import data_path, on_disk, sha256_hex

TABLE = TablePath("shop", "orders-0a1b2c3d")
CONTENT = bytes(range(100))
FOLDER = ("one",)

LINES = TablePath("shop", "lineitem-0a1b2c3d")


class MadeUpSource:
    """Sends the first ``held_bytes`` of every file's content; remembers the requested ranges."""

    def __init__(self, held_bytes: int = len(CONTENT)) -> None:
        self._held = CONTENT[:held_bytes]
        self.ranges: list[tuple[int | None, int | None]] = []

    @contextlib.contextmanager
    def get_file(
        self, _namespace: str, _directory: str, _path: str, start: int | None, end: int | None
    ) -> Iterator["MadeUpSource"]:
        """As ``AgentClient.get_file``."""
        self.ranges.append((start, end))
        yield self

    def chunks(self, _chunk_bytes: int) -> Iterator[bytes]:
        """As ``FileStream.chunks``, of the range requested last."""
        start, end = self.ranges[-1]
        if content := self._held[start:end]:
            yield content

    def get_files(self, _namespace: str, _directory: str, paths: tuple[str, ...]) -> Iterator[FileFrame]:
        """As ``AgentClient.get_files``."""
        yield from (FileFrame(path, self._held, "") for path in paths)

    def order(self, _turn: int) -> tuple[Source, ...]:
        """As ``Sources.order``."""
        return (Source("node-1", self),)

    def demote(self, _source: Source) -> None:
        """As ``Sources.demote``."""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[DataRoot]:
    """The target's data root."""
    opened = DataRoot(tmp_path, owns_ledger=False)
    yield opened
    opened.close()


def wanted(path: str, file_bytes: int | None = len(CONTENT)) -> PulledFile:
    return PulledFile(TABLE, path, sha256_hex(CONTENT), file_bytes, required=True)


@pytest.mark.parametrize(
    ("piece_bytes", "file_bytes", "ranges"),
    [
        pytest.param(None, 100, [(None, None)], id="no budget: whole"),
        pytest.param(40, 100, [(None, 40), (40, 80), (80, 100)], id="one piece after the other"),
        pytest.param(1000, 100, [(None, 100)], id="smaller than a piece"),
        pytest.param(40, None, [(None, None)], id="of unknown size: whole"),
    ],
)
def test_pieces(
    root: DataRoot, piece_bytes: int | None, file_bytes: int | None, ranges: list[tuple[int | None, int | None]]
) -> None:
    """A file arrives whole, whatever the pieces."""
    source = MadeUpSource()
    path = data_path(1)
    Puller(root, FOLDER, source, lambda _: None, lambda _: None, piece_bytes).pull(wanted(path, file_bytes))
    assert source.ranges == ranges
    assert on_disk(root, TABLE, path).read_bytes() == CONTENT


def test_a_source_that_sends_too_little_is_not_asked_for_ever(root: DataRoot) -> None:
    """Its file is too short: the clone fails, and publishes nothing."""
    puller = Puller(root, FOLDER, MadeUpSource(held_bytes=50), lambda _: None, lambda _: None, 40)
    with pytest.raises(CloneFailed, match="no source gave"):
        puller.pull(wanted(data_path(1)))
    assert not on_disk(root, TABLE, data_path(1)).exists()


def test_wrong_bytes_are_no_progress(root: DataRoot) -> None:
    """What turned out to be damaged is taken back, so that a clone that never ends does not look finished."""
    events: list[int] = []
    damaged = PulledFile(TABLE, data_path(1), "00" * 32, len(CONTENT), required=True)
    with pytest.raises(CloneFailed, match="the content that arrived is"):
        Puller(root, FOLDER, MadeUpSource(), lambda _: None, events.append).pull(damaged)
    assert sum(events) == 0
    assert len(CONTENT) in events


def test_more_bytes_than_the_file_has_are_not_resumed(root: DataRoot) -> None:
    """An earlier attempt has left them: the file is pulled from its beginning."""
    source, pulled = MadeUpSource(), wanted(data_path(1))
    with IncomingFile(root, (*FOLDER, "files"), pulled.incoming_name) as incoming:
        incoming.write(CONTENT + b"more")
    puller = Puller(root, FOLDER, source, lambda _: None, lambda _: None)
    assert puller.received_bytes(pulled) == 0
    puller.pull(pulled)
    assert source.ranges == [(None, None)]


def test_every_small_file_is_progress(root: DataRoot) -> None:
    """Otherwise many batches at a small budget would look like a stuck clone."""
    events: list[int] = []
    paths = [data_path(1, load=str(number)) for number in range(3)]
    with ThreadPoolExecutor(1) as syncs:
        source = MadeUpSource()
        puller = SmallFilesPuller(root, FOLDER, source, syncs, lambda count: events.append(-count), events.append)
        assert puller.pull([wanted(path) for path in paths], 0) == []
    assert events == [-100, 100] * 3
    assert all(on_disk(root, TABLE, path).read_bytes() == CONTENT for path in paths)


def file(name: str, file_bytes: int | None, table: TablePath = TABLE, required: bool = True) -> PulledFile:
    """A file to pull."""
    return PulledFile(table, name, "00" * 32, file_bytes, required)


@pytest.mark.parametrize(
    ("files", "sizes"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([file("a", SMALL_BYTES + 1), file("b", 1), file("c", 1)], [1, 2], id="large ones alone"),
        pytest.param([file("a", None), file("b", None)], [1, 1], id="unknown sizes alone"),
        pytest.param([file("a", 1), file("b", 1, LINES), file("c", 1)], [1, 2], id="one table at a time"),
        pytest.param([file("a", 1), file("b", 1), file("c", 1, required=False)], [1, 2], id="required ones apart"),
        pytest.param([file(str(n), 1) for n in range(BATCH_FILES + 1)], [1, BATCH_FILES], id="so many files"),
        pytest.param([file(str(n), SMALL_BYTES) for n in range(9)], [1, 8], id="so many bytes"),
    ],
)
def test_batches(files: list[PulledFile], sizes: list[int]) -> None:
    """Every file is in one batch, and batches are bounded."""
    made = list(batches(files))
    assert sorted(map(len, made)) == sizes
    assert sorted(one.path for batch in made for one in batch) == sorted(one.path for one in files)


class FakePuller:
    """Pulls nothing, and fails for some files."""

    def __init__(self, failing: set[str], from_batches: set[str]) -> None:
        self._failing = failing
        self._from_batches = from_batches
        self.pulled: list[str] = []

    def pull(self, what: PulledFile | list[PulledFile], turn: int) -> list[PulledFile]:
        """As ``Puller`` and ``SmallFilesPuller``."""
        if isinstance(what, list):
            return [one for one in what if one.path not in self._from_batches]
        if what.path in self._failing:
            raise CloneFailed(Reason.CLONE_FAILED, what.path)
        self.pulled.append(what.path)
        return []


def transfers(source: FakePuller) -> tuple[Transfers, threading.Event]:
    """Transfers from a source, and what stops them."""
    stop = threading.Event()
    return Transfers(Pullers(source, source), stop), stop


def test_files_that_a_batch_lacks_are_pulled_alone() -> None:
    """A file that is damaged on the batch's source, or too large there, costs one more request."""
    source = FakePuller(failing=set(), from_batches={"a", "b"})
    assert transfers(source)[0].run([file(name, 1) for name in "abcd"]) == 4
    assert sorted(source.pulled) == ["c", "d"]


def test_a_file_that_is_not_required_may_be_missing() -> None:
    """The clone continues without it."""
    source = FakePuller(failing={"a"}, from_batches=set())
    assert transfers(source)[0].run([file("a", 1, required=False), file("b", None)]) == 1


def test_the_first_failure_ends_all_transfers() -> None:
    """It is raised, and waiting transfers are stopped."""
    running, stop = transfers(FakePuller(failing={"b"}, from_batches=set()))
    with pytest.raises(CloneFailed, match="b"):
        running.run([file(name, None) for name in "abc"])
    assert stop.is_set()
