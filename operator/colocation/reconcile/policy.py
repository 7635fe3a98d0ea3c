"""What the operator's settings say to a decision."""

from dataclasses import dataclass

from ..model.names import DEFAULT_DATA_ROOT
from ..model.snapshot import Limits


@dataclass(frozen=True)
class Policy:
    """``agent_grace_seconds``: an agent that is silent for less still counts. ``garbage_grace_seconds``: files of
    loads that did not commit are kept for so long. ``spark_image``: of executors, where the recipe names one.
    """

    limits: Limits
    agent_grace_seconds: float
    garbage_grace_seconds: int
    data_root: str = DEFAULT_DATA_ROOT
    spark_image: str | None = None
