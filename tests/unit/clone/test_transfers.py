"""How a clone's files are divided among transfers, and how transfers end."""

import threading

import pytest

from colocation.clone.pull import CloneFailed, PulledFile
from colocation.clone.pull_all import BATCH_FILES, SMALL_BYTES, Pullers, Transfers, batches
from colocation.model.conditions import Reason
from colocation.storage.paths import TablePath

ORDERS, LINES = TablePath("shop", "orders-0a1b2c3d"), TablePath("shop", "lineitem-0a1b2c3d")


def file(name: str, file_bytes: int | None, table: TablePath = ORDERS, required: bool = True) -> PulledFile:
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


class Source:
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


def transfers(source: Source) -> tuple[Transfers, threading.Event]:
    """Transfers from a source, and what stops them."""
    stop = threading.Event()
    return Transfers(Pullers(source, source), stop), stop


def test_what_a_batch_leaves_is_pulled_alone() -> None:
    """A file that is damaged on the batch's source, or too large there, costs one more request."""
    source = Source(failing=set(), from_batches={"a", "b"})
    assert transfers(source)[0].run([file(name, 1) for name in "abcd"]) == 4
    assert sorted(source.pulled) == ["c", "d"]


def test_a_file_that_is_not_required_may_be_missing() -> None:
    """The clone goes on without it."""
    source = Source(failing={"a"}, from_batches=set())
    assert transfers(source)[0].run([file("a", 1, required=False), file("b", None)]) == 1


def test_the_first_failure_ends_all() -> None:
    """It is raised, and whatever waits is told to stop."""
    running, stop = transfers(Source(failing={"b"}, from_batches=set()))
    with pytest.raises(CloneFailed, match="b"):
        running.run([file(name, None) for name in "abc"])
    assert stop.is_set()
