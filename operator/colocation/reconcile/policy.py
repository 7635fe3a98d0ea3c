"""What the operator's settings say to a decision."""

from dataclasses import dataclass

from ..model.names import DEFAULT_DATA_ROOT
from ..model.snapshot import Limits


@dataclass(frozen=True)
class Policy:
    """``agent_grace_seconds``: an agent that is silent for less still counts. ``garbage_grace_seconds``: files of
    loads that did not commit are kept for so long. ``spark_image``: of executors, where the recipe names one.
    ``unknown_folder_seconds``: how long a folder without a table, of which no group knows that it was dropped, waits;
    ``max_unexplained_folders``: so many of these may go; None: a small share of all.
    """

    limits: Limits
    agent_grace_seconds: float
    garbage_grace_seconds: int
    data_root: str = DEFAULT_DATA_ROOT
    spark_image: str | None = None
    unknown_folder_seconds: float = 60
    max_unexplained_folders: int | None = None
