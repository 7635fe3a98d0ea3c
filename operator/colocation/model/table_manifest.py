"""The manifest of a table: every committed file of one snapshot, with schema and bucket spec.

Stored as zstd-compressed canonical JSON in ``manifests/<sha256>.json.zst``; the name is the SHA-256 of the stored
(compressed) bytes, so an agent checks a manifest exactly like any other file.

A manifest of many files (format 2) has the files of each bucket in a frame of their own. Three kinds of zstd frames
follow each other, so that ``zstd -dc`` shows all of it:

1. A skippable frame (magic ``184D2A50``) of 36 bytes: how long the next frame is, as four bytes, the lowest one first,
   and that frame's SHA-256.
2. The header: the manifest's JSON without its files, with ``frames``, what each further frame is.
3. For each of ``frames``, in their order: a JSON array of one bucket's files, sorted by path.

A reader of one bucket reads the first two and the bucket's, and knows each by its digest.
"""

import hashlib
import json
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import zstandard
from pydantic import Field, StrictInt, TypeAdapter, ValidationError, field_serializer

from .base import MAX_BUCKETS, MAX_KEY_COLUMNS, MAX_MANIFEST_FILES, Observed, problems_of
from .table import MAX_COUNT, Column, Count

_MAGIC = bytes.fromhex("502a4d18")
_PREFIX = struct.Struct("<4sII32s")
"""Magic number and length of a skippable frame, then its content."""
_CONTENT_BYTES = 36
_PIECE_BYTES = 1 << 20
_LEAST_WINDOW_BYTES = 1 << 10
_MAX_JSON_NODES = 4 * MAX_MANIFEST_FILES
_MAX_JSON_VALUES = 12 * MAX_MANIFEST_FILES
"""Objects and lists, and values, of a manifest's JSON: a file has two objects, and six values and one for each
partition column. A parser takes up to 500 bytes for two characters, and 150 for a value: they are counted before."""
_ALLOWED = {
    "formatVersion": "a number",
    "snapshotId": f"0 to {MAX_COUNT}",
    "buckets": f"1 to {MAX_BUCKETS}",
    "tableBuckets": f"a multiple of buckets, up to {MAX_BUCKETS}",
    "columns": "a list of columns with name and type",
    "bucketedBy": "a list of names",
    "partitionedBy": "a list of names",
    "sortedBy": "a list of names",
    "padded": "lengths by names of columns",
    "parent": "a digest",
}
"""The fields of a manifest that are not its files, and what each may be."""
_MAX_ERRORS = 1000
_MAX_EXPLAINED_BYTES = 1 << 20
_MAX_SHOWN_CHARACTERS = 100
Value = TypeVar("Value")


class Frame(Observed):
    """One bucket's files as they are stored: how many there are, how long the frame is, and its SHA-256."""

    bucket: int = Field(ge=0)
    files: int = Field(ge=0)
    bytes: int = Field(gt=0)
    sha256: str


class _Header(Observed):
    frames: tuple[Frame, ...]


_HEADER: TypeAdapter[_Header] = TypeAdapter(_Header)


@dataclass(frozen=True)
class ManifestParts:
    """What is stored of a manifest: its JSON, and apart from it the JSON of each bucket's files.

    ``is_framed``: format 2. A manifest of format 1 has all in ``text``. ``buckets`` can be gone through once, and
    raises what ``split_frames`` would: no more than one bucket's files are in memory at a time.
    """

    text: bytes
    buckets: Iterable[tuple[Frame, bytes]] = ()
    is_framed: bool = False


def is_framed(stored: bytes) -> bool:
    """Whether this begins as a manifest of format 2 does."""
    return stored[:4] == _MAGIC


def split_frames(stored: bytes, sha256: str, max_bytes: int, bucket: int | None = None) -> ManifestParts:
    """The parts of a manifest of format 2; each frame has the digest that the frame before it states.

    Args:
        stored: for which ``is_framed``.
        sha256: the manifest's name, for messages.
        max_bytes: of all texts together; nothing larger is taken into memory.
        bucket: the only one whose files are read; None = all of them.

    Raises:
        ValueError: it was cut, differs from its digests, or is larger; of what follows the header as soon as
            ``buckets`` comes to it.
    """
    view = memoryview(stored)
    if len(view) < _PREFIX.size:
        raise ValueError(f"manifest {sha256} ends in its first frame")
    _, content_bytes, header_bytes, header_digest = _PREFIX.unpack(view[: _PREFIX.size])
    if content_bytes != _CONTENT_BYTES:
        raise ValueError(f"manifest {sha256} begins with a frame of {content_bytes} bytes; allowed: {_CONTENT_BYTES}")
    head = bytes(view[_PREFIX.size : _PREFIX.size + header_bytes])
    if hashlib.sha256(head).digest() != header_digest:
        raise ValueError(f"the header of manifest {sha256} does not match its digest")
    text = decompressed(head, sha256, max_bytes)
    header = parsed_json(_HEADER, text, sha256)
    frames = _frames(view[_PREFIX.size + header_bytes :], header.frames, sha256, bucket)
    return ManifestParts(text, _texts(frames, sha256, max_bytes - len(text)), is_framed=True)


