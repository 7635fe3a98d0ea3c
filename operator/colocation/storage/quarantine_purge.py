"""What becomes of the quarantine: a file that turns out to be good goes back to its place, the others go in time.

A disk, or the way to it, may fail for some minutes, on all nodes at once, and what could not be read may be the only
copy. So a file is deleted only after a day, and only once the same content, verified, is in its place again or no live
manifest names it. While neither is so it is read again and again.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator

from colocation.model.names import QUARANTINE_DIRECTORY

from .ages import older
from .attempts import Attempts, all_attempted
from .errors import InvalidPath, NotHeld
from .folders import UNREADABLE_MEDIUM, open_regular_file
from .hashing import FileChanged, hash_descriptor, identity_of, unlimited
from .inventory import Inventory
from .ledger import LedgerEntry
from .paths import TablePath, file_segments
from .publish import sync_or_take_back
from .quarantine import delete, files_in_quarantine, place_of, remove_when_empty
from .root import DataRoot
from .verification import UNREADABLE, content_of

QUARANTINE_SECONDS = 86400
RETRY_SECONDS = 600
"""So often at most a file is read again."""

_log = logging.getLogger(__name__)


class QuarantinePurge:
    """One per agent; used by one thread at a time. ``pace``: see ``hashing.hash_descriptor``."""

    def __init__(self, root: DataRoot, inventory: Inventory, pace: Callable[[int], None] = unlimited) -> None:
        self._root = root
        self._inventory = inventory
        self._pace = pace
        self._read_at: dict[tuple[TablePath, str], float] = {}

    def run(self) -> int:
        """Put back what is good, delete what is not needed any more; how many files left the quarantine. Folders left
        empty go with them.

        Raises:
            OSError: a file cannot be deleted or put back; all others are.
        """
        left, last, self._read_at = 0, self._read_at, {}
        with all_attempted() as attempt:
            for namespace in self._root.names((QUARANTINE_DIRECTORY,)):
                with attempt(f"to purge the quarantine of {namespace}"), contextlib.suppress(InvalidPath):
                    for directory in self._root.names((QUARANTINE_DIRECTORY, namespace)):
                        left += self._purge_table(TablePath(namespace, directory), last, attempt)
        return left

    def _purge_table(self, table: TablePath, last: dict[tuple[TablePath, str], float], attempt: Attempts) -> int:
        left = 0
        lying = files_in_quarantine(self._root, table)
        old = older(self._root.ages.of(place_of(table), lying), QUARANTINE_SECONDS)
        for path in lying:
            if (table, path) in last:
                self._read_at[table, path] = last[table, path]
            with (
                attempt(f"to take {path} of {table} from the quarantine"),
                contextlib.suppress(InvalidPath),  # a link in the table's place: nothing is known
            ):
                left += self._take(table, path, is_old=path in old)
        with attempt(f"to remove the quarantine of {table}"):
            remove_when_empty(self._root, table)
        return left

    def _take(self, table: TablePath, path: str, is_old: bool) -> bool:
        """Whether the file has left the quarantine."""
        inventory = self._inventory.table_here(table)
        digests = inventory.live_digests(path) if inventory else frozenset[str]()
        if digests is None:
            return False
        held = self._content_in_place(table, path) if digests else None
        if digests and held is None:
            return self._put_back_if_good(table, path, digests)
        if is_old and (held is None or held in digests):
            delete(self._root, table, path)
            return True
        return False

    def _content_in_place(self, table: TablePath, path: str) -> str | None:
        """The digest of the file in the quarantined one's place; None = there is none."""
        try:
            with self._root.file(table, path) as descriptor:
                return content_of(self._root, table, path, descriptor).sha256
        except NotHeld:
            return None
        except (InvalidPath, FileChanged) as error:
            return str(error)  # it is no good one
        except OSError as error:
            if error.errno not in UNREADABLE_MEDIUM:
                raise
            return UNREADABLE

    def _put_back_if_good(self, table: TablePath, path: str, digests: frozenset[str]) -> bool:
        now = self._root.monotonic()
        if now - self._read_at.get((table, path), -RETRY_SECONDS) < RETRY_SECONDS:
            return False
        self._read_at[table, path] = now
        try:
            with self._opened(table, path) as (folder, name, descriptor):
                identity, sha256 = hash_descriptor(descriptor, self._pace, past_cache=True)
                if sha256 not in digests:
                    return False
                with self._root.lock_of(table):
                    if identity_of(os.stat(name, dir_fd=folder, follow_symlinks=False)) != identity:
                        return False
                    os.fsync(descriptor)
                    return self._put_back(table, path, folder, LedgerEntry(identity, sha256, self._root.clock()))
        except (NotHeld, InvalidPath, FileChanged, FileNotFoundError, FileExistsError) as error:
            _log.info("%s of %s stays in the quarantine: %s", path, table, error)
        except OSError as error:
            if error.errno not in UNREADABLE_MEDIUM:
                raise
            _log.warning("%s of %s stays in the quarantine, it cannot be read: %s", path, table, error)
        return False

    @contextlib.contextmanager
    def _opened(self, table: TablePath, path: str) -> Iterator[tuple[int, str, int]]:
        """Folder, name and descriptor of a file in the quarantine."""
        *folders, name = file_segments(path)
        with self._root.folder((QUARANTINE_DIRECTORY, *table, *folders)) as folder:
            descriptor = open_regular_file(folder, name)
            try:
                yield folder, name, descriptor
            finally:
                os.close(descriptor)

    def _put_back(self, table: TablePath, path: str, source: int, entry: LedgerEntry) -> bool:
        """Publish it as others are (see ``publish``), over nothing. The caller holds the table's lock."""
        *folders, name = file_segments(path)
        with self._root.folder((*table, *folders), create=True) as target:
            self._root.ledger.record(table, path, entry)
            os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
            self._root.note_change(table)
            sync_or_take_back(self._root, table, [path], target)
        delete(self._root, table, path)
        _log.warning("%s of %s can be read again, is good, and was put back from the quarantine", path, table)
        return True
