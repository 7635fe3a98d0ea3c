"""Progress of clones on this node: written by the clone Job, read by the agent."""

import logging
import os

from colocation.model.agent import CloneProgress
from colocation.model.clone import clone_directory

from .errors import InvalidPath, NotHeld
from .folders import FILE_MODE, UNREADABLE_MEDIUM, open_regular_file
from .root import CLONES, DataRoot

PROGRESS_FILE = "progress.json"
MAX_PROGRESS_BYTES = 1 << 16

_log = logging.getLogger(__name__)


def write_progress(root: DataRoot, progress: CloneProgress) -> None:
    """Replace a clone's progress file in one step; a reader sees the old or the new one."""
    segments = clone_directory(progress.namespace, progress.group, progress.bucket).split("/")
    with root.folder(segments, create=True) as folder:
        name = f".{PROGRESS_FILE}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, FILE_MODE, dir_fd=folder), "w") as file:
            file.write(progress.model_dump_json(by_alias=True))
        os.rename(name, PROGRESS_FILE, src_dir_fd=folder, dst_dir_fd=folder)


def read_progress(root: DataRoot) -> tuple[CloneProgress, ...]:
    """The progress of every clone that lies below ``.incoming``, by folder name; without those that cannot be read."""
    found = []
    for name in root.names(CLONES):
        try:
            with root.folder((*CLONES, name)) as folder, os.fdopen(open_regular_file(folder, PROGRESS_FILE)) as file:
                found.append(CloneProgress.model_validate_json(file.read(MAX_PROGRESS_BYTES)))
        except NotHeld:
            continue  # it has just begun or just ended
        except (InvalidPath, ValueError) as error:
            _log.warning("progress of clone %s cannot be read: %s", name, error)
        except OSError as error:
            if error.errno not in UNREADABLE_MEDIUM:
                raise
            _log.warning("progress of clone %s cannot be read: %s", name, error)
    return tuple(found)
