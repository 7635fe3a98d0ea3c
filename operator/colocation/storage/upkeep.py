"""Work in the background that keeps reports true: hashing what is new, sweeping, scrubbing.

Each function does one bounded step and returns; threads and timing are the agent's.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from .attempts import all_attempted
from .folders import EXHAUSTED
from .hashing import unlimited
from .inventory import Inventory, TableInventory
from .root import DataRoot

SCRUB_BATCH_FILES = 100

_log = logging.getLogger(__name__)


def hash_unverified(inventory: Inventory, pace: Callable[[int], None]) -> int:
    """Hash the data files that nobody hashed yet (a returned node without its ledger); how many.

    What is damaged goes into the quarantine.

    Raises:
        OSError: a file cannot be read, or not be moved; all others are done.
    """
    hashed = 0
    with all_attempted() as attempt:
        for table in inventory.tables():
            for path in table.unverified():
                with attempt(f"to hash {path} of {table.table}"):
                    hashed += table.hash_file(path, pace=pace) is not None
            with attempt(f"to set damaged files of {table.table} aside"):
                table.set_damaged_aside()
    return hashed


def look(inventory: Inventory, pace: Callable[[int], None]) -> None:
    """Look at the folders of every table: notices files that people or other processes published or removed."""
    for table in inventory.tables():
        pace(0)
        _contained(table, table.look)


def sweep(inventory: Inventory, pace: Callable[[int], None] = unlimited) -> None:
    """Look at every file of every table: notices what was written in place."""
    for table in inventory.tables():
        pace(0)
        _contained(table, table.sweep)


def _contained(table: TableInventory, work: Callable[[], None]) -> None:
    """A table that cannot be read is passed over, unless that says nothing about the table."""
    try:
        work()
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        _log.warning("table %s cannot be read: %s", table.table, error)


class Scrubbed(NamedTuple):
    """What a scrub has read; zero files = none is due."""

    files: int
    bytes: int


class Backlog(NamedTuple):
    """What is to be scrubbed by now and is not."""

    files: int
    bytes: int


def scrub_backlog(root: DataRoot, interval_seconds: float) -> Backlog:
    """The files that were not hashed for longer than ``interval_seconds``."""
    now = root.clock()
    return Backlog(*root.ledger.backlog(now - interval_seconds, now))


def scrub_batch(
    root: DataRoot, inventory: Inventory, interval_seconds: float, pace: Callable[[int], None]
) -> Scrubbed:
    """Hash again, from the disk itself, some of the files that were not hashed for ``interval_seconds``.

    Oldest first, so that over one interval every file is read once. One that cannot be read counts as not hashed, which
    its report says, and is left to ``hash_unverified``, which fails for as long as that is so.
    """
    now = root.clock()
    due = root.ledger.oldest(SCRUB_BATCH_FILES, now - interval_seconds, now)
    read = []
    for row in due:
        table = inventory.table(row.table)
        try:
            entry = table.hash_file(row.path, always=True, pace=pace, past_cache=True)
        except OSError as error:
            if error.errno in EXHAUSTED:
                raise
            _log.warning("%s of %s cannot be read and counts as not hashed: %s", row.path, row.table, error)
            table.forget_content(row.path)
            continue
        if entry is None:
            root.ledger.forget(row.table, [row.path])  # it is gone; should it return, it is hashed then
        else:
            read.append(entry.identity.bytes)
    return Scrubbed(len(read), sum(read))
