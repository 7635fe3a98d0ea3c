"""The report on a table: its files on this node compared with what its manifests want. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from colocation.model.agent import BucketReport, ReplicaState, TableReference, TableReport
from colocation.model.table_manifest import bucket_of_file_name

from .contents import HeldFile
from .wanted import WantedFile, WantedFiles

MAX_LISTED_CORRUPT_FILES = 20
"""Per bucket, enough to see what happened; counts are complete."""
MAX_BUCKETS_WITH_LISTS = 256
"""Buckets of a table whose corrupt files are listed; for others only counts are reported."""
MAX_NAMED_FILES = 65_536
"""A bucket with more files does not report which it holds: the list would exceed 16 KiB."""


@dataclass
class _Tally:
    files_wanted: int = 0
    files_held: int = 0
    files_waiting: int = 0
    bytes_wanted: int = 0
    bytes_held: int = 0
    corrupt: list[str] = field(default_factory=list)
    lacking: list[int] = field(default_factory=list)
    """Positions of files that are not held, among the wanted ones."""

    def add_damaged(self, path: str, wanted: WantedFile) -> None:
        """Count a file that is in the quarantine."""
        self.lacking.append(self.files_wanted)
        self.files_wanted += 1
        self.bytes_wanted += wanted.bytes
        self.corrupt.append(path)


def is_corrupt(held: HeldFile, wanted: WantedFile) -> bool:
    """Whether a file is known to differ from what its manifest names. A wrong size needs no hash."""
    return held.identity.bytes != wanted.bytes or (held.sha256 is not None and held.sha256 != wanted.sha256)


def table_report(
    reference: TableReference,
    wanted: WantedFiles | None,
    retained: Collection[WantedFiles],
    held: Mapping[str, HeldFile],
    quarantined: Collection[str] = (),
) -> TableReport:
    """The report on one table.

    A file in ``quarantined`` that is not held again is damaged. A file counts as held only once it was hashed and found
    right; until then its bucket is ``partial``. Only buckets that want files are listed; buckets for which only
    retained snapshots have files are in ``retained_only``.

    ``wanted`` is None if the wanted manifest is not held; the buckets are then taken from file names. Without a wanted
    manifest (before a table's first load) nothing is missing, so ``manifest_present`` is True.
    """
    tallies: dict[int, _Tally] = defaultdict(_Tally)
    for path, file in (wanted or {}).items():
        if path in quarantined and path not in held:
            tallies[file.bucket].add_damaged(path, file)
        else:
            _count(tallies[file.bucket], path, file, held.get(path))
    named = [wanted or {}, *retained]
    surplus = sum(file.identity.bytes for path, file in held.items() if not any(path in files for files in named))
    is_present = reference.manifest is None or wanted is not None
    return TableReport(
        namespace=reference.namespace,
        directory=reference.directory,
        manifest=reference.manifest,
        manifest_present=is_present,
        buckets=_bucket_reports(tallies),
        surplus_bytes=surplus,
        retained_present=len(retained) == len(reference.retained_manifests),
        retained_missing=_retained_missing(retained, held),
        retained_only=_retained_only(retained, tallies),
        unnamed_buckets=() if is_present else _buckets_by_name(held),
    )


def absent_report(reference: TableReference) -> TableReport:
    """The report on a table of which nothing is known here."""
    return TableReport(
        namespace=reference.namespace,
        directory=reference.directory,
        manifest=reference.manifest,
        manifest_present=False,
        retained_present=not reference.retained_manifests,
    )


def _buckets_by_name(paths: Iterable[str]) -> tuple[int, ...]:
    return tuple(sorted({bucket for path in paths if (bucket := bucket_of_file_name(path)) is not None}))


def _retained_missing(retained: Collection[WantedFiles], held: Mapping[str, HeldFile]) -> tuple[int, ...]:
    """Buckets for which a file of a retained snapshot is missing or damaged."""
    missing = set()
    for files in retained:
        for path, file in files.items():
            found = held.get(path)
            if found is None or is_corrupt(found, file):
                missing.add(file.bucket)
    return tuple(sorted(missing))


def _retained_only(retained: Collection[WantedFiles], wanted: Collection[int]) -> tuple[int, ...]:
    """Buckets for which only retained snapshots have files."""
    return tuple(sorted({file.bucket for files in retained for file in files.values()}.difference(wanted)))


def _count(tally: _Tally, path: str, wanted: WantedFile, held: HeldFile | None) -> None:
    position = tally.files_wanted
    tally.files_wanted += 1
    tally.bytes_wanted += wanted.bytes
    if held is not None and held.sha256 is not None and not is_corrupt(held, wanted):
        tally.files_held += 1
        tally.bytes_held += wanted.bytes
        return
    tally.lacking.append(position)
    if held is None:
        return
    if is_corrupt(held, wanted):
        tally.corrupt.append(path)
    else:
        tally.files_waiting += 1


def _bucket_reports(tallies: Mapping[int, _Tally]) -> dict[int, BucketReport]:
    damaged = sorted(bucket for bucket, tally in tallies.items() if tally.corrupt)
    listing = frozenset(damaged[:MAX_BUCKETS_WITH_LISTS])
    return {bucket: _bucket_report(tally, bucket in listing) for bucket, tally in sorted(tallies.items())}


def _bucket_report(tally: _Tally, lists_corrupt: bool) -> BucketReport:
    return BucketReport(
        state=_state(tally),
        files_wanted=tally.files_wanted,
        files_held=tally.files_held,
        bytes_wanted=tally.bytes_wanted,
        bytes_held=tally.bytes_held,
        corrupt_files=tuple(sorted(tally.corrupt)[:MAX_LISTED_CORRUPT_FILES]) if lists_corrupt else (),
        held_files=_held_files(tally),
    )


def _held_files(tally: _Tally) -> str:
    if not 0 < tally.files_held < tally.files_wanted or tally.files_wanted > MAX_NAMED_FILES:
        return ""
    lacking = bytearray((tally.files_wanted + 7) // 8)
    for position in tally.lacking:
        lacking[position // 8] |= 1 << position % 8
    held = (1 << tally.files_wanted) - 1 & ~int.from_bytes(lacking, "little")
    return f"{held:0{2 * len(lacking)}x}"


def _state(tally: _Tally) -> ReplicaState | None:
    if tally.corrupt:
        return "corrupt"
    if tally.files_held == tally.files_wanted:
        return "complete"
    return "partial" if tally.files_held or tally.files_waiting else None
