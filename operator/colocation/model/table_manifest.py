"""The manifest of a table: every committed file of one snapshot, with schema and bucket spec.

Stored as zstd-compressed canonical JSON in ``manifests/<sha256>.json.zst``; the name is the SHA-256 of the
stored (compressed) bytes, so an agent checks a manifest exactly like any other file.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Protocol

import zstandard

from .base import Observed
from .table import Column

FORMAT_VERSION = 1
MANIFEST_DIRECTORY = "manifests"
DATA_DIRECTORY = "data"
MAX_MANIFEST_BYTES = 256 << 20
"""Of a manifest's JSON, and of what is stored: a million files. Whoever may load can put any bytes under a manifest's
name, so nothing larger is read, nor is memory taken for what a frame merely announces."""
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_PIECE_BYTES = 1 << 20
_BUCKET_IN_FILE_NAME = re.compile(r".*_(\d+)(?:\..*)?$")
"""Spark's ``BucketingUtils.bucketedFileName``: where a reader looks for the bucket id."""


class DataFile(Observed):
    """One immutable Parquet file. ``path`` is relative to the table's folder and begins with ``data/``.

    ``partition`` gives the value of each partition column as Spark's string form, or None for NULL.
    """

    path: str
    bucket: int
    partition: dict[str, str | None] = {}
    rows: int
    bytes: int
    sha256: str


class TableManifest(Observed):
    """All files of one snapshot of one table.

    The rows of every file are sorted by ``sorted_by`` as Spark sorts: ascending, NULL first, strings by their bytes,
    -0.0 equal to 0.0, NaN last. A change that would break this is refused when it commits; readers may rely on it.
    """

    format_version: int = FORMAT_VERSION
    namespace: str
    table: str
    uid: str
    snapshot_id: int
    parent: str | None = None
    columns: tuple[Column, ...]
    bucketed_by: tuple[str, ...]
    partitioned_by: tuple[str, ...] = ()
    sorted_by: tuple[str, ...] = ()
    buckets: int
    files: tuple[DataFile, ...] = ()

    def files_of(self, bucket: int) -> tuple[DataFile, ...]:
        """The files of one bucket, over all partitions."""
        return tuple(file for file in self.files if file.bucket == bucket)

    @property
    def partition_count(self) -> int:
        """How many partitions hold at least one file."""
        return len({tuple(sorted(file.partition.items(), key=lambda item: item[0])) for file in self.files})


def encode_manifest(manifest: TableManifest) -> tuple[str, bytes]:
    """(sha256 hex, stored bytes) of a manifest."""
    text = manifest.model_dump_json(by_alias=True).encode()
    stored = zstandard.ZstdCompressor(level=9).compress(text)
    return hashlib.sha256(stored).hexdigest(), stored


def decode_manifest(stored: bytes, sha256: str) -> TableManifest:
    """The manifest in ``stored``, which must have the digest ``sha256``.

    Raises:
        ValueError: wrong digest, not zstd, not a manifest, a newer format, or a file whose bucket is wrong.
    """
    manifest = TableManifest.model_validate_json(manifest_text(stored, sha256))
    check_format(manifest.format_version, sha256)
    check_buckets(manifest.files, manifest.buckets)
    return manifest


def manifest_text(stored: bytes, sha256: str) -> bytes:
    """The JSON in ``stored``, which must have the digest ``sha256``.

    Raises:
        ValueError: wrong digest, not zstd, or larger than ``MAX_MANIFEST_BYTES``.
    """
    actual = hashlib.sha256(stored).hexdigest()
    if actual != sha256:
        raise ValueError(f"manifest {sha256} has the content of {actual}")
    try:
        text = _decompressed(stored)
    except zstandard.ZstdError as error:
        raise ValueError(f"manifest {sha256} is not zstd: {error}") from error
    if text is None:
        raise ValueError(f"manifest {sha256} is longer than {MAX_MANIFEST_BYTES} bytes, or not as long as it announces")
    return text


def _decompressed(stored: bytes) -> bytes | None:
    """What a zstd frame holds, read piece by piece; None when it is too long, or not as long as it announces.

    Raises:
        ZstdError: it is no zstd frame.
    """
    announced_bytes = zstandard.frame_content_size(stored)  # -1: it announces nothing
    if announced_bytes > MAX_MANIFEST_BYTES:
        return None
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_MANIFEST_BYTES)
    text = bytearray()
    with decompressor.stream_reader(stored, read_across_frames=False) as reader:
        while piece := reader.read(_PIECE_BYTES):
            text += piece
            if len(text) > MAX_MANIFEST_BYTES:
                return None
    return bytes(text) if announced_bytes in (-1, len(text)) else None


def check_format(format_version: int, sha256: str) -> None:
    """Refuse a manifest that a newer version of us wrote.

    Raises:
        ValueError: saying which format it has and which this version reads.
    """
    if format_version > FORMAT_VERSION:
        raise ValueError(f"manifest {sha256} has format {format_version}; this version reads {FORMAT_VERSION}")


class BucketFile(Protocol):
    """A file as far as its bucket is concerned."""

    @property
    def path(self) -> str: ...
    @property
    def bucket(self) -> int: ...


def check_buckets(files: Iterable[BucketFile], buckets: int) -> None:
    """Refuse files whose bucket is out of range or is not the one in their name.

    A wrong bucket id silently loses rows in joins (Spark reads the id from the file's name), hence the check
    wherever files enter: load, clone, read.

    Raises:
        ValueError: naming the file, its bucket and what was expected.
    """
    for file in files:
        named = bucket_of_file_name(file.path)
        if named != file.bucket:
            raise ValueError(f"file {file.path} is listed in bucket {file.bucket} but its name says {named}")
        if not 0 <= file.bucket < buckets:
            raise ValueError(f"file {file.path} is in bucket {file.bucket}; allowed: 0 to {buckets - 1}")


def bucket_of_file_name(path: str) -> int | None:
    """The bucket id that Spark reads from a file's name, or None."""
    match = _BUCKET_IN_FILE_NAME.match(path.rsplit("/", 1)[-1])
    return int(match[1]) if match else None


def manifest_path(sha256: str) -> str:
    """Where a manifest lies, relative to the table's folder."""
    return f"{MANIFEST_DIRECTORY}/{sha256}.json.zst"
