"""The recycle bin: dropped tables wait there, come back, or are purged. All steps may be repeated.

A folder of the bin is named ``<namespace>.<directory>.<unix time>``. A file of that name with ``.json`` holds for how
long it is kept, and for how long it has been kept as far as agents have seen on clocks that do not jump. The time in
the name is for people, and keeps names distinct.
"""

import contextlib
import json
import logging
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from colocation.model.names import RECYCLE_DIRECTORY

from .ages import older
from .errors import InvalidPath, NotHeld
from .folders import FILE_MODE, names_in, open_regular_file, remove_tree
from .inventory import Inventory
from .ledger import identity_of
from .paths import TablePath, is_file_path, is_namespace, is_table_directory
from .root import DataRoot

DEFAULT_KEEP_SECONDS = 86400
"""For a recycled folder whose retention cannot be read."""

COMPARED_BYTES = 1 << 20
WRITE_SECONDS = 60.0
WRITE_SHARE = 0.02
"""How long a folder has been kept is recorded after this share of its retention, but at most once a minute."""

_RETENTION_SUFFIX = ".json"
_NEW_SUFFIX = ".new.json"
_log = logging.getLogger(__name__)


class Recycled(NamedTuple):
    """A folder in the bin, and its name there."""

    table: TablePath
    recycled_at: int
    name: str


def recycle(inventory: Inventory, table: TablePath, keep_seconds: int) -> None:
    """Move a table's folder into the recycle bin; a missing folder is no error."""
    root = inventory.root
    with root.folder((RECYCLE_DIRECTORY,), create=True) as recycled, root.lock_of(table):
        name = _free_name(recycled, table, int(root.clock()))
        try:
            with root.folder((table.namespace,)) as namespace:
                os.stat(table.directory, dir_fd=namespace, follow_symlinks=False)
                _write_retention(recycled, name, _Retention(keep_seconds))
                os.rename(table.directory, name, src_dir_fd=namespace, dst_dir_fd=recycled)
                os.fsync(namespace)
            os.fsync(recycled)
        except (FileNotFoundError, NotHeld):
            _log.info("table %s is not on this node; nothing to recycle", table)
    inventory.forget(table)


def restore(inventory: Inventory, dropped: TablePath, successor: TablePath) -> None:
    """Give a dropped table's files to the table that brings it back.

    They may be in the bin, or still in their place (the node was away when the table was dropped), or in several
    folders: a load that was running then keeps sending files, and re-creates the folder. The first folder becomes the
    successor's in one rename. From others, or if the successor has a folder already, it gets the files that it lacks;
    files that it has stay, and copies of them are removed. Missing folders are no error. A table may be its own
    successor: its drop was undone, as when etcd is restored from a copy in which it still exists.

    Raises:
        InvalidPath: the successor has another name; a table must not get another table's files.
    """
    root = inventory.root
    if (dropped.namespace, dropped.table) != (successor.namespace, successor.table):
        raise InvalidPath(f"{successor} cannot take over the files of {dropped}; allowed: a table of the same name")
    with (
        root.folder((RECYCLE_DIRECTORY,), create=True) as bin_folder,
        root.folder((dropped.namespace,), create=True) as live,
        contextlib.ExitStack() as locks,
    ):
        for table in sorted({dropped, successor}):
            locks.enter_context(root.lock_of(table))
        in_place = dropped != successor and dropped.directory in names_in(live)
        found = [_hand_over(root, live, (dropped.namespace, dropped.directory), successor)] if in_place else []
        in_bin = [one for one in recycled_tables(root) if one.table == dropped]
        for one in sorted(in_bin, key=lambda one: one.recycled_at, reverse=True):
            found.append(_hand_over(root, bin_folder, (RECYCLE_DIRECTORY, one.name), successor))
            if one.name not in names_in(bin_folder):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(one.name + _RETENTION_SUFFIX, dir_fd=bin_folder)
        os.fsync(live)
        os.fsync(bin_folder)
    if any(found):
        inventory.forget(dropped)
        inventory.forget(successor)


