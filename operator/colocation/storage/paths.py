"""Names that are allowed below a data root: strict allow-lists, checked before the disk is touched.

The second line of defence is ``folders``, which opens every step below the root without following links.
"""

import re
from typing import NamedTuple

from colocation.model.base import MAX_KEY_COLUMNS
from colocation.model.table_manifest import DATA_DIRECTORY, MANIFEST_DIRECTORY

from .errors import InvalidPath

UID_CHARACTERS = 8
MAX_NAME_BYTES = 255
"""NAME_MAX of Linux file systems."""

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_DIRECTORY = re.compile(rf"{_LABEL}(?:\.{_LABEL})*-[0-9a-f]{{{UID_CHARACTERS}}}")
_UNESCAPED = r"""[^\x00-\x1f\x7f"#%'*/:=?\\{\[\]^\ud800-\udfff]"""
_ESCAPED = r"%(?!00|2E)[0-9A-F]{2}"
_PARTITION = re.compile(rf"(?:{_UNESCAPED}|{_ESCAPED})+=(?:{_UNESCAPED}|{_ESCAPED})+")
"""``column=value`` as Spark's ``ExternalCatalogUtils.escapePathName`` writes it."""
_DATA_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*_[0-9]+(?:\.[A-Za-z0-9_-]+)*\.parquet")
_MANIFEST_FILE = re.compile(r"([0-9a-f]{64})\.json\.zst")


class TablePath(NamedTuple):
    """A table's folder, ``<namespace>/<table>-<uid8>``; made only by ``table_path``."""

    namespace: str
    directory: str

    @property
    def table(self) -> str:
        """The table's name."""
        return self.directory[: -UID_CHARACTERS - 1]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.directory}"


def table_path(namespace: str, directory: str) -> TablePath:
    """The folder of a table.

    Raises:
        InvalidPath: the namespace is not allowed, or the directory is not ``<table>-<uid8>``.
    """
    if len(namespace) > 63 or not _NAMESPACE.fullmatch(namespace):
        raise InvalidPath(f"namespace {namespace!r} is not allowed; allowed: a Kubernetes namespace, e.g. shop")
    if len(directory) > MAX_NAME_BYTES or not _DIRECTORY.fullmatch(directory):
        raise InvalidPath(
            f"directory {directory!r} is not allowed; allowed: <table>-<first 8 hex digits of its uid>, "
            "e.g. orders-0a1b2c3d"
        )
    return TablePath(namespace, directory)


def file_segments(path: str) -> tuple[str, ...]:
    """Split a path relative to a table's folder: a data file's or a manifest's.

    Raises:
        InvalidPath: it is neither ``data/<column=value>/…/<name>_<bucket>….parquet`` nor
            ``manifests/<sha256>.json.zst``.
    """
    segments = tuple(path.split("/"))
    if segments[0] == MANIFEST_DIRECTORY and len(segments) == 2 and _MANIFEST_FILE.fullmatch(segments[1]):
        return segments
    if segments[0] == DATA_DIRECTORY and 2 <= len(segments) <= MAX_KEY_COLUMNS + 2 and is_data_file_name(segments[-1]):
        wrong = [segment for segment in segments[1:-1] if not is_partition_folder(segment)]
        if not wrong:
            return segments
    raise InvalidPath(
        f"path {path!r} is not allowed; allowed: data/[<column>=<value>/…]<name>_<bucket>[.…].parquet "
        "with values escaped as Spark does, or manifests/<sha256>.json.zst"
    )


def is_file_path(path: str) -> bool:
    """Whether a path relative to a table's folder is allowed: see ``file_segments``."""
    try:
        file_segments(path)
    except InvalidPath:
        return False
    return True


def is_partition_folder(name: str) -> bool:
    """Whether a folder's name is ``column=value``, escaped as Spark escapes it."""
    return _PARTITION.fullmatch(name) is not None and len(name.encode()) <= MAX_NAME_BYTES


def is_data_file_name(name: str) -> bool:
    """Whether the name is that of a Parquet file with a bucket id where Spark looks for it."""
    return len(name) <= MAX_NAME_BYTES and _DATA_FILE.fullmatch(name) is not None


def sha256_of_manifest_path(path: str) -> str | None:
    """The digest in a manifest's path; None for data files."""
    match = _MANIFEST_FILE.fullmatch(path.rpartition("/")[2])
    return match[1] if match else None


def is_namespace(name: str) -> bool:
    """Whether a folder name below the root is that of a namespace."""
    return len(name) <= 63 and _NAMESPACE.fullmatch(name) is not None


def is_table_directory(name: str) -> bool:
    """Whether a folder name below a namespace is that of a table."""
    return len(name) <= MAX_NAME_BYTES and _DIRECTORY.fullmatch(name) is not None
