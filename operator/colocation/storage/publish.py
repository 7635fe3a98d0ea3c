"""Publication: a verified file appears under its path at once and for good, or not at all.

Order: content synced (``IncomingFile.settle``), ledger written, link or rename, folder synced. Killed anywhere in
between, nothing wrong is visible and a repetition ends the same.
"""

import contextlib
import os
from collections.abc import Callable, Sequence

from .announcements import announce
from .errors import ContentConflict, DigestDiffers, NotHeld
from .hashing import identity_of
from .incoming import IncomingFile, room_errors
from .ledger import LedgerEntry
from .paths import TablePath, file_segments, sha256_of_manifest_path
from .root import DataRoot
from .verification import content_of

MAX_ATTEMPTS = 5

ExpectedContent = Callable[[TablePath, str], str | None]
"""The digest that a live manifest gives for a file; None when none names it."""


def replace_published(root: DataRoot, table: TablePath, path: str, incoming: IncomingFile, entry: LedgerEntry) -> None:
    """Publish a settled file, over whatever lies under its path (a damaged file, or nothing), and tell the agent.

    Raises:
        InvalidPath: the path is not allowed.
    """
    _publish(root, table, path, incoming, entry, os.rename)
    announce(root, table, {path: entry})


def publish_once(
    root: DataRoot, table: TablePath, path: str, incoming: IncomingFile, sha256: str, expected: ExpectedContent
) -> bool:
    """Publish a received file unless it is there already; whether it is new. ``incoming`` is gone afterwards.

    A file whose content is not the one its manifest names may be replaced by the one that is.

    Raises:
        DigestDiffers: what was received is not ``sha256``.
        ContentConflict: another content is published under this path.
        InvalidPath: the path is not allowed.
    """
    entry = incoming.settle()
    try:
        if entry.sha256 != sha256:
            raise DigestDiffers(
                f"{path}: announced sha-256 {sha256}, received {entry.identity.bytes} bytes with {entry.sha256}; "
                "send it again"
            )
        with root.lock_of(table):
            if _confirmed(root, table, path, sha256):
                return False
            damaged = _is_held(root, table, path)
            if damaged and wanted_content(table, path, expected) != sha256:
                raise ContentConflict(
                    f"{path} is published with another content than {sha256}; published files never change: "
                    "use a new file name"
                )
            _publish(root, table, path, incoming, entry, os.rename if damaged else os.link)
            return True
    finally:
        incoming.discard()


def is_published(root: DataRoot, table: TablePath, path: str, sha256: str) -> bool:
    """Whether this content is published under the path. If so its age starts anew, so no collection takes it.

    Raises:
        InvalidPath: the path is not allowed.
    """
    with root.lock_of(table):
        return _confirmed(root, table, path, sha256)


def wanted_content(table: TablePath, path: str, expected: ExpectedContent) -> str | None:
    """The digest that the file must have, if anything says so: a manifest's own name, or a live manifest."""
    return sha256_of_manifest_path(path) or expected(table, path)


def _confirmed(root: DataRoot, table: TablePath, path: str, sha256: str) -> bool:
    try:
        with root.file(table, path) as descriptor:
            held = content_of(root, table, path, descriptor)
            if held.sha256 != sha256:
                return False
            os.utime(descriptor)
            root.ledger.record(table, path, held._replace(identity=identity_of(os.fstat(descriptor))))
            return True
    except NotHeld:
        return False


def _is_held(root: DataRoot, table: TablePath, path: str) -> bool:
    try:
        with root.file(table, path):
            return True
    except NotHeld:
        return False


def sync_or_take_back(root: DataRoot, table: TablePath, paths: Sequence[str], folder: int) -> None:
    """Make the names of files in one folder durable. One whose name may not be is no replica: it goes, so that whoever
    sends it again does not find it.
    """
    try:
        os.fsync(folder)
    except OSError as error:
        for path in paths:
            with contextlib.suppress(OSError):
                os.unlink(path.rpartition("/")[2], dir_fd=folder)
        root.ledger.forget(table, paths)
        root.note_fault(error)
        raise


def _publish(
    root: DataRoot,
    table: TablePath,
    path: str,
    incoming: IncomingFile,
    entry: LedgerEntry,
    place: Callable[..., None],
) -> None:
    segments = (*table, *file_segments(path))
    with root.folder(incoming.folder) as source, room_errors():
        root.ledger.record(table, path, entry)
        for _ in range(MAX_ATTEMPTS):
            with root.folder(segments[:-1], create=True) as target:
                try:
                    place(incoming.name, segments[-1], src_dir_fd=source, dst_dir_fd=target)
                except FileNotFoundError:
                    continue  # a deletion in another process removed the folder while it was empty
                root.note_change(table)
                sync_or_take_back(root, table, [path], target)
                return
    raise NotHeld(f"{path} could not be published: its folder was removed {MAX_ATTEMPTS} times; try again")
