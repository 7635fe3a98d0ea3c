"""Which disk the data root is on, and whether it is healthy.

A marker file names the disk. It is written when a disk is first adopted, and never again. The operator remembers its id
per node: an empty mount point or another disk has another id or none, and is not mistaken for the disk that held the
replicas.

A fault is one of four: the disk is not the adopted one (missing), it takes no writes (read-only), the probe's reads or
writes fail or hang (failing), or it is full. Periodic probes and failed writes report faults. An unreadable file is no
fault of the disk: that file is damaged.
"""

import errno
import logging
import os
import secrets
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, ValidationError

from colocation.model.agent import MARKER_FILE
from colocation.model.base import Observed
from colocation.model.conditions import Reason

from .errors import EXHAUSTED, NotHeld, StorageError
from .folders import ROOT_FLAGS, open_regular_file, replace_file
from .root import DataRoot

MAX_MARKER_BYTES = 1 << 16

PROBE_SECONDS = 10.0
FAILING_SECONDS = 600.0
"""A disk counts as failing for so long after the last failed write: the kernel reports a lost write once, and the next
write may succeed.
"""
HUNG_SECONDS = 60.0
"""A probe that has not ended by then has failed."""
MOUNTS = Path("/proc/self/mountinfo")

_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_log = logging.getLogger(__name__)


class Marker(Observed):
    """The marker file's content. ``id`` names the disk; the rest tells people where it came from."""

    id: str = Field(pattern="^[0-9a-f]{16}$")
    node: str = Field("", description="Node of the agent that adopted the disk.")
    device: str = Field("", description="'<major>:<minor>' of the file system then.")
    file_system: str = Field("", description="The file system's own id then, in hex; see statvfs(3).")
    adopted_at: str = Field("", description="RFC 3339, UTC, by the node's clock.")


class MarkerDamaged(StorageError):
    """The marker cannot be understood."""


class WrongDisk(StorageError):
    """The data root is not on the expected disk."""


def read_marker(folder: int) -> Marker | None:
    """The marker in an open data root; None if there is none.

    Raises:
        MarkerDamaged: it cannot be understood.
        OSError: it cannot be read.
    """
    try:
        descriptor = open_regular_file(folder, MARKER_FILE)
    except NotHeld:
        return None
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(MAX_MARKER_BYTES)
    try:
        return Marker.model_validate_json(content)
    except ValidationError as error:
        raise MarkerDamaged(
            f"{MARKER_FILE} does not name this disk: {error}; check the file system, then remove the file"
        ) from error


def adopt(folder: int, node: str) -> Marker:
    """Write a marker onto a disk without one, durably.

    Raises:
        OSError: it cannot be written.
    """
    status = os.fstat(folder)
    marker = Marker(
        id=secrets.token_hex(8),
        node=node,
        device=f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}",
        file_system=f"{os.fstatvfs(folder).f_fsid:x}",
        adopted_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    replace_file(folder, MARKER_FILE, marker.model_dump_json(by_alias=True).encode())
    return marker


def check_disk(path: str | os.PathLike[str], disk_id: str) -> None:
    """Check that a data root is on the disk with this id, before anything is written.

    Raises:
        WrongDisk: it is on another disk, or has no marker.
        OSError: it cannot be read.
    """
    folder = os.open(path, ROOT_FLAGS)
    try:
        marker = read_marker(folder)
    except MarkerDamaged as error:
        raise WrongDisk(str(error)) from error
    finally:
        os.close(folder)
    if marker is None or marker.id != disk_id:
        found = f"disk {marker.id}" if marker else "a folder without a marker"
        raise WrongDisk(f"{path} is {found}, and not disk {disk_id}; mount the disk, or see 'colocation accept-disk'")


class Fault(NamedTuple):
    """A fault of the disk; ``since`` in the root's monotonic seconds."""

    reason: Reason
    message: str
    since: float


def reason_of(error: OSError) -> Reason:
    """The fault that a failed write shows."""
    if error.errno in _READ_ONLY:
        return Reason.DISK_READ_ONLY
    return Reason.DISK_FULL if error.errno in _FULL else Reason.DISK_FAILING


class _Missing(Exception):
    """The data root is not on the adopted disk."""


