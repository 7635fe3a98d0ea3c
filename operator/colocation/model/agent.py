"""What node agents are asked and what they answer (JSON over HTTPS)."""

from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from .base import COMPACT, Frozen, Observed, Shared
from .table import Column

ReplicaState = Literal["complete", "partial", "corrupt"]
"""Of a bucket on a node: all wanted files held and verified; some missing; some found damaged. Absent = none held."""
BITS_OF_A_DIGIT = 4
MAX_TERM = (1 << 31) - 1
"""A Lease counts its transitions in 32 bits."""
SizeBytes = Annotated[int, Field(ge=0, lt=1 << 63)]
"""Of a disk. A report with another number is not valid: decisions about all groups depend on it."""

STALE_TERM = "StaleTerm"
STALE_ORDER = "StaleOrder"
UNKNOWN_QUESTION = "UnknownQuestion"
"""Reasons of an agent's 409: to a question or order of an older term; to a deletion whose proof is not true any more;
to a question whose base it does not remember."""


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


class AskedTable(Frozen):
    """A table as the operator asks an agent about it: what the agent should hold, and the epoch of deletions there.

    ``map_version`` is that of the map of the group that places the table, whose uid is ``group_uid``.
    """

    reference: TableReference
    uid: str
    group_uid: str | None = None
    map_version: int = 0


class SeenLease(Observed):
    """The operator's Lease as its holder saw it last; agents remember it to detect an older state of etcd.

    When the Lease in the API server is older than one that an agent remembers, etcd was restored from an older copy.
    ``version``: the Lease's resourceVersion.
    """

    holder: str = Field("", max_length=320)
    version: int = Field(0, ge=0, le=(1 << 63) - 1)


class InventoryRequest(Frozen):
    """One question of the operator's conversation with an agent, which the agent remembers by ``session``.

    Question ``number`` is question ``base`` with ``changed`` tables put in and ``removed`` ones taken out; without
    a ``base``, ``changed`` is all that is asked about. An agent that does not remember ``base`` answers 409
    ``UnknownQuestion``, and is asked in full. ``term`` is that of the operator's Lease: an agent takes no question and
    no order of an older term than the newest one that it has heard. ``lease``: what the agent is to remember; None =
    what it remembers stays. ``frozen``: it purges nothing from its recycle bin.
    """

    term: int = Field(0, ge=0)
    session: str = ""
    number: int = Field(0, ge=0)
    base: int | None = None
    changed: tuple[AskedTable, ...] = ()
    removed: tuple[str, ...] = Field((), description="'<namespace>/<directory>' that are not asked about any more.")
    lease: SeenLease | None = None
    frozen: bool = False
    wait_seconds: float = Field(
        0, ge=0, le=300, description="How long the answer may be held while it is the one that the caller has."
    )


class OldInventoryRequest(Frozen):
    """The question of the release before sessions: every table, every time; always answered in full and at once."""

    tables: tuple[TableReference, ...] = ()


class DeletionProof(Frozen):
    """What a deletion was decided on. The agent carries it out only while all of it still holds there.

    ``instance`` and ``not_after_seconds`` are of the report that it was decided from: the agent's process, and the
    moment on that process's own clock (``AgentReport.uptime_seconds``) at which the order is void, so that no wall
    clock counts. ``term``: of the operator that gave it. ``table_uid``, ``group_uid`` and ``map_version`` must be those
    of the newest question that the agent was asked about the table.
    """

    instance: str
    not_after_seconds: float
    term: int
    table_uid: str
    group_uid: str | None = None
    map_version: int = 0


@dataclass(frozen=True, slots=True, config=COMPACT)
class BucketReport:
    """What one node holds of one bucket of a table. Bytes and files are those of the wanted manifest.

    ``state``: None = files are wanted and none is held. ``held_files``: a hexadecimal number with a bit for each of the
    bucket's files in the manifest's order, the first one the lowest; empty unless some are held and some are not.
    """

    state: ReplicaState | None
    files_wanted: int
    files_held: int
    bytes_wanted: int
    bytes_held: int
    corrupt_files: tuple[str, ...] = ()
    held_files: str = Field(default="", pattern="^[0-9a-f]*$")

    @property
    def lacking(self) -> int:
        """The bits of the files that are not known to be held here; all bits (-1) if the report does not list them."""
        if self.files_held == self.files_wanted:
            return 0
        if self.files_wanted > BITS_OF_A_DIGIT * len(self.held_files):  # whatever number an agent gives
            return -1
        return (1 << self.files_wanted) - 1 & ~int(self.held_files, 16)


