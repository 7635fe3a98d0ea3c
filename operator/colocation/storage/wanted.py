"""The files that a table's manifests want, in a compact form, loaded once per manifest."""

import logging
import os
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, StrictInt, TypeAdapter

from colocation.model.table import Count
from colocation.model.table_manifest import (
    MAX_MANIFEST_BYTES,
    WrongDigest,
    check_files,
    check_format,
    files_of_frames,
    manifest_parts,
    manifest_path,
    parsed_json,
)

from .errors import InvalidPath, NotHeld
from .ledger import FileIdentity, identity_of
from .memory_limits import ManifestRoom
from .paths import TablePath, sha256_of_manifest_path
from .root import DataRoot

SPARE_MANIFESTS = 2
"""Kept in addition to the live ones: a load verifies a manifest just before it commits."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file as a manifest names it, without its partition and rows; ``sha256`` is 64 hex digits."""

    path: str
    bucket: StrictInt
    bytes: Count
    sha256: str


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The part of a ``TableManifest`` that names the files: less than half of its memory."""

    format_version: Annotated[Count, Field(alias="formatVersion")]
    buckets: StrictInt
    files: list[WantedFile] | None = None
    table_buckets: Annotated[StrictInt | None, Field(alias="tableBuckets")] = None


_WANTED: TypeAdapter[_Wanted] = TypeAdapter(_Wanted)
_FILES: TypeAdapter[list[WantedFile]] = TypeAdapter(list[WantedFile])

WantedFiles = Mapping[str, WantedFile]
"""By path relative to the table's folder."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A manifest as it was read. ``files`` is None if it was not understood or found no room in memory.

    ``names``: how many files it names; 0 if it was not understood.
    """

    identity: FileIdentity
    names: int
    files: WantedFiles | None


class ManifestCache:
    """The manifests of one table in memory: the live ones, and the few others that were used last.

    Only ``expected_sha256`` may be called by several threads at a time: reads of files call it and must not wait.

    Args:
        root: where the table is.
        table: whose manifests.
        room: in memory, shared by all tables.
    """

    def __init__(self, root: DataRoot, table: TablePath, room: ManifestRoom | None = None) -> None:
        self._root = root
        self._table = table
        self._room = room or ManifestRoom()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._live: Collection[str] = ()
        self._live_files: tuple[WantedFiles, ...] = ()

    def wanted(self, sha256: str) -> WantedFiles | None:
        """The files of a manifest; None if it is not held, is damaged, finds no room, or is no digest.

        The digest may come from a status that a tenant wrote. The manifest is read again only if it looks changed.
        """
        try:
            with self._root.file(self._table, manifest_path(sha256)) as descriptor:
                identity = identity_of(os.fstat(descriptor))
                known = self._known.get(sha256)
                if known is not None and known.identity == identity and not self._finds_room_now(known):
                    self._known.move_to_end(sha256)
                    return known.files
                self._drop(sha256)
                known = self._read(descriptor, identity, sha256)
        except (NotHeld, InvalidPath):
            known = None
            self._drop(sha256)
        finally:
            self._publish()
        return None if known is None else known.files

    def expected_sha256(self, path: str) -> str | None:
        """The digest that the newest live manifest gives for a file.

        Other manifests do not count: an account that may put files may also put manifests, and could make other content
        the right one.
        """
        return next((files[path].sha256 for files in self._live_files if path in files), None)

    def count_named(self) -> int:
        """How many files the live manifests in memory name; a file that several name counts for each."""
        return sum(map(len, self._live_files))

    def live_digests(self, path: str) -> frozenset[str] | None:
        """The digests that live manifests give for the file; empty if none names it, None while one of them is not
        known.

        Not for several threads at a time.
        """
        own = sha256_of_manifest_path(path)
        if own is not None:
            return frozenset({own} & set(self._live))
        if len(self._live_files) < len(self._live):
            return None
        return frozenset(files[path].sha256 for files in self._live_files if path in files)

    def calls_damaged(self, path: str, sha256: str) -> bool:
        """Whether live manifests name the file, and none of them with this content.

        A manifest's own file is damaged if its content is not its name.
        """
        own = sha256_of_manifest_path(path)
        if own is not None:
            return own != sha256
        named = {files[path].sha256 for files in self._live_files if path in files}
        return bool(named) and sha256 not in named

    def keep(self, live: Collection[str]) -> None:
        """Set the live manifests. If they changed, all others are dropped: a load has committed what it had verified.
        """
        if live != self._live:
            self._live = live
            self._keep_newest(0)
            self._publish()

    def _keep_newest(self, spares: int) -> None:
        others = [sha256 for sha256 in self._known if sha256 not in self._live]
        for sha256 in others[: len(others) - spares]:
            self._drop(sha256)

    def clear(self) -> None:
        """Read every manifest again when it is next used."""
        for sha256 in list(self._known):
            self._drop(sha256)
        self._publish()

    def __contains__(self, sha256: str | None) -> bool:
        return sha256 in self._known

    def close(self) -> None:
        """Give back all room, and take none again."""
        self.clear()
        self._room = ManifestRoom(0)

    def _read(self, descriptor: int, identity: FileIdentity, sha256: str) -> _Known | None:
        """Read and remember a manifest; one with the wrong digest is read again the next time."""
        try:
            files = _decoded(descriptor, identity.bytes, sha256)
        except WrongDigest as error:
            _log.warning("table %s: %s", self._table, error)
            return None
        except ValueError as error:
            _log.warning("table %s: %s", self._table, error)
            known = _Known(identity, 0, None)
        else:
            known = self._with_room(identity, files, sha256)
        self._known[sha256] = known
        self._keep_newest(SPARE_MANIFESTS)
        return known

    def _with_room(self, identity: FileIdentity, files: WantedFiles, sha256: str) -> _Known:
        if not self._room.has(self._table.namespace, len(files)):
            self._keep_newest(0)
        if self._room.take(self._table.namespace, len(files)):
            return _Known(identity, len(files), files)
        _log.warning(
            "table %s: manifest %s names %d files, for which this agent has no memory left; it counts as missing. Give "
            "agents more (agent.resources.limits.memory), or compact the tables of namespace %s",
            self._table, sha256, len(files), self._table.namespace,
        )  # fmt: skip
        return _Known(identity, len(files), None)

    def _finds_room_now(self, known: _Known) -> bool:
        """Whether a manifest that found no room would find it now."""
        return known.files is None and known.names > 0 and self._room.has(self._table.namespace, known.names)

    def _drop(self, sha256: str) -> None:
        known = self._known.pop(sha256, None)
        if known is not None and known.files is not None:
            self._room.give_back(self._table.namespace, known.names)

    def _publish(self) -> None:
        newest_first = [(sha256, known.files) for sha256, known in reversed(self._known.items())]
        self._live_files = tuple(files for sha256, files in newest_first if files is not None and sha256 in self._live)


def files_of_bucket(root: DataRoot, table: TablePath, sha256: str, bucket: int) -> list[WantedFile] | None:
    """The files of one bucket that a manifest names; None if it is not held or is damaged.

    For a manifest of format 2, memory and time depend on these files only.
    """
    try:
        with root.file(table, manifest_path(sha256)) as descriptor:
            files = _decoded(descriptor, os.fstat(descriptor).st_size, sha256, bucket).values()
    except (NotHeld, InvalidPath):
        return None
    except ValueError as error:
        _log.warning("table %s: %s", table, error)
        return None
    return [file for file in files if file.bucket == bucket]


def _decoded(descriptor: int, length: int, sha256: str, bucket: int | None = None) -> WantedFiles:
    if length > MAX_MANIFEST_BYTES:
        raise ValueError(f"manifest {sha256} has {length} bytes; allowed: {MAX_MANIFEST_BYTES}")
    with os.fdopen(os.dup(descriptor), "rb") as file:
        parts = manifest_parts(file.read(length), sha256, bucket)
    wanted = parsed_json(_WANTED, parts.text, sha256)
    check_format(wanted.format_version, sha256, parts)
    files = files_of_frames(parts, sha256, _FILES) if parts.is_framed else wanted.files
    if files is None:
        raise ValueError(f"manifest {sha256} has no list of files")
    check_files(files, wanted.buckets, wanted.table_buckets)
    return {file.path: file for file in files}
