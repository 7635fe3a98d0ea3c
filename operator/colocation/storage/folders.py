"""Opens folders and files below the data root one step at a time, never through a symbolic link.

Each step is an ``openat`` with ``O_NOFOLLOW``: a link that another process plants cannot lead out of the root, even
between a check and its use.
"""

import contextlib
import errno
import logging
import os
import shutil
import stat
import threading
from collections.abc import Iterator, Sequence

from .errors import InvalidPath, NotHeld

FOLDER_MODE = 0o755
FILE_MODE = 0o644
"""World-readable: Spark executors read local replicas under another user id, through a read-only mount."""

ROOT_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
"""To open a data root; its path may lead through links."""
FOLDER_FLAGS = ROOT_FLAGS | os.O_NOFOLLOW
"""To open a folder below it."""
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""O_NONBLOCK: opening a planted FIFO must not block."""

_log = logging.getLogger(__name__)
_one_at_a_time = threading.Lock()


@contextlib.contextmanager
def opened_folder(root: int, segments: Sequence[str], create: bool = False) -> Iterator[int]:
    """Open the folder ``segments`` below the descriptor ``root``; the descriptor is closed on leaving.

    ``create`` makes missing folders durably.

    Raises:
        NotHeld: a folder is missing.
        InvalidPath: a step is not a plain name, or is a symbolic link or no folder.
    """
    current = os.open(".", FOLDER_FLAGS, dir_fd=root)  # not dup: listings must not share one offset
    try:
        for position, name in enumerate(segments):
            if name in ("", ".", "..") or "/" in name or "\0" in name:
                raise InvalidPath(f"{name!r} is not allowed as a folder's name; allowed: a plain name")
            following = _open_step(current, segments[: position + 1], name, create)
            os.close(current)
            current = following
        yield current
    finally:
        os.close(current)


def _open_step(parent: int, so_far: Sequence[str], name: str, create: bool) -> int:
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=parent)
    except FileNotFoundError as error:
        if not create:
            raise NotHeld(f"no folder {'/'.join(so_far)}") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            path = "/".join(so_far)
            raise InvalidPath(f"{path} is a symbolic link or no folder; only folders are allowed") from error
        raise
    make_folder(parent, name)
    descriptor = _open_step(parent, so_far, name, create=False)
    os.fchmod(descriptor, FOLDER_MODE)  # whatever the umask
    return descriptor


def make_folder(parent: int, name: str) -> bool:
    """Make a folder durably in the descriptor ``parent``; False if it exists. The umask decides its mode.

    Raises:
        OSError: it cannot be made, or its name may not be durable and was removed again.
    """
    try:
        os.mkdir(name, FOLDER_MODE, dir_fd=parent)
    except FileExistsError:
        return False
    try:
        os.fsync(parent)
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=parent)  # later callers would assume that it is durable
        raise
    return True


def open_regular_file(folder: int, name: str) -> int:
    """Open the regular file ``name`` in ``folder`` for reading.

    Raises:
        NotHeld: there is none.
        InvalidPath: it is a symbolic link or no regular file.
    """
    try:
        descriptor = os.open(name, _READ_FLAGS, dir_fd=folder)
    except FileNotFoundError as error:
        raise NotHeld(f"no file {name}") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise InvalidPath(f"{name} is a symbolic link or special; only regular files are allowed") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InvalidPath(f"{name} is not a regular file; only regular files are allowed")
    return descriptor


def replace_file(folder: int, name: str, content: bytes, mode: int = FILE_MODE) -> None:
    """Replace a small file in an open folder durably: after a crash ``name`` has the old or the whole new content.

    Raises:
        OSError: it cannot be written, and the old file remains; or its new name cannot be synced, and no file remains.
    """
    new = f"{name}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    in_doubt = [new]
    try:
        with os.fdopen(os.open(new, flags, mode, dir_fd=folder), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        in_doubt = [name]
        os.fsync(folder)
    except OSError:
        for one in in_doubt:
            with contextlib.suppress(OSError):
                os.unlink(one, dir_fd=folder)
        raise


def remove_tree(folder: int, name: str) -> None:
    """Remove the folder ``name`` in ``folder`` with all below it; what cannot be removed stops nothing else.

    Raises:
        OSError: the first error; everything else is gone.
    """
    failed: list[BaseException] = []

    def note(_function: object, _path: str, failure: tuple[object, BaseException, object]) -> None:
        if not failed:
            failed.append(failure[1])

    shutil.rmtree(name, dir_fd=folder, onerror=note)
    if failed:
        raise failed[0]


def names_in(folder: int) -> list[str]:
    """The names in an open folder, sorted."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries)


def own_folder(root: int, namespace: str) -> bool:
    """Make the folder of a namespace below the descriptor ``root``, or replace an empty one of another user.

    If a pod starts on a node before anything of its namespace was written there, the kubelet makes the folder, as root.
    Pods may only read, so it stays empty, and this process replaces it by its own. Pods that mounted the old one keep
    seeing an empty folder and read from agents; so the agent makes folders early, once it is asked about a namespace.

    Returns False for another user's folder that is not empty, which stays. Writers get the error then, as for a name
    that is no folder.

    Raises:
        OSError: the disk takes no writes.
    """
    if not _needs_work(root, namespace):
        return True
    with _one_at_a_time:
        status = _status(root, namespace)
        if status is not None and _is_foreign(status):
            try:
                os.rmdir(namespace, dir_fd=root)
            except FileNotFoundError:
                pass  # another process of ours removed it
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return False
            _log.info("replacing the empty folder of namespace %s, which belonged to user %d", namespace, status.st_uid)
        _make_own(root, namespace)
    return True


def _make_own(root: int, namespace: str) -> None:
    """Make the folder durably if it is missing."""
    if not make_folder(root, namespace):
        return
    descriptor = os.open(namespace, FOLDER_FLAGS, dir_fd=root)
    try:
        os.fchmod(descriptor, FOLDER_MODE)  # whatever the umask: readers have another user id
    finally:
        os.close(descriptor)


def _needs_work(root: int, namespace: str) -> bool:
    status = _status(root, namespace)
    return status is None or _is_foreign(status)


def _is_foreign(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) and status.st_uid != os.geteuid()


def _status(root: int, namespace: str) -> os.stat_result | None:
    try:
        return os.stat(namespace, dir_fd=root, follow_symlinks=False)
    except FileNotFoundError:
        return None