def _hand_over(root: DataRoot, parent: int, place: tuple[str, str], successor: TablePath) -> bool:
    """Give the folder in ``parent`` to the successor, whole, or the files that it lacks; whether it got any."""
    with root.folder((successor.namespace,)) as live:
        if successor.directory not in names_in(live):
            os.rename(place[-1], successor.directory, src_dir_fd=parent, dst_dir_fd=live)
            return True
    moved = False
    with root.folder(place) as top:
        for path, _, names, folder in os.fwalk(".", dir_fd=top):
            segments = tuple(path.split("/"))[1:]
            if ours := [name for name in names if is_file_path("/".join((*segments, name)))]:
                with root.folder((*successor, *segments), create=True) as target:
                    moved |= _move_missing(ours, folder, target)
        _remove_empty_folders(top)
    with contextlib.suppress(OSError):
        os.rmdir(place[-1], dir_fd=parent)
    return moved


def _move_missing(names: list[str], source: int, target: int) -> bool:
    """Move the files that the target lacks, durably, and remove those that it has; whether any was moved.

    A file of one name and another content stays: one of the two is damaged.
    """
    there = set(names_in(target))
    missing = set(names) - there
    for name in missing:
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
    if missing:
        os.fsync(target)
        os.fsync(source)
    for name in there.intersection(names):
        if _is_same(name, source, target):
            os.unlink(name, dir_fd=source)
    return bool(missing)


def _is_same(name: str, source: int, target: int) -> bool:
    """Whether both folders have the same bytes under a name."""
    try:
        with (
            os.fdopen(open_regular_file(source, name), "rb") as ours,
            os.fdopen(open_regular_file(target, name), "rb") as theirs,
        ):
            while content := ours.read(COMPARED_BYTES):
                if theirs.read(len(content)) != content:
                    return False
            return not theirs.read(1)
    except (NotHeld, InvalidPath, OSError) as error:
        _log.info("%s cannot be compared: %s", name, error)
        return False


def _remove_empty_folders(top: int) -> None:
    for _, folders, _, parent in os.fwalk(".", topdown=False, dir_fd=top):
        for name in folders:
            with contextlib.suppress(OSError):  # not empty
                os.rmdir(name, dir_fd=parent)


def recycled_tables(root: DataRoot) -> Iterator[Recycled]:
    """Every folder in the bin, by name."""
    for name in root.names((RECYCLE_DIRECTORY,)):
        namespace, _, rest = name.partition(".")
        directory, _, seconds = rest.rpartition(".")
        if seconds.isdigit() and is_namespace(namespace) and is_table_directory(directory):
            yield Recycled(TablePath(namespace, directory), int(seconds), name)


class _Retention(NamedTuple):
    """For how long a folder is kept, and for how long it has been kept at least."""

    keep_seconds: int
    kept_seconds: float = 0.0


class _Watched(NamedTuple):
    """A folder that this process saw: its retention then, and when it was first seen and last recorded."""

    retention: _Retention
    seen_at: float
    written_at: float


