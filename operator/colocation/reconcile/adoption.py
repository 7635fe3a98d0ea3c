"""Decides what ``colocation adopt`` does with the folders of lost tables and commits. Pure.

A folder whose table is missing becomes a table again. A table that lacks files takes over a folder of its name that no
table has, however its uid is. A table that is older than its folder gets the newest snapshot there that is whole. Each
of these is found again in the objects, so the command may be interrupted and repeated.

Safety: a manifest on the disks may be that of a load which never committed. A table that has a snapshot gets a later
one only where no other manifest has its number, most nodes have it, as a commit demands, and nothing was committed
since the table went back.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from ..model.adoption import Folders, FolderSnapshot, NamedTable, TableFolder
from ..model.agent import ManifestSummary, RecycledSchema
from ..model.base import MAX_REPLICAS, parse_time
from ..model.spark_types import canonical_type

MAX_NAME_LENGTH = 63
MAX_NAMED_BUCKETS = 10
USUAL_COPIES = 2
RACE = timedelta(minutes=1)
NEVER_COMPLETE = (
    "no snapshot is complete: bring back nodes that are away and run this again, or drop the table, which has no rows"
)


class Does(StrEnum):
    """What ``adopt`` does with a folder."""

    CREATE = "create table"
    TAKE_OVER = "take over folder"
    COMMIT = "commit snapshot"
    WAIT = "wait for the nodes"
    NOTHING = ""


@dataclass(frozen=True)
class AdoptionStep:
    """One folder and what becomes of it. ``chosen``: the snapshot that the table gets, as far as it is known.

    ``reason``: why nothing is done, or what is to be known. ``passed_over``: newer snapshots, and why each is not
    taken. ``table``: that exists already. ``group``: of a table that is created.
    """

    folder: TableFolder
    does: Does = Does.NOTHING
    chosen: FolderSnapshot | None = None
    table: NamedTable | None = None
    group: str = ""
    reason: str = ""
    passed_over: tuple[str, ...] = ()

    @property
    def key(self) -> object:
        """The same for the same step, whenever it is decided."""
        return self.folder.path, self.does, self.chosen.snapshot.id if self.chosen and self.does is Does.COMMIT else 0

    @property
    def schema(self) -> RecycledSchema:
        """Of a table that is created: that of the snapshot that it gets, or of the newest one."""
        return (self.chosen or self.folder.snapshots[0]).table_schema


def adoption_steps(found: Folders, group: str | None = None, recycled: bool = False) -> list[AdoptionStep]:
    """One for each folder, in order.

    ``group``: of created tables; None = one per bucket key. ``recycled``: also create tables from folders that are in
    recycle bins only.
    """
    tables = {(one.namespace, one.name): one for one in found.tables}
    by_name: dict[tuple[str, str], list[TableFolder]] = {}
    for folder in found.folders:
        by_name.setdefault((folder.namespace, folder.table), []).append(folder)
    steps: list[AdoptionStep] = []
    for key, folders in by_name.items():
        table = tables.get(key)
        steps += _of_living(table, folders) if table else _of_lost(folders, group, recycled)
    return steps


# Which manifest is the newest


def newest_first(found: Iterable[Sequence[ManifestSummary]]) -> list[ManifestSummary]:
    """Manifests of one folder, each as the nodes report it that have it, the newest first.

    The highest number is the newest, but for a history that ended: after a restore of etcd or a rollback a table is
    loaded on top of an older snapshot, and numbers come again. A manifest on which none was committed is the end of a
    history. The end that was written clearly later than one of a higher number is the newest; its history goes first.
    Of two with one number one was never committed: that which more nodes have is the likelier.
    """
    reported = {each[0].sha256: each for each in found}

    def rank(sha256: str) -> tuple[int, int, str]:
        return reported[sha256][0].snapshot_id, len(reported[sha256]), _written_at(reported[sha256])

    by_number = sorted(reported, key=rank, reverse=True)
    parents = {each[0].parent for each in reported.values()}
    newest = by_number[0] if by_number else None
    for end in (sha256 for sha256 in by_number if sha256 not in parents and reported[sha256][0].parent):
        if newest and _is_clearly_later(reported[end], reported[newest]):
            newest = end
    history: list[str] = []
    while newest in reported and newest not in history:
        history.append(newest)
        newest = reported[newest][0].parent
    return [reported[sha256][0] for sha256 in [*history, *(one for one in by_number if one not in history)]]


def _written_at(reports: Sequence[ManifestSummary]) -> str:
    """The time in the middle of the nodes': one node's clock may be wrong, or the node a new one."""
    return sorted(one.modified_at for one in reports)[(len(reports) - 1) // 2]


def _is_clearly_later(one: Sequence[ManifestSummary], other: Sequence[ManifestSummary]) -> bool:
    """Writers that race publish their manifests within seconds of each other."""
    written_at, before = parse_time(_written_at(one)), parse_time(_written_at(other))
    return written_at is not None and before is not None and written_at - before > RACE


# Tables that are missing


def _of_lost(folders: Sequence[TableFolder], group: str | None, recycled: bool) -> Iterator[AdoptionStep]:
    """Of several folders of one name the newest snapshot wins; one that is whole in its place wins over the bins.

    While one cannot be checked, none is taken: it may have the newest.
    """
    steps = [_creation(folder, group, recycled) for folder in folders]
    winner = max((step for step in steps if step.does), key=_rank, default=None)
    for step in steps:
        if winner is None or step is winner or not step.does:
            yield step
            continue
        how = "has a newer snapshot" if _is_in_place(step) == _is_in_place(winner) else "is in its place"
        if winner.does is Does.WAIT:
            how = "is not checked yet"
        yield AdoptionStep(step.folder, reason=f"folder {winner.folder.directory} of the same table {how}")


def _rank(step: AdoptionStep) -> tuple[bool, bool, str, int]:
    if step.does is Does.WAIT:
        return True, True, "", 0
    newest = (step.chosen or step.folder.snapshots[0]).snapshot
    return False, _is_in_place(step), newest.committed_at, newest.id


def _is_in_place(step: AdoptionStep) -> bool:
    return step.chosen is not None


def _creation(folder: TableFolder, group: str | None, recycled: bool) -> AdoptionStep:
    chosen = folder.chosen
    if chosen is not None:
        name = group or group_name(chosen.table_schema)
        return AdoptionStep(folder, Does.CREATE, chosen, group=name, passed_over=_newer(folder, chosen))
    if not folder.recycled_nodes or not folder.snapshots:
        does = Does.NOTHING if folder.is_checked else Does.WAIT
        reason = folder.problem or "no snapshot is complete; nodes that are away may have the rest"
        return AdoptionStep(folder, does, reason=reason, passed_over=_newer(folder, None))
    listed = ", ".join(folder.recycled_nodes)
    if not recycled:
        reason = f"it is in the recycle bin of {listed}; to adopt it, unless it was dropped on purpose: --recycled"
        return AdoptionStep(folder, reason=reason)
    note = f"it comes from the recycle bin of {listed}; its files are verified once they are in their place"
    return AdoptionStep(folder, Does.CREATE, group=group or group_name(folder.snapshots[0].table_schema), reason=note)


def _newer(folder: TableFolder, chosen: FolderSnapshot | None) -> tuple[str, ...]:
    newer = (one for one in folder.snapshots if chosen is None or one.snapshot.id > chosen.snapshot.id)
    return tuple(f"snapshot {one.snapshot.id}: {_why_not(one)}" for one in newer)


def _why_not(snapshot: FolderSnapshot) -> str:
    if snapshot.missing_buckets is None:
        return "not checked; it is in a recycle bin, or a newer one is complete"
    return f"no node has complete buckets {', '.join(map(str, snapshot.missing_buckets[:MAX_NAMED_BUCKETS]))}"


# Tables that exist


def _of_living(table: NamedTable, folders: Sequence[TableFolder]) -> Iterator[AdoptionStep]:
    own = next((one for one in folders if one.directory == table.directory), None)
    others = [one for one in folders if one is not own]
    best = max(others, key=lambda one: _fitness(table, one), default=None)
    if own is not None and (table.is_whole or best is None):
        yield from _commit(table, own)
    for folder in others:
        if folder.uid_digits == table.adopts:
            yield AdoptionStep(folder, Does.TAKE_OVER, folder.chosen, table, reason="nodes hand over their files")
        elif table.is_whole:
            reason = "the table exists and has its files; this folder is of another table of the same name"
            yield AdoptionStep(folder, table=table, reason=reason)
        elif folder is best:
            yield AdoptionStep(folder, Does.TAKE_OVER, folder.chosen, table, reason="the table lacks files")
        else:
            yield AdoptionStep(folder, table=table, reason=f"folder {best.directory if best else ''} goes first")


def _fitness(table: NamedTable, folder: TableFolder) -> tuple[bool, bool, int]:
    """A folder that has the table's own snapshot goes first, or that which it takes over already."""
    wanted = table.snapshot.manifest if table.snapshot else ""
    if folder.uid_digits == table.adopts:
        return True, True, 1 << 63
    has_it = any(one.snapshot.manifest == wanted for one in folder.snapshots)
    newest = max((one.snapshot.id for one in folder.snapshots), default=0)
    return has_it, bool(folder.nodes_in_place), newest


