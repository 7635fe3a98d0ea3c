"""The manifest of a table: every committed file of one snapshot, with schema and bucket spec.

Stored as zstd-compressed canonical JSON in ``manifests/<sha256>.json.zst``; the name is the SHA-256 of the
stored (compressed) bytes, so an agent checks a manifest exactly like any other file. One of many files (format 2) has
the files of each bucket in a frame of their own; see ``manifest_frames``.
"""

import hashlib
import re
from collections.abc import Collection
from typing import Any, Protocol, TypeVar

from pydantic import Field, TypeAdapter, field_serializer

from .base import Observed
from .limits import MAX_BUCKETS, MAX_KEY_COLUMNS, MAX_MANIFEST_FILES
from .manifest_frames import ManifestParts, check_values, decompressed, is_framed, parsed_json, split_frames
from .table import Column

PLAIN_FORMAT = 1
FRAMED_FORMAT = 2
FORMAT_VERSION = 2
"""The newest format that is read."""
MANIFEST_DIRECTORY = "manifests"
DATA_DIRECTORY = "data"
MAX_MANIFEST_BYTES = 128 << 20
"""Of a manifest's JSON, and of what is stored. Whoever may load can put any bytes under a manifest's
name, so nothing larger is read, nor is memory taken for what a frame merely announces."""
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_BUCKET_IN_FILE_NAME = re.compile(r".*_(\d+)(?:\..*)?$")
"""Spark's ``BucketingUtils.bucketedFileName``: where a reader looks for the bucket id."""


class DataFile(Observed):
    """One immutable Parquet file. ``path`` is relative to the table's folder and begins with ``data/``.

    ``partition`` gives the value of each partition column as Spark's string form, or None for NULL.
    """

    path: str
    bucket: int
    partition: dict[str, str | None] = Field({}, max_length=MAX_KEY_COLUMNS)
    rows: int
    bytes: int
    sha256: str


class TableManifest(Observed):
    """All files of one snapshot of one table.

    The rows of every file are sorted by ``sorted_by`` as Spark sorts: ascending, NULL first, strings by their bytes,
    -0.0 equal to 0.0, NaN last. A change that would break this is refused when it commits; readers may rely on it.
    So they may on ``padded``: CHAR columns, by their names in files, of which every value has so many characters. Of a
    CHAR column that is not there files may hold shorter values, which earlier releases did not pad.
    """

    format_version: int = PLAIN_FORMAT
    namespace: str
    table: str
    uid: str
    snapshot_id: int
    parent: str | None = None
    columns: tuple[Column, ...]
    bucketed_by: tuple[str, ...]
    partitioned_by: tuple[str, ...] = ()
    sorted_by: tuple[str, ...] = ()
    padded: dict[str, int] = Field({}, exclude_if=lambda lengths: not lengths)
    buckets: int
    files: tuple[DataFile, ...] = ()

    @field_serializer("columns")
    def _without_comments(self, columns: tuple[Column, ...]) -> list[dict[str, Any]]:
        """Comments are the table's own: a snapshot does not change with them."""
        return [column.model_dump(by_alias=True, exclude={"comment"}) for column in columns]

    def files_of(self, bucket: int) -> tuple[DataFile, ...]:
        """The files of one bucket, over all partitions."""
        return tuple(file for file in self.files if file.bucket == bucket)

    @property
    def partition_count(self) -> int:
        """How many partitions hold at least one file."""
        return len({tuple(sorted(file.partition.items(), key=lambda item: item[0])) for file in self.files})


class WrongDigest(ValueError):
    """A manifest's content is another than its name says."""


class BucketFile(Protocol):
    """A file as far as its bucket is concerned."""

    @property
    def path(self) -> str: ...
    @property
    def bucket(self) -> int: ...


File = TypeVar("File", bound=BucketFile)
_MANIFEST: TypeAdapter[TableManifest] = TypeAdapter(TableManifest)
_FILES: TypeAdapter[list[DataFile]] = TypeAdapter(list[DataFile])


