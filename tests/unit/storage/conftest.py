"""Fixtures: an empty data root with a clock that tests move."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from colocation.storage.root import DataRoot


@dataclass
class Clock:
    """A wall clock and a monotonic one, moved by hand. The wall clock starts some seconds after the files of a test."""

    now: float = field(default_factory=lambda: time.time() + 5)
    elapsed: float = 1000.0

    def __call__(self) -> float:
        return self.now

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self.elapsed

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds
        self.elapsed += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock; no time passes."""
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    """The data root's clock."""
    return Clock()


@pytest.fixture
def root(tmp_path: Path, clock: Clock) -> Iterator[DataRoot]:
    """An empty data root; no test leaves a file or folder of it open."""
    (tmp_path / "root").mkdir()
    opened = DataRoot(tmp_path / "root", clock, clock.monotonic)
    yield opened
    opened.close()
    assert open_files(opened.path) == []


def open_files(folder: Path) -> list[Path]:
    """The files and folders in a folder that this process has open, and the folder itself."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # other threads close theirs meanwhile
            found.append(descriptor.readlink())
    return [one for one in found if folder in (one, *one.parents)]
