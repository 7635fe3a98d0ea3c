"""Which files a table's manifests want, in a compact form, loaded once per manifest."""

import logging
import os
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter

from colocation.model.content_digest import is_sha256
from colocation.model.table_manifest import (
    MAX_MANIFEST_BYTES,
    check_buckets,
    check_format,
    files_of_frames,
    manifest_parts,
    manifest_path,
)

from .errors import InvalidPath, NotHeld
from .hashing import FileIdentity, identity_of
from .paths import TablePath, sha256_of_manifest_path
from .root import DataRoot

SPARE_MANIFESTS = 2
"""Kept beside the live ones: what a load verifies just before it commits."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WantedFile:
    """What a manifest says of a file, without its partition and rows; ``sha256`` is 64 hex digits."""

    path: str
    bucket: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The part of a ``TableManifest`` that says what to hold: less than half of its memory."""

    format_version: Annotated[int, Field(alias="formatVersion")]
    buckets: int
    files: list[WantedFile] | None = None


_WANTED: TypeAdapter[_Wanted] = TypeAdapter(_Wanted)
_FILES: TypeAdapter[list[WantedFile]] = TypeAdapter(list[WantedFile])

WantedFiles = Mapping[str, WantedFile]
"""By path relative to the table's folder."""


class ManifestShelf:
    """The manifests of one table that were used lately.

    Only ``expected_sha256`` may be called by several threads at once: reads of files ask it and must not wait.
    """

    def __init__(self, root: DataRoot, table: TablePath) -> None:
        self._root = root
        self._table = table
        self._loaded: OrderedDict[str, tuple[FileIdentity, WantedFiles]] = OrderedDict()
        self._newest_first: tuple[WantedFiles, ...] = ()

    def wanted(self, sha256: str) -> WantedFiles | None:
        """The files of a manifest; None when it is not held, is damaged, or is no digest at all (from a status that a
        tenant wrote). Reads it only if it looks changed.
        """
        if not is_sha256(sha256):
            return None
        try:
            with self._root.file(self._table, manifest_path(sha256)) as descriptor:
                identity = identity_of(os.fstat(descriptor))
                known = self._loaded.get(sha256)
                if known is not None and known[0] == identity:
                    self._loaded.move_to_end(sha256)
                    return known[1]
                files = _decoded(descriptor, identity.bytes, sha256)
        except (NotHeld, InvalidPath, ValueError) as error:
            self._loaded.pop(sha256, None)
            self._publish()
            if not isinstance(error, NotHeld):
                _log.warning("table %s: %s", self._table, error)
            return None
        self._loaded[sha256] = (identity, files)
        self._publish()
        return files

    def expected_sha256(self, path: str) -> str | None:
        """The digest that a loaded manifest gives for a file. A path never has two: file names are per load."""
        for files in self._newest_first:
            wanted = files.get(path)
            if wanted is not None:
                return wanted.sha256
        return None

    def calls_damaged(self, path: str, sha256: str, live: Collection[str]) -> bool:
        """Whether a live manifest names the file with another content than this, and none that is loaded with this.

        A manifest's own file is damaged when its content is not its name.
        """
        own = sha256_of_manifest_path(path)
        if own is not None:
            return own != sha256
        loaded = list(self._loaded.items())
        if any(path in files and files[path].sha256 == sha256 for _, (_, files) in loaded):
            return False
        return any(path in files for manifest, (_, files) in loaded if manifest in live)

    def keep(self, live: Collection[str]) -> None:
        """Drop what is neither live nor was used lately."""
        for sha256 in list(self._loaded)[:-SPARE_MANIFESTS]:
            if sha256 not in live:
                del self._loaded[sha256]
        self._publish()

    def clear(self) -> None:
        """Read every manifest again when it is next used."""
        self._loaded.clear()
        self._publish()

    def __contains__(self, sha256: str | None) -> bool:
        return sha256 in self._loaded

    def _publish(self) -> None:
        self._newest_first = tuple(files for _, files in reversed(self._loaded.values()))


def _decoded(descriptor: int, length: int, sha256: str) -> WantedFiles:
    if length > MAX_MANIFEST_BYTES:
        raise ValueError(f"manifest {sha256} has {length} bytes; allowed: {MAX_MANIFEST_BYTES}")
    with os.fdopen(os.dup(descriptor), "rb") as file:
        parts = manifest_parts(file.read(length), sha256)
    wanted = _WANTED.validate_json(parts.text)
    check_format(wanted.format_version, sha256, parts)
    files = files_of_frames(parts, sha256, _FILES) if parts.is_framed else wanted.files
    if files is None:
        raise ValueError(f"manifest {sha256} says nothing of files")
    check_buckets(files, wanted.buckets)
    return {file.path: file for file in files}