def _texts(frames: Iterable[tuple[Frame, bytes]], sha256: str, max_bytes: int) -> Iterator[tuple[Frame, bytes]]:
    """The frames' JSON, so many bytes together."""
    left = max_bytes
    for frame, content in frames:
        text = decompressed(content, sha256, left)
        left -= len(text)
        yield frame, text


def _frames(
    view: memoryview, frames: Sequence[Frame], sha256: str, only: int | None
) -> Iterator[tuple[Frame, bytes]]:
    before = -1
    position = 0
    for frame in frames:
        if frame.bucket <= before:
            raise ValueError(f"manifest {sha256} has the files of bucket {frame.bucket} behind those of {before}")
        start, position, before = position, position + frame.bytes, frame.bucket
        if only not in (None, frame.bucket):
            continue
        content = bytes(view[start:position])
        if hashlib.sha256(content).hexdigest() != frame.sha256:
            raise ValueError(
                f"the files of bucket {frame.bucket} in manifest {sha256} do not match their digest"
            )
        yield frame, content
    if position != len(view):
        raise ValueError(f"manifest {sha256} has {len(view) - position} bytes behind its last frame")


def parsed_json(kind: TypeAdapter[Value], text: bytes, sha256: str) -> Value:
    """A manifest's JSON, or a part of it, as a value.

    Raises:
        ValueError: it is another value, or has so many values that they would exhaust the reader's memory.
    """
    check_values(text, sha256)
    try:
        return kind.validate_json(text)
    except ValidationError as error:
        raise ValueError(f"manifest {sha256}{_problem(error, text)}") from None


def _problem(error: ValidationError, text: bytes) -> str:
    """What is wrong, in the words of Java's ``ManifestHeader``; of a large text without reading it again."""
    if error.error_count() > _MAX_ERRORS or len(text) > _MAX_EXPLAINED_BYTES:
        return f" has {error.error_count()} wrong values"
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        is_followed = isinstance(wrong, json.JSONDecodeError) and wrong.msg == "Extra data"
        return " has something behind its JSON object" if is_followed else " is not a JSON object"
    if not isinstance(manifest, dict):
        return " is not a JSON object"
    wrong_fields = {one["loc"][0] for one in error.errors() if one["loc"]}
    for field, allowed in _ALLOWED.items():
        if field in wrong_fields:
            value = json.dumps(manifest.get(field), ensure_ascii=False, separators=(",", ":"))[:_MAX_SHOWN_CHARACTERS]
            return f": {field} is {value if field in manifest else 'missing'}; allowed: {allowed}"
    return f": {problems_of(error, 'manifest')}"


def check_values(text: bytes, sha256: str, before: int = 0) -> int:
    """Refuse too many values; how many these are together with those ``before``, of other parts of the manifest."""
    nodes, values = text.count(b"{") + text.count(b"["), before + text.count(b",")
    if nodes > _MAX_JSON_NODES or values > _MAX_JSON_VALUES:
        raise ValueError(
            f"manifest {sha256} has {nodes} objects and lists, and {values} values; allowed: {_MAX_JSON_NODES} and "
            f"{_MAX_JSON_VALUES}, enough for {MAX_MANIFEST_FILES} files"
        )
    return values


def decompressed(frame: bytes, sha256: str, max_bytes: int) -> bytes:
    """What a zstd frame holds, read piece by piece; what follows the frame is not looked at.

    Raises:
        ValueError: it is no zstd frame, is longer than ``max_bytes``, or not as long as it announces.
    """
    try:
        text = _decompressed(frame, max_bytes)
    except zstandard.ZstdError as error:
        raise ValueError(f"manifest {sha256} is not zstd: {error}") from error
    if text is None:
        raise ValueError(f"manifest {sha256} is longer than {max_bytes} bytes, or not as long as it announces")
    return text


