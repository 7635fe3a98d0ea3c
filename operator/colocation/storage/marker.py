"""The marker of a data root: a small file that says which disk this is.

It is written when a disk is first adopted, and never again. The operator remembers its id per node: an empty mount
point, or another disk, has another id or none, and is not taken for the disk that held the replicas.
"""

import os
import secrets
from datetime import UTC, datetime

from pydantic import Field, ValidationError

from colocation.model.agent import MARKER_FILE
from colocation.model.base import Observed

from .errors import NotHeld, StorageError
from .folders import open_regular_file, replace_file

MAX_MARKER_BYTES = 1 << 16


class Marker(Observed):
    """``id`` names the disk; the rest tells people where it came from."""

    id: str = Field(pattern="^[0-9a-f]{16}$")
    node: str = Field("", description="Of the agent that adopted the disk.")
    device: str = Field("", description="'<major>:<minor>' of the file system then.")
    file_system: str = Field("", description="The file system's own id then, in hex; see statvfs(3).")
    adopted_at: str = Field("", description="RFC 3339, UTC, by the node's clock.")


class MarkerDamaged(StorageError):
    """There is a marker, but it does not say which disk this is."""


class WrongDisk(StorageError):
    """The data root is not the disk that was expected there."""


def read_marker(folder: int) -> Marker | None:
    """The marker in an open data root; None = there is none.

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
            f"{MARKER_FILE} does not say which disk this is: {error}; check the file system, then remove the file"
        ) from error


def adopt(folder: int, node: str) -> Marker:
    """Give a disk without a marker one, durably.

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
    """Check that a data root is the disk with this id, before anything is written there.

    Raises:
        WrongDisk: it is another one, or has no marker.
        OSError: it cannot be read.
    """
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        marker = read_marker(folder)
    except MarkerDamaged as error:
        raise WrongDisk(str(error)) from error
    finally:
        os.close(folder)
    if marker is None or marker.id != disk_id:
        found = f"disk {marker.id}" if marker else "a folder without a marker"
        raise WrongDisk(f"{path} is {found}, and not disk {disk_id}; mount the disk, or see 'colocation accept-disk'")
