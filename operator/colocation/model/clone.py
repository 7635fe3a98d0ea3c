"""What a clone Job is told to do; see ARCHITECTURE.md, "Clone Job"."""

from pydantic import Field

from .agent import TableReference
from .base import Frozen


class CloneSource(Frozen):
    """An agent that holds a live replica of the bucket."""

    node: str
    url: str = Field(description="https://<pod IP>:<port>")


class CloneSpec(Frozen):
    """Make all files of one bucket complete on one node, for all tables of the group."""

    namespace: str
    group: str
    bucket: int
    target: str = Field(description="The node on which the Job runs.")
    tables: tuple[TableReference, ...]
    sources: tuple[CloneSource, ...] = Field(min_length=1)
    max_bandwidth_mib_per_second: float | None = Field(None, gt=0)


def clone_directory(namespace: str, group: str, bucket: int) -> str:
    """Folder of a clone in progress, relative to the data root."""
    return f".incoming/clones/{namespace}.{group}.{bucket:05d}"
