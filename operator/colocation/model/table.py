"""ColocatedTable: a table's schema, how it is bucketed and partitioned, its committed snapshot and retained history."""

import datetime
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_validator, model_validator

from .base import (
    MAX_BUCKETS,
    MAX_COLUMNS,
    MAX_CONDITIONS,
    MAX_GROUP_REFERENCE_LENGTH,
    MAX_KEY_COLUMNS,
    MAX_REPLICAS,
    MAX_SECONDS,
    CommitTime,
    Frozen,
    Observed,
    Shared,
    first_of_equal_ones,
    parse_time,
)
from .conditions import Condition
from .names import group_key
from .spark_types import canonical_type, is_key_type

MAX_COMMENT_LENGTH = 1024
_COMMENT = re.compile(r"\s+comment\s+'(?:[^'\\]|\\.)*'", re.IGNORECASE | re.DOTALL)
"""Of a field within a struct."""


class Column(Frozen):
    name: str = Field(min_length=1, max_length=255, description="Column name, compared without case, as Spark does.")
    type: str = Field(min_length=1, description="Spark SQL type, e.g. bigint, decimal(15,2), array<string>.")
    nullable: bool = Field(True, strict=True, description="Whether NULL is allowed.")
    stored_as: str = Field(
        "", max_length=255, description="First name of a renamed column; files keep it. Empty = name."
    )
    comment: str = Field("", max_length=MAX_COMMENT_LENGTH, description="Comment of the column, for people.")

    @field_validator("type")
    @classmethod
    def _known_type(cls, name: str) -> str:
        canonical_type(name)
        return name

    @property
    def stored_type(self) -> str:
        """The type as far as files depend on it: without comments of its fields."""
        return "".join(_COMMENT.sub("", canonical_type(self.type)).lower().split())

    @property
    def stored_name(self) -> str:
        """The column's name in the files."""
        return self.stored_as or self.name


SharedColumn = Annotated[Column, AfterValidator(first_of_equal_ones)]
COLUMNS_DIGEST_DIGITS = 16


def columns_digest(columns: Sequence[Column]) -> str:
    """By which a group remembers the columns that it took; it has no room for the columns of a thousand tables.

    Comments do not count: files do not depend on them.
    """
    text = json.dumps([column.model_dump(by_alias=True, exclude={"comment"}) for column in columns], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:COLUMNS_DIGEST_DIGITS]


MAX_RETAINED_SNAPSHOTS = 100
"""Each one takes some 250 bytes of the table's status."""


class Retention(Frozen):
    """How long replaced snapshots can still be read; whichever limit is reached first."""

    seconds: int = Field(86400, ge=0, le=MAX_SECONDS, description="How long a snapshot is kept after it was replaced.")
    snapshots: int = Field(
        10, ge=0, le=MAX_RETAINED_SNAPSHOTS, description="How many replaced snapshots are kept at most."
    )


class Compaction(Frozen):
    """Whether a load that leaves many small files merges them, in the same Spark application."""

    enabled: bool = Field(False, description="Whether loads compact; `colocation compact` always may.")
    max_files_per_bucket: int = Field(
        8, ge=1, description="A load compacts a bucket of a partition that has more files than this."
    )


SharedRetention = Annotated[Retention, AfterValidator(first_of_equal_ones)]
SharedCompaction = Annotated[Compaction, AfterValidator(first_of_equal_ones)]


