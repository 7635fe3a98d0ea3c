"""What node agents are asked and what they answer (JSON over HTTPS)."""

from typing import Literal

from pydantic import Field

from .base import Frozen, Observed
from .table import Column

ReplicaState = Literal["complete", "partial", "corrupt"]
"""Of a bucket on a node: all wanted files held and verified; some missing; some found damaged. Absent = none held."""


class TableReference(Frozen):
    """A live table: what the operator wants agents to hold. ``manifest`` is the SHA-256 hex, None before a load."""

    namespace: str
    directory: str = Field(description="<table>-<uid8>")
    manifest: str | None = None
    retained_manifests: tuple[str, ...] = Field((), description="Older snapshots whose files stay too.")

    @property
    def live_manifests(self) -> tuple[str, ...]:
        """All manifests whose files are wanted, the committed one first."""
        return (*((self.manifest,) if self.manifest else ()), *self.retained_manifests)


class InventoryRequest(Frozen):
    tables: tuple[TableReference, ...] = ()


class BucketReport(Observed):
    """One table's bucket on one node against the wanted manifest. Bytes and files are of that manifest.

    ``state`` is None when files are wanted and none is held.
    """

    state: ReplicaState | None
    files_wanted: int
    files_held: int
    bytes_wanted: int
    bytes_held: int
    corrupt_files: tuple[str, ...] = ()


class TableReport(Observed):
    """``manifest_present`` False: the agent lacks the wanted manifest and cannot say what it should hold."""

    namespace: str
    directory: str
    manifest: str | None
    manifest_present: bool
    buckets: dict[int, BucketReport] = {}
    surplus_bytes: int = 0
    retained_present: bool = Field(True, description="Whether the manifests of all retained snapshots are here.")
    retained_missing: tuple[int, ...] = Field((), description="Buckets that lack files of retained snapshots here.")


class CloneProgress(Observed):
    """A clone in progress on the target node, read from ``.incoming``."""

    namespace: str
    group: str
    bucket: int
    bytes_done: int
    bytes_total: int
    updated_at: str


class AgentReport(Observed):
    """Everything that one agent holds and has verified. ``revision`` changes whenever any of it changes."""

    node: str
    revision: str
    capacity_bytes: int
    free_bytes: int
    active_transfers: int = 0
    tables: tuple[TableReport, ...] = ()
    unknown_directories: tuple[str, ...] = Field((), description="'<namespace>/<table>-<uid8>' of no wanted table.")
    recycled_directories: tuple[str, ...] = Field((), description="'<namespace>/<directory>' in the recycle bin.")
    clones: tuple[CloneProgress, ...] = ()


class FilePublished(Observed):
    """Answer to a PUT."""

    path: str
    bytes: int
    sha256: str


class VerifyRequest(Frozen):
    """``deep``: every file is hashed again; else files that were verified and have not changed since count."""

    manifest: str
    deep: bool = False


class CollectRequest(Frozen):
    """Remove the data files and manifests that none of ``manifests`` names and that are older than the grace."""

    manifests: tuple[str, ...]
    grace_seconds: int = Field(ge=0)


class RecycleRequest(Frozen):
    keep_seconds: int = Field(ge=0)


class RestoreRequest(Frozen):
    """Out of the recycle bin, or from where it lies, to the folder ``directory`` of the table that brings it back."""

    directory: str


class RecycledSchema(Observed):
    """A dropped table's schema, from a manifest in the recycle bin."""

    columns: tuple[Column, ...]
    bucketed_by: tuple[str, ...]
    partitioned_by: tuple[str, ...] = ()
    sorted_by: tuple[str, ...] = ()
    buckets: int


class Removed(Observed):
    """What a deletion freed; zeros when there was nothing left to delete."""

    files: int
    bytes: int
