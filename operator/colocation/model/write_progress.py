"""How far a load or compaction is: lines that its driver prints into its log for whoever waits."""

import json
from collections.abc import Iterable
from typing import Literal

from pydantic import ValidationError

from .base import Observed

PROGRESS_MARK = "COLOCATION_PROGRESS "


class WriteProgress(Observed):
    """A write on its way.

    ``reading``: the input is read and shuffled, ``tasks_done`` of ``tasks`` of the running stage; ``bytes`` were read.
    ``writing``: ``rows_done`` of ``rows`` are written; ``bytes`` of one replica.
    """

    phase: Literal["reading", "writing"]
    bytes: int
    tasks_done: int = 0
    tasks: int = 0
    rows_done: int = 0
    rows: int = 0

    @property
    def share(self) -> float:
        """Between 0 and 1, of the phase."""
        done, whole = (self.tasks_done, self.tasks) if self.phase == "reading" else (self.rows_done, self.rows)
        return min(1.0, done / whole) if whole else 0.0

    def line(self) -> str:
        """As it is printed."""
        return PROGRESS_MARK + json.dumps(self.to_json_dict())


def find_progress(log: str) -> WriteProgress | None:
    """The last that a driver's log tells; None when there is none, or a line that this release does not know."""
    for line in reversed(log.splitlines()):
        if PROGRESS_MARK in line:
            try:
                return WriteProgress.model_validate_json(line.split(PROGRESS_MARK, 1)[1])
            except ValidationError:
                return None
    return None


def without_progress(lines: Iterable[str]) -> list[str]:
    """Lines of a log that tell something else."""
    return [line for line in lines if PROGRESS_MARK not in line]