class ColocatedTableSpec(Frozen):
    colocate_with: Shared = Field(
        "",
        description="The group's name, or <namespace>/<name> for a group of another namespace that allows it; "
        "empty = in no group. A group that does not exist is created.",
    )
    columns: Annotated[tuple[SharedColumn, ...], Field(min_length=1, max_length=MAX_COLUMNS)] = Field(
        description="All columns, partition columns too."
    )
    bucketed_by: Annotated[tuple[Shared, ...], Field(min_length=1, max_length=MAX_KEY_COLUMNS)] = Field(
        description="The bucket key's columns; order counts."
    )
    partitioned_by: Annotated[tuple[Shared, ...], Field(max_length=MAX_KEY_COLUMNS)] = Field(
        (), description="Partition columns; may differ between the tables of a group."
    )
    buckets: int | None = Field(
        None,
        ge=1,
        le=MAX_BUCKETS,
        description="The group's number, or a multiple of it. If omitted, the group's number. `colocation rebucket` "
        "changes it.",
    )
    replicas: int | None = Field(
        None, ge=1, le=MAX_REPLICAS, description="Must equal the group's. If omitted, the group's number."
    )
    sorted_by: Annotated[tuple[Shared, ...], Field(max_length=MAX_KEY_COLUMNS)] = Field(
        (), description="Order of rows within a bucket file; default: the bucket key."
    )
    recycle_after_seconds: int = Field(
        86400, ge=0, le=MAX_SECONDS, description="How long a dropped table's files are kept."
    )
    retention: SharedRetention = Retention()
    compaction: SharedCompaction = Compaction()
    comment: str = Field("", max_length=MAX_COMMENT_LENGTH, description="Comment of the table, for people.")

    @model_validator(mode="after")
    def _columns_exist(self) -> "ColocatedTableSpec":
        names = [column.name.lower() for column in self.columns]
        duplicates = _twice(names)
        if duplicates:
            raise ValueError(f"columns named twice: {', '.join(duplicates)}")
        for field, chosen in (
            ("bucketedBy", self.bucketed_by), ("partitionedBy", self.partitioned_by), ("sortedBy", self.sorted_by),
        ):
            unknown = [name for name in chosen if name.lower() not in names]
            if unknown:
                raise ValueError(f"{field} names {', '.join(unknown)}, which columns does not hold")
        both = {name.lower() for name in self.bucketed_by} & {name.lower() for name in self.partitioned_by}
        if both:
            raise ValueError(f"{', '.join(sorted(both))} cannot be both in bucketedBy and in partitionedBy")
        for name in self.bucketed_by:
            if not is_key_type(self.column(name).type):
                raise ValueError(f"bucketedBy column {name} has type {self.column(name).type}, which cannot be a key")
        return self

    @model_validator(mode="after")
    def _stored_names_are_sound(self) -> "ColocatedTableSpec":
        stored = [column.stored_name.lower() for column in self.columns]
        duplicates = _twice(stored)
        if duplicates:
            raise ValueError(f"columns stored under one name: {', '.join(duplicates)}; storedAs must name another")
        for field, chosen in (
            ("bucketedBy", self.bucketed_by), ("partitionedBy", self.partitioned_by), ("sortedBy", self.sorted_by),
        ):
            renamed = [name for name in chosen if self.column(name).stored_name.lower() != name.lower()]
            if renamed:
                raise ValueError(
                    f"{field} column {', '.join(renamed)} has storedAs; files are laid out by its name, so it cannot "
                    "be renamed: remove storedAs"
                )
        return self

    @cached_property
    def columns_digest(self) -> str:
        """See ``columns_digest``; computed once, as every pass asks for it."""
        return columns_digest(self.columns)

    def column(self, name: str) -> Column:
        """The column of this name, compared without case.

        Raises:
            KeyError: there is none.
        """
        for column in self.columns:
            if column.name.lower() == name.lower():
                return column
        raise KeyError(name)

    @cached_property
    def bucket_key_types(self) -> tuple[str, ...]:
        """Canonical types of the bucket key, in order: the table's side of the CGS check."""
        return tuple(canonical_type(self.column(name).type) for name in self.bucketed_by)


def _twice(names: Iterable[str]) -> list[str]:
    """Those that are there more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


MANIFEST_PATTERN = r"^sha256:[0-9a-f]{64}$"
MAX_COUNT = 2**53 - 1
"""JSON's numbers are exact up to here in every language that reads them."""
Count = Annotated[int, Field(strict=True, ge=0, le=MAX_COUNT)]


MAX_OPERATION_LENGTH = 32


def _changed(description: str) -> Any:
    return Field(None, exclude_if=lambda count: count is None, description=description)


class TableSnapshot(Observed):
    """What readers see: the one commit point of a table. ``manifest`` is ``sha256:<hex>`` of the manifest file."""

    id: Count = Field(description="Grows with every commit.")
    manifest: Shared = Field(
        description="sha256:<hex> of the manifest, which lists every file.",
        json_schema_extra={"pattern": MANIFEST_PATTERN, "maxLength": 71},
    )
    committed_at: CommitTime = Field(description="RFC 3339, UTC.")
    operation: Shared = Field(
        "",
        max_length=MAX_OPERATION_LENGTH,
        exclude_if=lambda operation: not operation,
        description="What made it: append, overwrite, overwrite-partitions, overwrite-matching, "
        "update, delete, merge, compact, rebucket, drop-partitions, drop-columns or roll-back. Empty: of a release "
        "that did not say it.",
    )
    partitions: Count = Field(0, description="Partitions that hold rows.")
    buckets: int | None = Field(
        None,
        ge=1,
        le=MAX_BUCKETS,
        exclude_if=lambda number: number is None,
        description="Buckets of the table in it, where these are more than the group's.",
    )
    files: Count = Field(0, description="Files of one replica.")
    rows: Count = Field(0, description="Rows of the snapshot.")
    bytes: Count = Field(0, description="Of one replica.")
    rows_inserted: Count | None = _changed("Rows that the commit inserted, unless it is unknown, as after a roll-back.")
    rows_updated: Count | None = _changed("Rows that it updated; those that it only copied to new files do not count.")
    rows_deleted: Count | None = _changed("Rows that it deleted.")
    files_added: Count | None = _changed("Files that it added, of one replica.")
    files_removed: Count | None = _changed("Files that it removed, of one replica.")

    @field_validator("manifest")
    @classmethod
    def _is_digest(cls, manifest: str) -> str:
        if not re.fullmatch(MANIFEST_PATTERN, manifest):
            raise ValueError("allowed is sha256: followed by 64 hexadecimal digits in lower case")
        return manifest

    @property
    def manifest_sha256(self) -> str:
        """The manifest's digest, 64 hex digits, which is also its file name."""
        return sys.intern(self.manifest.removeprefix("sha256:"))