def _decompressed(frame: bytes, max_bytes: int) -> bytes | None:
    announced_bytes = zstandard.frame_content_size(frame)  # -1: it announces nothing
    if announced_bytes > max_bytes:
        return None
    decompressor = zstandard.ZstdDecompressor(max_window_size=max(max_bytes, _LEAST_WINDOW_BYTES))
    text = bytearray()
    with decompressor.stream_reader(frame, read_across_frames=False) as reader:
        while piece := reader.read(_PIECE_BYTES):
            text += piece
            if len(text) > max_bytes:
                return None
    return bytes(text) if announced_bytes in (-1, len(text)) else None


PLAIN_FORMAT = 1
FRAMED_FORMAT = 2
FORMAT_VERSION = 2
"""The newest format that is read."""
MANIFEST_DIRECTORY = "manifests"
DATA_DIRECTORY = "data"
MAX_MANIFEST_BYTES = 128 << 20
"""Of a manifest's JSON, and of what is stored. An account that may load can put any bytes under a
manifest's name, so nothing larger is read, and no memory is taken for a size that a frame merely announces."""
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_CHARACTER = r"[^\n\r\u0085\u2028\u2029]"
_BUCKET_IN_FILE_NAME = re.compile(rf"({_CHARACTER}*)_([0-9]+)(?:\.{_CHARACTER}*)?")
"""Spark's ``BucketingUtils.bucketedFileName``, as Java matches it: where a reader looks for the table's bucket."""
_MARK = re.compile(r".*-g([0-9]{5})", re.DOTALL)
"""What comes before it in files of tables that have more buckets than their group: the group's bucket."""


class DataFile(Observed):
    """One immutable Parquet file. ``path`` is relative to the table's folder and begins with ``data/``.

    ``bucket`` is one of the group, by which the file is placed. The name ends with the table's bucket, which Spark
    reads (``_00012``). Where the table has more buckets than its group, the name has the group's before it
    (``-g00004_00012``), so that agents know a file's place by its name alone.

    ``partition`` gives the value of each partition column as Spark's string form, or None for NULL.

    Writers in Spark add ``keyRange``, on which readers in Spark rely; no other part reads it, and a form that a reader
    does not know means that nothing is known. It lists the first sort columns' values in the first row (at most two
    columns), then as many in the last row: whole numbers, days and microseconds since 1970, decimals without their
    point, texts, null. Of a text of more than 32 characters the first 32 are there; in the last row, the least text
    that is greater than all texts which begin so. There is none for other types, such as fractions.
    """

    path: str
    bucket: StrictInt
    partition: dict[str, str | None] = Field({}, max_length=MAX_KEY_COLUMNS)
    rows: Count
    bytes: Count
    sha256: str


class TableManifest(Observed):
    """All files of one snapshot of one table.

    The rows of every file are sorted by ``sorted_by`` as Spark sorts: ascending, NULL first, strings by their bytes,
    -0.0 equal to 0.0, NaN last. A change that would break this is refused when it commits; readers may rely on it.
    So they may on ``padded``: CHAR columns, by their names in files, of which every value has so many characters. Of a
    CHAR column that is not there files may hold shorter values, which earlier releases did not pad.

    ``commit_id`` is random, so that commits of equal files (two equal DELETEs at once) have different manifests, and
    neither takes the other's snapshot for its own.

    ``buckets`` is the group's number. A table with a multiple of it has its own in ``table_buckets``: its bucket j is
    placed with the group's bucket j mod ``buckets``, since pmod(hash, 32) mod 8 = pmod(hash, 8).
    """

    format_version: Count = PLAIN_FORMAT
    namespace: str
    table: str
    uid: str
    snapshot_id: Count
    commit_id: str = Field("", exclude_if=lambda commit_id: not commit_id)
    parent: str | None = None
    columns: tuple[Column, ...]
    bucketed_by: tuple[str, ...]
    partitioned_by: tuple[str, ...] = ()
    sorted_by: tuple[str, ...] = ()
    padded: dict[str, Count] = Field({}, exclude_if=lambda lengths: not lengths)
    buckets: StrictInt
    table_buckets: StrictInt | None = Field(None, exclude_if=lambda number: number is None)
    files: tuple[DataFile, ...] = ()

    @field_serializer("columns")
    def _without_comments(self, columns: tuple[Column, ...]) -> list[dict[str, Any]]:
        """Comments are the table's own: a snapshot does not change with them."""
        return [column.model_dump(by_alias=True, exclude={"comment"}) for column in columns]

    def files_of(self, bucket: int) -> tuple[DataFile, ...]:
        """The files of one bucket of the group, over all partitions."""
        return tuple(file for file in self.files if file.bucket == bucket)

    @property
    def partition_count(self) -> int:
        """How many partitions hold at least one file."""
        return len({tuple(sorted(file.partition.items(), key=lambda item: item[0])) for file in self.files})


