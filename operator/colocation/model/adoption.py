"""Tables that are made again from the manifests on the disks, after their objects were lost."""

from pydantic import Field, ValidationError

from .agent import RecycledSchema
from .base import Frozen, Observed
from .table import TableSnapshot


class Adoption(Frozen):
    """What a table's annotation says of the lost table that it is made from: whose folder, and which snapshot."""

    uid: str = Field(min_length=8, max_length=63)
    snapshot: TableSnapshot


def adoption_from(text: str | None) -> Adoption | None:
    """The annotation's value, understood; None when there is none, or it is not one."""
    try:
        return Adoption.model_validate_json(text) if text else None
    except ValidationError:
        return None


class OrphanSnapshot(Observed):
    """A manifest in a folder that no table has.

    ``missing_buckets``: those that no node has complete; None = not looked at. ``copies``: on so many nodes is each of
    the other buckets complete, at most.
    """

    uid: str
    snapshot: TableSnapshot
    table_schema: RecycledSchema
    nodes: tuple[str, ...]
    missing_buckets: tuple[int, ...] | None = None
    copies: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether every bucket is complete somewhere."""
        return self.missing_buckets == ()


class OrphanFolder(Observed):
    """A table's folder that no table has. ``nodes``: where it lies; ``snapshots``: the newest first.

    ``recycled_nodes``: those of the nodes where it lies in the recycle bin; nobody looks at the files there.
    ``problem``: why nothing can be made of it, or of a node's part of it; empty = nothing is in the way.
    """

    namespace: str
    directory: str
    table: str
    nodes: tuple[str, ...]
    recycled_nodes: tuple[str, ...] = ()
    snapshots: tuple[OrphanSnapshot, ...] = ()
    problem: str = ""

    @property
    def chosen(self) -> OrphanSnapshot | None:
        """The newest snapshot of which every bucket is complete somewhere."""
        return next((one for one in self.snapshots if one.is_whole), None)


class Orphans(Observed):
    """All such folders, as the operator and the agents see them now."""

    folders: tuple[OrphanFolder, ...] = ()
