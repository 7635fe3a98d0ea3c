"""Work in the background that keeps reports true: hashing what is new, sweeping, scrubbing.

Each function does one bounded step and returns; threads and timing are the agent's.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from .inventory import Inventory
from .root import DataRoot

SCRUB_BATCH_FILES = 100

_log = logging.getLogger(__name__)


def hash_unverified(inventory: Inventory, pace: Callable[[int], None]) -> int:
    """Hash the data files that nobody hashed yet (a returned node without its ledger); how many."""
    hashed = 0
    for table in inventory.tables():
        for path in table.unverified():
            hashed += table.hash_file(path, pace=pace) is not None
    return hashed


def sweep(inventory: Inventory) -> None:
    """Look at every file of every table: notices what was written in place. Passes over a table that cannot be read."""
    for table in inventory.tables():
        try:
            table.sweep()
        except OSError as error:
            _log.warning("table %s could not be swept: %s", table.table, error)


class Scrubbed(NamedTuple):
    """What a scrub has read; zero files = none is due."""

    files: int
    bytes: int


def scrub_batch(
    root: DataRoot, inventory: Inventory, interval_seconds: float, pace: Callable[[int], None]
) -> Scrubbed:
    """Hash again, from the disk itself, some of the files that were not hashed for ``interval_seconds``.

    Oldest first, so that over one interval every file is read once.
    """
    due = root.ledger.oldest(SCRUB_BATCH_FILES, root.clock() - interval_seconds)
    read = []
    for row in due:
        entry = inventory.table(row.table).hash_file(row.path, always=True, pace=pace, past_cache=True)
        if entry is None:
            root.ledger.forget(row.table, [row.path])  # it is gone; should it return, it is hashed then
        else:
            read.append(entry.identity.bytes)
    return Scrubbed(len(read), sum(read))