def decode_manifest(stored: bytes, sha256: str) -> TableManifest:
    """The manifest in ``stored``, which must have the digest ``sha256``.

    Raises:
        ValueError: wrong digest, not zstd, not a manifest, too large, a newer format, or a file whose bucket is wrong.
    """
    parts = manifest_parts(stored, sha256)
    manifest = parsed_json(_MANIFEST, parts.text, sha256)
    check_format(manifest.format_version, sha256, parts)
    if parts.is_framed:
        manifest = manifest.model_copy(update={"files": files_of_frames(parts, sha256, _FILES)})
    check_files(manifest.files, manifest.buckets)
    return manifest


def manifest_parts(stored: bytes, sha256: str, bucket: int | None = None) -> ManifestParts:
    """The JSON in ``stored``, which must have the digest ``sha256``; of format 2 one ``bucket`` only, or all of them.

    Raises:
        WrongDigest: it has another one.
        ValueError: not zstd, or larger than ``MAX_MANIFEST_BYTES``.
    """
    actual = hashlib.sha256(stored).hexdigest()
    if actual != sha256:
        raise WrongDigest(f"manifest {sha256} has the content of {actual}")
    if is_framed(stored):
        return split_frames(stored, sha256, MAX_MANIFEST_BYTES, bucket)
    return ManifestParts(decompressed(stored, sha256, MAX_MANIFEST_BYTES))


def files_of_frames(parts: ManifestParts, sha256: str, kind: TypeAdapter[list[File]]) -> tuple[File, ...]:
    """All files of a manifest of format 2, each in the frame of its bucket.

    Raises:
        ValueError: a frame holds other files than the header says, or all of them too many.
    """
    found: list[File] = []
    values = 0
    for frame, text in parts.buckets:
        _check_count(len(found) + frame.files)
        values = check_values(text, sha256, values)
        files = kind.validate_json(text)
        if len(files) != frame.files or any(file.bucket != frame.bucket for file in files):
            raise ValueError(
                f"manifest {sha256} has other files where those of bucket {frame.bucket} should be, or not "
                f"{frame.files}"
            )
        found += files
    return tuple(found)


def check_format(format_version: int, sha256: str, parts: ManifestParts) -> None:
    """Refuse a manifest that a newer version of us wrote, or that is not stored as its format says.

    Raises:
        ValueError: saying which format it has and which this version reads.
    """
    if format_version > FORMAT_VERSION:
        raise ValueError(f"manifest {sha256} has format {format_version}; this version reads {FORMAT_VERSION}")
    if parts.is_framed != (format_version >= FRAMED_FORMAT):
        raise ValueError(f"manifest {sha256} is not stored as one of format {format_version}")


def check_files(files: Collection[BucketFile], buckets: int) -> None:
    """Refuse more files or buckets than a table may have, and files whose bucket is out of range or is not the one in
    their name.

    A wrong bucket id silently loses rows in joins (Spark reads the id from the file's name), hence the check
    wherever files enter: load, clone, read.

    Raises:
        ValueError: naming what was found, for a file its bucket too, and what is allowed.
    """
    _check_count(len(files))
    if not 1 <= buckets <= MAX_BUCKETS:
        raise ValueError(f"the manifest says {buckets} buckets; allowed: 1 to {MAX_BUCKETS}")
    for file in files:
        named = bucket_of_file_name(file.path)
        if named != file.bucket:
            raise ValueError(f"file {file.path} is listed in bucket {file.bucket} but its name says {named}")
        if not 0 <= file.bucket < buckets:
            raise ValueError(f"file {file.path} is in bucket {file.bucket}; allowed: 0 to {buckets - 1}")


def _check_count(files: int) -> None:
    if files > MAX_MANIFEST_FILES:
        raise ValueError(f"the manifest names {files} files; allowed: {MAX_MANIFEST_FILES}")


def bucket_of_file_name(path: str) -> int | None:
    """The bucket id that Spark reads from a file's name, or None."""
    match = _BUCKET_IN_FILE_NAME.match(path.rsplit("/", 1)[-1])
    return int(match[1]) if match else None


def manifest_path(sha256: str) -> str:
    """Where a manifest lies, relative to the table's folder."""
    return f"{MANIFEST_DIRECTORY}/{sha256}.json.zst"
