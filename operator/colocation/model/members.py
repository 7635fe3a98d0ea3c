"""What a group's status remembers of its tables, so that dropping one while the operator is away loses nothing.

Only what the manifests on the nodes do not say: which manifest was the committed one, and how long to keep it.
"""

from pydantic import Field

from .base import Observed, Shared
from .names import table_directory
from .table import COLUMNS_DIGEST_DIGITS, Compaction, Retention, SharedCompaction, SharedRetention, TableSnapshot
from .times import MAX_SECONDS, Time

MAX_TABLES = 1000
"""Of a group: its status remembers some 650 bytes of each, and etcd takes 1.5 MiB for the object."""
MAX_RECYCLED_TABLES = 500
"""Kept in a group's status; of more, the first dropped are forgotten: they are purged, and cannot be recovered."""


class GroupMember(Observed):
    """A table that the group places, as it was last seen."""

    namespace: Shared
    name: Shared
    uid: Shared
    snapshot: TableSnapshot | None = None
    recycle_after_seconds: int = Field(
        86400, ge=0, le=MAX_SECONDS, description="How long its files are kept once it is dropped."
    )
    retention: SharedRetention = Retention()
    compaction: SharedCompaction = Compaction()
    replicas: int | None = Field(None, description="Of the table, when the group took its spec last.")
    columns_digest: Shared = Field(
        "", max_length=COLUMNS_DIGEST_DIGITS, description="Of the columns that the group took last; see the table."
    )
    leaving: bool = Field(
        False, description="It moves to another group: this one serves it, and deletes none of its files any more."
    )

    @property
    def directory(self) -> str:
        """The table's folder below its namespace."""
        return table_directory(self.name, self.uid)


class RecycledTable(GroupMember):
    """A dropped table that waits in the recycle bins."""

    deleted_at: Time = Field(description="When the operator learned of it; RFC 3339, UTC.")
    purge_at: Time = Field(description="When its files go for good; RFC 3339, UTC.")
    recovery_uids: tuple[str, ...] = Field(
        (), description="Uids of tables made to bring it back: its folders lie under their names too."
    )

    @property
    def directories(self) -> tuple[str, ...]:
        """Folders in which its files may lie, its own first."""
        return tuple(table_directory(self.name, uid) for uid in (self.uid, *self.recovery_uids))