class DiskHealth:
    """The health of the data root's disk. Safe to share between threads; only ``probe`` touches the disk.

    Args:
        root: the data root.
        node: the node's name.
        require_mount_point: whether the root has to be a file system of its own.
        mounts: the process's table of mounts, as in proc(5).
    """

    def __init__(
        self, root: DataRoot, node: str, require_mount_point: bool = False, mounts: Path = MOUNTS
    ) -> None:
        self._root = root
        self._node = node
        self._require_mount_point = require_mount_point
        self._mounts = mounts
        self._lock = threading.Lock()
        self._marker: Marker | None = None
        self._fault: Fault | None = None
        self._seen_at = 0.0
        self._probing_since: float | None = None
        self._replaced = False
        root.fault_listeners.append(self.note)

    @property
    def disk_id(self) -> str:
        """The marker's id; empty until it could be read or written."""
        return self._marker.id if self._marker else ""

    @property
    def needs_restart(self) -> bool:
        """Whether the data root's path is now another file system than the one this process has open."""
        return self._replaced

    @property
    def fault(self) -> Fault | None:
        """The current fault; None = healthy."""
        with self._lock:
            since = self._probing_since
            if since is not None and self._root.monotonic() - since >= HUNG_SECONDS:
                message = f"a small write has not reached the disk for {HUNG_SECONDS:.0f} s"
                return Fault(Reason.DISK_FAILING, message, since)
            return self._fault

    def note(self, error: OSError) -> None:
        """Record that a write or a sync of the root's files failed."""
        if error.errno not in EXHAUSTED:
            self._set(reason_of(error), f"a write failed: {error.strerror}")

    def probe(self) -> None:
        """Check that the disk is the adopted one and takes a small file."""
        with self._lock:
            self._probing_since = self._root.monotonic()
        try:
            self._look()
        except _Missing as error:
            self._set(Reason.DISK_MISSING, str(error))
        except (MarkerDamaged, StorageError) as error:
            self._set(Reason.DISK_FAILING, str(error))
        except OSError as error:
            if error.errno not in EXHAUSTED:
                reason = reason_of(error)
                self._set(reason, f"a small write to {self._root.path} failed: {error.strerror}")
        else:
            self._clear()
        finally:
            with self._lock:
                self._probing_since = None

    def _look(self) -> None:
        path, folder = self._root.path, self._root.descriptor
        self._check_place()
        if self._require_mount_point and not is_mount_point(path, self._mounts):
            raise _Missing(f"{path} is not the mount point of a disk; mount the disk, or do not require a mount point")
        marker = read_marker(folder)
        if self._marker is None:
            self._marker = marker or adopt(folder, self._node)
            if marker is None:
                _log.warning("disk %s at %s is adopted by node %s", self._marker.id, path, self._node)
            elif marker.node != self._node:
                _log.warning("disk %s at %s was adopted by node %s", marker.id, path, marker.node)
        elif marker is None:
            raise _Missing(f"{path}/{MARKER_FILE} is gone, which named disk {self._marker.id}")
        elif marker.id != self._marker.id:
            raise _Missing(f"{path} was disk {self._marker.id} when the agent started, and is disk {marker.id} now")
        self._root.check_writable()

    def _check_place(self) -> None:
        """Check that the open folder is still the one at the root's path."""
        path, here = self._root.path, os.fstat(self._root.descriptor)
        try:
            there = path.stat()
        except FileNotFoundError as error:
            raise _Missing(f"{path} is gone") from error
        self._replaced = (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino)
        if self._replaced:
            raise _Missing(f"another file system is mounted at {path} than at the start; the agent is restarted")

    def _set(self, reason: Reason, message: str) -> None:
        now = self._root.monotonic()
        with self._lock:
            before = self._fault
            self._seen_at = now
            since = before.since if before and before.reason == reason else now
            self._fault = Fault(reason, message, since)
        if before is None or before.reason != reason:
            _log.warning("%s: %s", reason, message)

    def _clear(self) -> None:
        with self._lock:
            fault, now = self._fault, self._root.monotonic()
            if fault is None or (fault.reason == Reason.DISK_FAILING and now - self._seen_at < FAILING_SECONDS):
                return
            self._fault = None
        _log.warning("the disk at %s is healthy again", self._root.path)


def is_mount_point(path: Path, mounts: Path = MOUNTS) -> bool:
    """Whether a whole file system is mounted at the path, not a folder of one (a bind mount of a hostPath).

    Args:
        path: an absolute path.
        mounts: the process's table of mounts, as in proc(5).
    """
    found = False
    for line in mounts.read_text().splitlines():
        fields = line.split(" ")
        if len(fields) > 4 and _unescaped(fields[4]) == str(path):
            found = fields[3] == "/"  # the last mount is on top
    return found


def _unescaped(field: str) -> str:
    for character in " \t\n\\":
        field = field.replace(f"\\{ord(character):03o}", character)
    return field
