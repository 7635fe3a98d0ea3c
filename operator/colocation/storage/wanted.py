"""Which files a table's manifests want, in a compact form, loaded once per manifest."""

import logging
import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from colocation.model.table_manifest import decode_manifest, manifest_path

from .errors import InvalidPath, NotHeld
from .hashing import FileIdentity, identity_of
from .paths import TablePath
from .root import DataRoot

SPARE_MANIFESTS = 2
"""Kept beside the live ones: what a load verifies just before it commits."""

_log = logging.getLogger(__name__)


class WantedFile(NamedTuple):
    """A file as its manifest describes it; ``sha256`` is 64 hex digits."""

    bucket: int
    bytes: int
    sha256: str


WantedFiles = Mapping[str, WantedFile]
"""By path relative to the table's folder."""


class ManifestShelf:
    """The manifests of one table that were used lately. Not safe to share between threads."""

    def __init__(self, root: DataRoot, table: TablePath) -> None:
        self._root = root
        self._table = table
        self._loaded: OrderedDict[str, tuple[FileIdentity, WantedFiles]] = OrderedDict()

    def wanted(self, sha256: str) -> WantedFiles | None:
        """The files of a manifest; None when it is not held or is damaged. Reads it only if it looks changed."""
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
            if not isinstance(error, NotHeld):
                _log.warning("table %s: %s", self._table, error)
            return None
        self._loaded[sha256] = (identity, files)
        return files

    def expected_sha256(self, path: str) -> str | None:
        """The digest that a loaded manifest gives for a file. A path never has two: file names are per load."""
        for _, files in reversed(self._loaded.values()):
            wanted = files.get(path)
            if wanted is not None:
                return wanted.sha256
        return None

    def keep(self, live: Iterable[str]) -> None:
        """Drop what is neither live nor was used lately."""
        kept = set(live)
        for sha256 in list(self._loaded)[: -SPARE_MANIFESTS or None]:
            if sha256 not in kept:
                del self._loaded[sha256]


def _decoded(descriptor: int, length: int, sha256: str) -> WantedFiles:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        manifest = decode_manifest(file.read(length), sha256)
    return {file.path: WantedFile(file.bucket, file.bytes, file.sha256) for file in manifest.files}