def _commit(table: NamedTable, own: TableFolder) -> Iterator[AdoptionStep]:
    """The newest snapshot of its folder, if it is later than the committed one."""
    committed = table.snapshot
    newer = [one for one in own.snapshots if committed is None or one.snapshot.id > committed.id]
    if not newer:
        return
    reasons = [(one, _refusal(table, own, one)) for one in newer]
    chosen = next((one for one, reason in reasons if not reason), None)
    later = [(one, reason) for one, reason in reasons if chosen is None or one.snapshot.id > chosen.snapshot.id]
    passed_over = tuple(f"snapshot {one.snapshot.id}: {reason}" for one, reason in later)
    may_come = not own.is_checked and any(reason == _why_not(one) for one, reason in reasons)
    is_handed_over = committed is None and table.adopts and all(one.missing_buckets is None for one in newer)
    if chosen is None and (may_come or is_handed_over):
        yield AdoptionStep(own, Does.WAIT, table=table, reason=own.problem or "its files are not verified yet")
    elif chosen is None:
        hint = NEVER_COMPLETE if committed is None and table.adopts else "no later snapshot can be taken"
        yield AdoptionStep(own, table=table, reason=hint, passed_over=passed_over)
    else:
        yield AdoptionStep(own, Does.COMMIT, chosen, table, passed_over=passed_over)