class WrongDigest(ValueError):
    """A manifest's content does not match the digest in its name."""


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
    check_files(manifest.files, manifest.buckets, manifest.table_buckets)
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
        ValueError: a frame holds other files than the header lists, or all of them too many.
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
    """Refuse a manifest that a newer version of us wrote, or that is not stored as its format requires.

    Raises:
        ValueError: saying which format it has, which this release reads, and what to do.
    """
    if format_version > FORMAT_VERSION:
        raise ValueError(
            f"manifest {sha256} has format {format_version}; this release reads up to {FORMAT_VERSION}: use the image "
            "of the release that wrote it, or a later one (docs/reference/versions.md)"
        )
    if parts.is_framed != (format_version >= FRAMED_FORMAT):
        raise ValueError(f"manifest {sha256} is not stored as one of format {format_version}")


def check_files(files: Collection[BucketFile], buckets: int, table_buckets: int | None = None) -> None:
    """Refuse more files or buckets than a table may have, and files whose bucket is out of range or is not the one in
    their name.

    A wrong bucket id silently loses rows in joins (Spark reads the id from the file's name), hence the check
    wherever files enter: load, clone, read.

    Args:
        files: of the table.
        buckets: of its group.
        table_buckets: of the table, where it has more than its group.

    Raises:
        ValueError: naming what was found, for a file its bucket too, and what is allowed.
    """
    _check_count(len(files))
    if not 1 <= buckets <= MAX_BUCKETS:
        raise ValueError(f"buckets is {buckets}; allowed: 1 to {MAX_BUCKETS}")
    if table_buckets is not None and not (buckets < table_buckets <= MAX_BUCKETS and table_buckets % buckets == 0):
        raise ValueError(f"tableBuckets is {table_buckets}; allowed: a multiple of buckets, up to {MAX_BUCKETS}")
    if len({file.path for file in files}) != len(files):
        raise ValueError("the manifest lists a file twice; allowed: once")
    for file in files:
        mark, digits = _named(file.path)
        placed = mark or digits
        if placed != f"{file.bucket:05d}":
            raise ValueError(f"file {file.path} is listed in bucket {file.bucket} but its name has {placed or 'none'}")
        if not 0 <= file.bucket < buckets:
            raise ValueError(f"file {file.path} is in bucket {file.bucket}; allowed: 0 to {buckets - 1}")
        if not _is_of(mark, digits, buckets, table_buckets):
            both = f"{table_buckets or buckets} buckets in a group with {buckets}"
            raise ValueError(f"file {file.path} has no name of a table with {both}")


def _is_of(mark: str, digits: str, buckets: int, table_buckets: int | None) -> bool:
    """Whether a name tells a bucket of the table which is placed with the group's bucket that it tells."""
    if table_buckets is None:
        return not mark
    bucket = int(digits)
    return digits == f"{bucket:05d}" and bucket < table_buckets and mark == f"{bucket % buckets:05d}"


def _check_count(files: int) -> None:
    if files > MAX_MANIFEST_FILES:
        raise ValueError(f"the manifest names {files} files; allowed: {MAX_MANIFEST_FILES}")


def bucket_of_file_name(path: str) -> int | None:
    """The group's bucket that a file's name tells, or None."""
    mark, digits = _named(path)
    placed = mark or digits
    return int(placed) if placed else None


def _named(path: str) -> tuple[str, str]:
    """What a file's name tells: the group's bucket, empty if it is the table's; and the table's, which Spark reads."""
    match = _BUCKET_IN_FILE_NAME.fullmatch(path.rsplit("/", 1)[-1])
    if match is None:
        return "", ""
    mark = _MARK.fullmatch(match[1])
    return mark[1] if mark else "", match[2]


def manifest_path(sha256: str) -> str:
    """A manifest's path, relative to the table's folder."""
    return f"{MANIFEST_DIRECTORY}/{sha256}.json.zst"