class Purge:
    """Deletes recycled tables whose retention is over.

    Only time that an agent has seen pass on a monotonic clock counts, so a wall clock that is set forward deletes
    nothing. The time is recorded now and then, never ahead of the truth: a restart keeps a folder a little longer, and
    no time passes while no agent runs. The folder of a wanted table stays: it should not be in the bin.

    Args:
        root: the data root.
        is_wanted: whether a table is a live one, as far as known.
    """

    def __init__(self, root: DataRoot, is_wanted: Callable[[TablePath], bool]) -> None:
        self._root = root
        self._is_wanted = is_wanted
        self._watched: dict[str, _Watched] = {}

    def run(self) -> list[TablePath]:
        """Delete what is due; returns the tables. What cannot be deleted stops nothing else.

        The retention is deleted last, so a kill loses nothing.
        """
        purged = []
        with self._root.folder((RECYCLE_DIRECTORY,), create=True) as recycled:
            names = names_in(recycled)
            self._remove_old_orphans(recycled, names)
            for name in names:
                try:
                    if name.endswith(_RETENTION_SUFFIX):
                        continue
                    if self._is_due(recycled, name) and _purge(self._root, recycled, name):
                        purged.append(_table_of(name))
                except OSError as error:
                    _log.warning("recycled %s cannot be deleted: %s", name, error)
        self._watched = {name: watched for name, watched in self._watched.items() if name in names}
        return purged

    def _remove_old_orphans(self, recycled: int, names: Sequence[str]) -> None:
        """Remove retentions without a folder (a kill in between) once they are old; a young one's folder may still
        come.
        """
        orphans = {}
        for name in names:
            if name.removesuffix(_RETENTION_SUFFIX) not in names:
                with contextlib.suppress(FileNotFoundError):  # a temporary one, just renamed
                    orphans[name] = identity_of(os.stat(name, dir_fd=recycled, follow_symlinks=False))
        for name in older(self._root.ages.of(RECYCLE_DIRECTORY, orphans), DEFAULT_KEEP_SECONDS):
            try:
                os.unlink(name, dir_fd=recycled)
            except OSError as error:
                _log.warning("recycled %s cannot be deleted: %s", name, error)

    def _is_due(self, recycled: int, name: str) -> bool:
        now = self._root.monotonic()
        watched = self._watched.get(name)
        if watched is None:
            watched = _Watched(_read_retention(recycled, name), now, now)
        keep_seconds, kept_before = watched.retention
        kept_seconds = kept_before + now - watched.seen_at
        if now - watched.written_at >= max(WRITE_SECONDS, keep_seconds * WRITE_SHARE):
            try:
                _write_retention(recycled, name, _Retention(keep_seconds, kept_seconds))
            except OSError as error:  # a full disk must not block the purge that frees it
                _log.warning("how long recycled %s has been kept cannot be recorded: %s", name, error)
            watched = watched._replace(written_at=now)
        self._watched[name] = watched
        return kept_seconds >= keep_seconds and not self._is_wanted(_table_of(name))


def _purge(root: DataRoot, recycled: int, name: str) -> bool:
    """Delete one folder, unless it was just restored."""
    with root.lock_of(_table_of(name)):
        try:
            if stat.S_ISDIR(os.stat(name, dir_fd=recycled, follow_symlinks=False).st_mode):
                remove_tree(recycled, name)
            else:
                os.unlink(name, dir_fd=recycled)  # a link planted in the table's place
        except FileNotFoundError:
            return False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name + _RETENTION_SUFFIX, dir_fd=recycled)
    return True


def _table_of(name: str) -> TablePath:
    """The table of a folder in the bin."""
    namespace, _, rest = name.partition(".")
    return TablePath(namespace, rest.rpartition(".")[0])


def _free_name(recycled: int, table: TablePath, seconds: int) -> str:
    """An unused name in the bin: a clock that was set back may give the same second again."""
    names = set(names_in(recycled))
    while (name := f"{table.namespace}.{table.directory}.{seconds}") in names:
        seconds += 1
    return name


def _write_retention(recycled: int, name: str, retention: _Retention) -> None:
    """Replace a retention in one step: a torn one would count as the default, which may be shorter."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    new = name + _NEW_SUFFIX
    try:
        with os.fdopen(os.open(new, flags, FILE_MODE, dir_fd=recycled), "w") as file:
            json.dump({"keepSeconds": retention.keep_seconds, "keptSeconds": int(retention.kept_seconds)}, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, name + _RETENTION_SUFFIX, src_dir_fd=recycled, dst_dir_fd=recycled)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=recycled)
        raise


def _read_retention(recycled: int, name: str) -> _Retention:
    try:
        with os.fdopen(open_regular_file(recycled, name + _RETENTION_SUFFIX)) as file:
            found = json.load(file)
            return _Retention(int(found["keepSeconds"]), max(0.0, float(found.get("keptSeconds", 0))))
    except (NotHeld, InvalidPath, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        _log.warning("recycled %s has no retention (%s); it is kept for %d s", name, error, DEFAULT_KEEP_SECONDS)
        return _Retention(DEFAULT_KEEP_SECONDS)
