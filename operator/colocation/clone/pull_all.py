"""Pulls all files of a clone, several at a time: while one waits for the disk, others use network and processors.

Large files are pulled alone and resumed, small ones in batches. Files that a batch's source does not send whole are
pulled alone, from every source in turn. The first failure of a required file ends the clone.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import NamedTuple

from colocation.storage.paths import TablePath

from .pull import CloneFailed, PulledFile, Puller, SmallFilesPuller

TRANSFERS_AT_ONCE = 4
SYNCS_AT_ONCE = 16
"""A file system commits for many waiters together: measured on ext4, 16 waiters take a sixth of the time of one."""
SMALL_BYTES = 1 << 20
BATCH_BYTES = 8 << 20
BATCH_FILES = 128
"""With four transfers at a time, 512 open files and 32 MiB of contents."""

_log = logging.getLogger(__name__)


class Pullers(NamedTuple):
    """Pulls one file, and a batch."""

    one: Puller
    small: SmallFilesPuller


class Transfers:
    """Pulls files by several threads.

    Args:
        pullers: shared by the threads.
        stop: set to end all transfers.
    """

    def __init__(self, pullers: Pullers, stop: threading.Event) -> None:
        self._pullers = pullers
        self._stop = stop

    def run(self, files: Sequence[PulledFile]) -> int:
        """Pull all files; returns how many.

        Raises:
            CloneFailed: no source has the whole of a required file.
            NoRoom: the disk is full.
        """
        threads = ThreadPoolExecutor(TRANSFERS_AT_ONCE, "transfer")
        try:
            pulled = [threads.submit(self._pull, batch, turn) for turn, batch in enumerate(batches(files))]
            return _sum_of(pulled)
        except Exception:
            self._stop.set()
            threads.shutdown(cancel_futures=True)  # no thread may write after the clone has failed
            raise
        except BaseException:
            self._stop.set()
            threads.shutdown(wait=False, cancel_futures=True)  # interrupted: the process is about to exit
            raise
        finally:
            threads.shutdown(wait=False)

    def _pull(self, batch: Sequence[PulledFile], turn: int) -> int:
        left = batch
        pulled = 0
        if len(batch) > 1:
            left = self._pullers.small.pull(batch, turn)
            pulled = len(batch) - len(left)
        return pulled + sum(pull_one(self._pullers.one, file, turn) for file in left)


def pull_one(puller: Puller, file: PulledFile, turn: int = 0) -> bool:
    """Pull a file; whether it is here now. A file that is not required may be gone everywhere."""
    try:
        puller.pull(file, turn)
    except CloneFailed as error:
        if file.required:
            raise
        _log.warning("left out: %s", error)
        return False
    return True


def batches(files: Sequence[PulledFile]) -> Iterator[list[PulledFile]]:
    """The files as batches: a large file alone, small ones of a table together, required ones apart from others."""
    small: dict[tuple[TablePath, bool], list[PulledFile]] = defaultdict(list)
    small_bytes: dict[tuple[TablePath, bool], int] = defaultdict(int)
    for file in files:
        if file.bytes is None or file.bytes > SMALL_BYTES:
            yield [file]
            continue
        key = file.table, file.required
        small[key].append(file)
        small_bytes[key] += file.bytes
        if len(small[key]) >= BATCH_FILES or small_bytes[key] >= BATCH_BYTES:
            yield small.pop(key)
            del small_bytes[key]
    yield from small.values()


def _sum_of(pulled: Sequence["Future[int]"]) -> int:
    done, _ = wait(pulled, return_when=FIRST_EXCEPTION)
    return sum(future.result() for future in done)