MAX_RECORDED_COMMITS = 100
"""Each one takes some 100 bytes of the table's status, and up to 250."""
MAX_WRITER_LENGTH = 128


class RecordedCommit(Observed):
    """By which a repeated commit is known: a table takes each version of a writer once."""

    writer: str = Field(
        min_length=1, max_length=MAX_WRITER_LENGTH, description="A streaming query's id, or a key of its choice."
    )
    version: Count = Field(description="Grows with every commit of the writer, such as a stream's epoch.")
    snapshot_id: Count = Field(description="The snapshot that it became.")


class ColocatedTableStatus(Observed):
    observed_generation: Count | None = Field(None, description="The generation of the spec that this status is about.")
    accepted: bool | None = Field(None, description="Whether the group takes the table.")
    group: Shared | None = Field(
        None,
        max_length=MAX_GROUP_REFERENCE_LENGTH,
        description="The group that places the table now, as colocateWith would name it. While colocateWith changes "
        "this is the old one, until every replica is complete in the new one.",
    )
    group_id: Shared | None = Field(None, max_length=63, description="Id of the group that places the table.")
    buckets: int | None = Field(
        None, ge=1, le=MAX_BUCKETS, description="Buckets of the group that took the table."
    )
    replicas: int | None = Field(
        None, ge=1, le=MAX_REPLICAS, description="Replicas that the spec, or else the group, said at that time."
    )
    columns: Annotated[tuple[SharedColumn, ...], Field(max_length=MAX_COLUMNS)] = Field(
        (),
        description="Those that were accepted last; files that are there fit them. A commit that replaces all rows may "
        "make them those of the spec.",
    )
    snapshot: TableSnapshot | None = None
    history: Annotated[tuple[TableSnapshot, ...], Field(max_length=MAX_RETAINED_SNAPSHOTS)] = Field(
        (), description="Replaced snapshots that can still be read, the newest first."
    )
    commits: Annotated[tuple[RecordedCommit, ...], Field(max_length=MAX_RECORDED_COMMITS)] = Field(
        (), description="The newest commit of each writer that names itself, the newest first. Its repetition changes "
        "nothing.",
    )
    conditions: Annotated[tuple[Condition, ...], Field(max_length=MAX_CONDITIONS)] = Field(
        (), description="Ready, Accepted."
    )


def placing_group(namespace: str, spec: ColocatedTableSpec, status: ColocatedTableStatus) -> tuple[str, str]:
    """(namespace, name) of the group on whose nodes the table's files are now: where to read it and to load it.

    Not always the one that ``colocateWith`` names: a table that changes it stays in its group until its files are in
    the other one, and a table in no group is placed by a private one. The name is empty when nothing is known yet.
    """
    return group_key(namespace, status.group or spec.colocate_with)


def retained_history(
    snapshot: TableSnapshot, history: Sequence[TableSnapshot], retention: Retention, now: datetime.datetime
) -> tuple[TableSnapshot, ...]:
    """The entries of ``history`` that stay, the newest first.

    An entry was replaced when the next newer one was committed; the newest entry, when ``snapshot`` was.

    Args:
        snapshot: the committed one.
        history: those that it replaced, the newest first.
        retention: of the table.
        now: with a time zone.
    """
    kept: list[TableSnapshot] = []
    for replaced, newer in zip(history[: retention.snapshots], (snapshot, *history), strict=False):
        replaced_at = parse_time(newer.committed_at)
        if replaced_at is not None and (now - replaced_at).total_seconds() >= retention.seconds:
            break  # those behind it were replaced before it
        kept.append(replaced)
    return tuple(kept)
