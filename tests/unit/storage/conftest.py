"""Fixtures: an empty data root with a clock that tests move."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from colocation.storage.root import DataRoot


@dataclass
class Clock:
    """Seconds since the epoch, moved by hand. Begins far ahead of the files' modification times."""

    now: float = 4_000_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The data root's clock."""
    return Clock()


@pytest.fixture
def root(tmp_path: Path, clock: Clock) -> Iterator[DataRoot]:
    """An empty data root."""
    (tmp_path / "root").mkdir()
    opened = DataRoot(tmp_path / "root", clock)
    yield opened
    opened.close()
