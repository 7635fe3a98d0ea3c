"""Counts and sizes for people: one of a thing is no plural, and nothing that is there is ``0.0``."""

import re
from pathlib import Path

import pytest

from colocation import cli
from colocation.cli.terminal.output import size

NOUNS = ("bucket", "byte", "core", "executor", "file", "group", "move", "node", "partition", "replica", "row", "table")
COUNT_WITH_PLURAL = re.compile(rf"[{{][^{{}}]*[}}] ({'|'.join(NOUNS)})s\b")
SOURCES = sorted(Path(cli.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_no_count_stands_before_a_fixed_plural(source: Path) -> None:
    """``counted`` chooses the form. Of a thousand rows a load shows ``3 of 1,000 rows``, which is never one."""
    lines = [line.strip() for line in source.read_text().splitlines() if COUNT_WITH_PLURAL.search(line)]
    assert [line for line in lines if " of {write." not in line] == []


@pytest.mark.parametrize(("count", "text"), [
    (None, "-"), (0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (2**20 - 1, "1.0 MiB"),
    (10 * 2**20, "10.0 MiB"), (2**60, "1024.0 PiB"),
])  # fmt: skip
def test_sizes_have_the_unit_that_fits(count: int | None, text: str) -> None:
    """One decimal, and never more than 1023 of a unit that has a larger one."""
    assert size(count) == text