def _refusal(table: NamedTable, own: TableFolder, found: FolderSnapshot) -> str:
    """Why the table cannot get this snapshot; empty = it can."""
    committed = table.snapshot
    if committed is not None and _was_loaded_since(committed.id, committed.manifest, own.snapshots):
        return f"the table was loaded again since: there is another snapshot {committed.id}"
    written_at = parse_time(found.snapshot.committed_at)
    committed_at = parse_time(committed.committed_at) if committed else None
    if written_at is not None and committed_at is not None and written_at < committed_at:
        return f"the table was loaded again since: snapshot {committed.id if committed else 0} is younger"
    if committed is not None and sum(one.snapshot.id == found.snapshot.id for one in own.snapshots) > 1:
        return "two loads wrote a snapshot of this number; one of them did not commit"
    if not found.is_whole:
        return _why_not(found)
    if committed is not None and 2 * len(found.nodes) <= len(own.nodes):
        return f"only {len(found.nodes)} of {len(own.nodes)} nodes have its manifest, so its load may have failed"
    known = {(column.name.lower(), canonical_type(column.type)) for column in table.columns}
    lost = [one.name for one in found.table_schema.columns if (one.name.lower(), canonical_type(one.type)) not in known]
    return f"it has columns {', '.join(lost)}, which the table lacks; add them first" if lost else ""


def _was_loaded_since(number: int, manifest: str, snapshots: Iterable[FolderSnapshot]) -> bool:
    return any(one.snapshot.id == number and one.snapshot.manifest != manifest for one in snapshots)


# Groups of tables that are created


def group_name(schema: RecycledSchema) -> str:
    """The group of adopted tables of this bucket key: the same for all of them, however often the command is run."""
    types = [
        canonical_type(column.type)
        for key in schema.bucketed_by
        for column in schema.columns
        if column.name.lower() == key.lower()
    ]
    text = re.sub(r"[^a-z0-9]+", "-", f"adopted-{'-'.join(types)}-{schema.buckets}".lower())
    return text if len(text) <= MAX_NAME_LENGTH else f"{text[: MAX_NAME_LENGTH - 7].rstrip('-')}-{schema.buckets}"


def replicas_of(step: AdoptionStep, steps: Iterable[AdoptionStep]) -> int:
    """As many as the tables of the group have copies; those in recycle bins are not counted yet."""
    key = (step.folder.namespace, step.group)
    copies = [
        one.chosen.copies if one.chosen else min(USUAL_COPIES, len(one.folder.nodes))
        for one in steps
        if one.does is Does.CREATE and (one.folder.namespace, one.group) == key
    ]
    return min(MAX_REPLICAS, max([1, *copies]))
