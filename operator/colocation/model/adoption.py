"""Table folders on the nodes, as ``colocation adopt`` sees them after objects were lost or went back."""

from .agent import RecycledSchema
from .base import Observed
from .table import Column, TableSnapshot


class FolderSnapshot(Observed):
    """A manifest in a table's folder. ``snapshot.committed_at``: when the file was written, by its node's clock.

    ``missing_buckets``: those that no node has complete; None = not checked. ``copies``: on so many nodes is each of
    the other buckets complete, at most.
    """

    snapshot: TableSnapshot
    table_schema: RecycledSchema
    nodes: tuple[str, ...]
    missing_buckets: tuple[int, ...] | None = None
    copies: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether every bucket is complete somewhere."""
        return self.missing_buckets == ()


class TableFolder(Observed):
    """A folder of a table. ``nodes``: where it is; ``snapshots``: the newest first.

    ``recycled_nodes``: those of the nodes where it is in the recycle bin; files there are not verified.
    ``problem``: why nothing can be made of it, or of a node's part of it; empty = nothing is in the way.
    ``is_checked``: every agent that has it answered all questions about it.
    """

    namespace: str
    directory: str
    table: str
    nodes: tuple[str, ...]
    recycled_nodes: tuple[str, ...] = ()
    snapshots: tuple[FolderSnapshot, ...] = ()
    problem: str = ""
    is_checked: bool = True

    @property
    def path(self) -> str:
        """``<namespace>/<directory>``."""
        return f"{self.namespace}/{self.directory}"

    @property
    def uid_digits(self) -> str:
        """The first digits of the uid of the table that the folder was made for."""
        return self.directory.rpartition("-")[2]

    @property
    def nodes_in_place(self) -> tuple[str, ...]:
        """Where it is not in the recycle bin."""
        return tuple(node for node in self.nodes if node not in self.recycled_nodes)

    @property
    def chosen(self) -> FolderSnapshot | None:
        """The newest snapshot of which every bucket is complete somewhere."""
        return next((one for one in self.snapshots if one.is_whole), None)


class NamedTable(Observed):
    """A table that exists and has the name of a folder. ``snapshot``: committed, or about to be brought back.

    ``is_whole``: the agents that answer hold every file of that snapshot, and know the retained ones. ``adopts``: first
    digits of the uid of the folder that it takes over; empty = none.
    """

    namespace: str
    name: str
    directory: str
    columns: tuple[Column, ...] = ()
    snapshot: TableSnapshot | None = None
    is_whole: bool = False
    adopts: str = ""


class Folders(Observed):
    """What ``colocation adopt`` decides from, as the operator and the agents see it now.

    ``folders``: those that no table has and no group remembers, and those of tables that may have lost commits.
    ``etcd_restored``: whether deletions wait for an administrator, as etcd was restored to an older state.
    """

    folders: tuple[TableFolder, ...] = ()
    tables: tuple[NamedTable, ...] = ()
    etcd_restored: bool = False