@dataclass(frozen=True, slots=True, config=COMPACT)
class TableReport:
    """What one node holds of one table.

    ``manifest_present``: False = the agent lacks the wanted manifest, so it does not know which files are wanted.
    """

    namespace: Shared
    directory: Shared
    manifest: Shared | None
    manifest_present: bool
    buckets: dict[int, BucketReport] = field(default_factory=dict)
    surplus_bytes: int = 0
    retained_present: bool = Field(
        default=True, description="Whether the manifests of all retained snapshots are here."
    )
    retained_missing: tuple[int, ...] = Field(
        default=(), description="Buckets that lack files of retained snapshots here."
    )
    retained_only: tuple[int, ...] = Field(
        default=(),
        description="Buckets of which retained snapshots have files, by manifests here, and the present one has none.",
    )
    unnamed_buckets: tuple[int, ...] = Field(
        default=(), description="Buckets of which files are here, by their names, while the wanted manifest is not."
    )


class CloneProgress(Observed):
    """A clone in progress on the target node, read from ``.incoming``.

    ``steps`` grows while it looks at manifests and files, also before it knows what to copy.
    """

    namespace: str
    group: str
    bucket: int
    bytes_done: int
    bytes_total: int
    updated_at: str
    steps: int = 0


MARKER_FILE = "colocation.json"
"""In a data root: which disk this is; see ``storage.root``."""


class DiskReport(Observed):
    """An agent's report on its disk. ``id`` is that of the data root's marker, empty while it has none.

    ``reason`` is one of Reason.DISK_…, empty when the disk is well; it is so since ``since_uptime_seconds`` on the
    agent's own clock.
    """

    id: str = ""
    reason: str = ""
    message: str = ""
    since_uptime_seconds: float = 0.0


class AgentReport(Observed):
    """What one agent holds and has verified. ``revision`` changes whenever any of it changes.

    ``tables`` answers for the tables of the question; without ``is_full`` only those that changed since the revision
    that the caller has. Without ``is_whole`` the rest of them is in the answer to the next question with this
    ``revision``: many large tables do not fit into one answer. ``instance`` names the agent's process,
    ``uptime_seconds`` is its own clock, ``term`` the newest that it has heard of.
    """

    node: str
    revision: str
    instance: str = ""
    uptime_seconds: float = 0.0
    term: int = Field(0, ge=0, le=MAX_TERM)
    lease: SeenLease | None = Field(None, description="What it was asked to remember last.")
    capacity_bytes: SizeBytes
    free_bytes: SizeBytes
    disk: DiskReport | None = Field(None, description="None: an agent of the release before, which does not look.")
    active_transfers: int = 0
    is_full: bool = True
    is_whole: bool = True
    tables: tuple[TableReport, ...] = ()
    unknown_directories: tuple[str, ...] = Field(
        (), description="'<namespace>/<table>-<uid8>' that lie here and that the question does not name."
    )
    unknown_bytes: dict[str, int] = Field(
        default_factory=dict, description="Of each unknown directory the bytes of its data files, as of the last look."
    )
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


class DamageRequest(Frozen):
    """A reader met damage in this file: ``path`` is relative to the table's folder."""

    path: str


class DamageAnswer(Observed):
    """What the agent found when it read the file itself; a damaged one is in the quarantine now."""

    path: str
    damaged: bool


MAX_FILES_AT_ONCE = 1024
MAX_BYTES_AT_ONCE = 4 << 20
"""Of one file among several that are asked for at once; larger ones are asked for alone."""


class FilesRequest(Frozen):
    """The contents of several small files of a table, in one answer; see ``model.file_transfer``."""

    paths: tuple[str, ...] = Field(min_length=1, max_length=MAX_FILES_AT_ONCE)


class CollectRequest(Frozen):
    """Remove the data files and manifests that none of ``manifests`` has named for the grace."""

    manifests: tuple[str, ...] = Field(min_length=1)
    grace_seconds: int = Field(ge=0)
    proof: DeletionProof


class RecycleRequest(Frozen):
    keep_seconds: int = Field(ge=0)
    proof: DeletionProof


class RestoreRequest(Frozen):
    """Move the folder from the recycle bin, or from its place, to ``directory`` of the table that brings it back."""

    directory: str
    term: int = Field(0, ge=0, description="Of the operator's Lease.")


class RecycledSchema(Observed):
    """A dropped table's schema, from a manifest in the recycle bin."""

    columns: tuple[Column, ...]
    bucketed_by: tuple[str, ...]
    partitioned_by: tuple[str, ...] = ()
    sorted_by: tuple[str, ...] = ()
    buckets: int
    table_buckets: int | None = Field(None, exclude_if=lambda number: number is None)


class ManifestSummary(Observed):
    """A manifest in a table's folder: enough to create the table again.

    ``modified_at``: RFC 3339, by the node's clock. ``parent``: digest of the manifest that it was committed on; None =
    none, or the agent is of an older release.
    """

    sha256: str
    table: str
    uid: str
    snapshot_id: int
    partitions: int
    files: int
    rows: int
    bytes: int
    modified_at: str
    table_schema: RecycledSchema
    parent: str | None = None


class FolderManifests(Observed):
    """The readable manifests of one table's folder, the newest snapshot first."""

    manifests: tuple[ManifestSummary, ...] = ()


class Removed(Observed):
    """What a deletion freed; zeros when there was nothing left to delete."""

    files: int
    bytes: int
