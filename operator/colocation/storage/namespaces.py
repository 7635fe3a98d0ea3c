"""The folders of namespaces, which Spark's pods have mounted: each is this process's own, or becomes so.

A pod that starts on a node before anything of its namespace was written there has the folder made by the kubelet, as
root's. It is empty then, and stays so: pods may only read. An own folder takes its place. Pods that have the old one go
on to see an empty folder, and read from agents; so the agent makes folders early, as soon as it is asked about a
namespace.
"""

import errno
import logging
import os
import stat
import threading

from .folders import FOLDER_MODE, make_folder

_log = logging.getLogger(__name__)
_one_at_a_time = threading.Lock()


def own_folder(root: int, namespace: str) -> bool:
    """Make the folder of a namespace below the descriptor ``root``, or take over an empty one of somebody else's.

    One into which others have put something stays theirs: False. Whoever writes there meets the error, and so does who
    finds no folder but something else.

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
                pass  # another process of ours is just as far
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return False
            _log.info("the empty folder of namespace %s was user %d's, and is made anew", namespace, status.st_uid)
        _make(root, namespace)
    return True


def _make(root: int, namespace: str) -> None:
    """Make the folder, durably, if it is not there."""
    if not make_folder(root, namespace):
        return
    descriptor = os.open(namespace, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
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
