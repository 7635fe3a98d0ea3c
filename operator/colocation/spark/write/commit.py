"""The commit of a change: manifest to the agents, verified there, then a compare-and-set of ``status.snapshot``.

Invariant: a snapshot is published only after as many nodes as a majority of a bucket's replicas hold each new file and
the manifest. All that is done before is garbage if the compare-and-set does not happen.

An answer that is lost (a server error, a time-out, a cut connection) says neither that the compare-and-set happened nor
that it did not. The table is then read again: its status decides, never a guess. While it still holds the snapshot of
before, the same compare-and-set is sent again; of any number of them one at most can happen.
"""

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass

from colocation.model.retention import retained_history
from colocation.model.schema_evolution import refused_change
from colocation.model.table import TableSnapshot
from colocation.model.table_manifest import TableManifest, check_buckets

from ..agents import NoAgentAnswers
from ..catalog import Catalog, NoAnswer, NotAllowed, TableObject, WriteConflict
from .changes import Change, Overtaken
from .copies import Substitute
from .publication import Published

MAX_ATTEMPTS = 50
"""Writers that change a table's object at once are few; more conflicts in a row mean that something is wrong."""
ANSWER_DEADLINE_SECONDS = 120
"""How long the API server is asked whether a commit whose answer was lost has happened."""
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 5.0
"""Between two questions; each wait is twice as long as the one before."""


class LoadConflict(Exception):
    """Another load changed the table meanwhile, and this one may not go on top of it. Nothing was changed."""


class CommitUnknown(Exception):
    """The API server did not say whether the commit happened; the message says how to find out and what to do then."""


@dataclass(frozen=True)
class Committed:
    """What a commit did.

    Attributes:
        snapshot: the table's new one.
        manifest: of that snapshot.
        parent: the manifest that it followed; None when there was none.
        replicas_missing: copies of new files that the operator has yet to make.
        substitutes: where copies lie meanwhile.
    """

    snapshot: TableSnapshot
    manifest: TableManifest
    parent: TableManifest | None
    replicas_missing: int
    substitutes: tuple[Substitute, ...] = ()


def next_manifest(table: TableObject, parent: TableManifest | None, change: Change) -> TableManifest:
    """The manifest after the change. Pure.

    Raises:
        LoadConflict: the files there are bucketed, partitioned, sorted or typed in another way, and new ones do not fit
            there; or files that the change began on are gone.
        InvalidObject: the table's status does not say which files are there.
    """
    if change.keeps_files:
        table.check_status()
    spec = table.spec
    committed = parent.files if parent is not None else ()
    buckets = change.buckets if change.buckets is not None else _buckets_of(table, parent)
    if parent is not None and parent.files and change.keeps_files:
        _refuse_other_layout(table, parent, buckets)
    try:
        files = change.kept(committed) + change.files
    except Overtaken as error:
        raise _lost(table, change, error) from error
    check_buckets(files, buckets)
    snapshot = table.status.snapshot
    return TableManifest(
        namespace=table.namespace,
        table=table.name,
        uid=table.uid,
        snapshot_id=table.last_id + 1,
        parent=snapshot.manifest_sha256 if snapshot else None,
        columns=spec.columns,
        bucketed_by=spec.bucketed_by,
        partitioned_by=spec.partitioned_by,
        sorted_by=spec.sort_columns,
        buckets=buckets,
        files=files,
    )


def _check_overtaking(
    table: TableObject, change: Change, began_on: TableManifest | None, parent: TableManifest | None
) -> None:
    before, now = (manifest.files if manifest is not None else () for manifest in (began_on, parent))
    try:
        change.check_overtaking(before, now)
    except Overtaken as error:
        raise _lost(table, change, error) from error


def _lost(table: TableObject, change: Change, error: Overtaken) -> LoadConflict:
    return LoadConflict(
        f"table {table.namespace}.{table.name}: {change.name} lost: {error}. Nothing was changed; start it again"
    )


def _buckets_of(table: TableObject, parent: TableManifest | None) -> int:
    """Of a change without files of its own."""
    if parent is None:
        raise LoadConflict(f"table {table.namespace}.{table.name} holds no rows yet; nothing was changed")
    return parent.buckets


def _refuse_other_layout(table: TableObject, parent: TableManifest, buckets: int) -> None:
    spec = table.spec
    problems = [
        f"its files have {what} {there}, the table now says {wanted}"
        for what, there, wanted in (
            ("buckets", parent.buckets, buckets),
            ("bucketedBy", parent.bucketed_by, spec.bucketed_by),
            ("partitionedBy", parent.partitioned_by, spec.partitioned_by),
            ("sortedBy", parent.sorted_by, spec.sort_columns),
        )
        if there != wanted
    ]
    columns = refused_change(parent.columns, spec.columns)
    if columns:
        problems.append(f"its files do not fit the table's columns: {columns}")
    if problems:
        raise LoadConflict(
            f"table {table.namespace}.{table.name}: {'; '.join(problems)}. Change the table back, or load all of it "
            "anew with mode overwrite"
        )


def commit(
    catalog: Catalog,
    table: TableObject,
    change: Change,
    parent_of: Callable[[TableObject], TableManifest | None],
    publish: Callable[[TableManifest], Published],
    now: Callable[[], datetime.datetime],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Committed:
    """Publish a change as the table's next snapshot; the one before becomes the newest of ``status.history``.

    A change that another one overtook goes on top of that one where it may (see ``Change.goes_on_top``), else it has
    lost.

    Args:
        catalog: for the compare-and-set.
        table: as it was when the change began.
        change: new files, and which of the old ones stay.
        parent_of: the committed manifest of a table.
        publish: see ``publish_manifest``.
        now: the time of day, for ``committedAt``.
        clock: seconds, for the deadline of lost answers.
        sleep: waits so many seconds.

    Raises:
        LoadConflict: overtaken, or the table was made anew meanwhile.
        ReplicasMissing: see ``publish_manifest``.
        CommitUnknown: an answer was lost, and the API server could not be asked within ``ANSWER_DEADLINE_SECONDS``.
    """
    began_with = table
    began_on: TableManifest | None = None
    prepared: Committed | None = None
    doubt = Doubt(clock, sleep)
    for _ in range(MAX_ATTEMPTS):
        if prepared is None:
            parent = parent_of(table)
            if table is began_with:
                began_on = parent
            else:
                _check_overtaking(table, change, began_on, parent)
            prepared = _prepare(table, change, parent, publish, now())
        current = _try_commit(catalog, table, prepared.snapshot, now(), doubt)
        if current is None or _is_published(current, prepared.snapshot):
            return prepared
        if doubt.cause and current.status_error:
            raise _unknown(table, prepared.snapshot, doubt, current.status_error)
        if current.status.snapshot != table.status.snapshot:
            if doubt.cause and _was_followed(current, prepared, parent_of, doubt):
                return prepared
            if not change.goes_on_top:
                _refuse_overtaking(began_with, current, change)
            prepared = None
        table = current
    if doubt.cause and prepared is not None:
        raise _unknown(table, prepared.snapshot, doubt, doubt.cause)
    raise LoadConflict(f"table {table.namespace}.{table.name} was changed {MAX_ATTEMPTS} times in a row; load it again")


class Doubt:
    """Answers that were lost since a commit began: whether there are any, and how long the API server was asked.

    Attributes:
        cause: of the first one; empty while all answers came.
    """

    def __init__(self, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self.cause = ""
        self._clock = clock
        self._sleep = sleep
        self._since = 0.0
        self._wait_seconds = FIRST_WAIT_SECONDS

    def add(self, cause: Exception) -> None:
        """Another answer was lost."""
        if not self.cause:
            self.cause, self._since = str(cause), self._clock()

    def wait(self) -> bool:
        """Wait before the next question; False when the deadline has passed."""
        if self._clock() - self._since >= ANSWER_DEADLINE_SECONDS:
            return False
        self._sleep(self._wait_seconds)
        self._wait_seconds = min(2 * self._wait_seconds, LONGEST_WAIT_SECONDS)
        return True


def _prepare(
    table: TableObject,
    change: Change,
    parent: TableManifest | None,
    publish: Callable[[TableManifest], Published],
    now: datetime.datetime,
) -> Committed:
    manifest = next_manifest(table, parent, change)
    there = publish(manifest)
    return Committed(
        _snapshot(manifest, there.sha256, now), manifest, parent, there.replicas_missing, there.substitutes
    )


def _try_commit(
    catalog: Catalog, table: TableObject, snapshot: TableSnapshot, now: datetime.datetime, doubt: Doubt
) -> TableObject | None:
    """None when it is done; else the table as it is now."""
    replaced = () if table.status.snapshot is None else (table.status.snapshot,)
    history = retained_history(snapshot, replaced + table.status.history, table.spec.retention, now)
    try:
        catalog.commit(table, snapshot, history)
        return None
    except WriteConflict:
        pass
    except NoAnswer as error:
        doubt.add(error)
        if not doubt.wait():
            raise _unknown(table, snapshot, doubt, error) from error
    current = _read_again(catalog, table, snapshot, doubt)
    if current.uid != table.uid:
        raise LoadConflict(
            f"table {table.namespace}.{table.name} was deleted and made anew during the load; load it again"
        )
    return current


def _read_again(catalog: Catalog, table: TableObject, snapshot: TableSnapshot, doubt: Doubt) -> TableObject:
    while True:
        try:
            return catalog.get_table(table.namespace, table.name)
        except NoAnswer as error:
            # Also after a conflict, which alone does not say that no earlier attempt has happened.
            doubt.add(error)
            if not doubt.wait():
                raise _unknown(table, snapshot, doubt, error) from error
        except (NotAllowed, ValueError) as error:
            if not doubt.cause:
                raise
            raise _unknown(table, snapshot, doubt, error) from error


def _unknown(table: TableObject, snapshot: TableSnapshot, doubt: Doubt, last: Exception | str) -> CommitUnknown:
    return CommitUnknown(
        f"table {table.namespace}.{table.name}: it is not known whether snapshot {snapshot.id} ({snapshot.manifest}) "
        f"was committed: {doubt.cause}; asked for {ANSWER_DEADLINE_SECONDS} s at most, the API server said: {last}. "
        f"Look at status.snapshot and status.history (kubectl get colocatedtable {table.name} -n "
        f"{table.namespace} -o yaml): if {snapshot.manifest} is there, the change is done, do not repeat it; if not, "
        "start it again"
    )


def _is_published(table: TableObject, snapshot: TableSnapshot) -> bool:
    """Whether the snapshot is there after all: the answer was lost on its way, not the commit.

    Others may have gone on top of it since, so older snapshots count too.
    """
    committed = (table.status.snapshot, *table.status.history)
    return any(one is not None and (one.id, one.manifest) == (snapshot.id, snapshot.manifest) for one in committed)


def _was_followed(
    current: TableObject, ours: Committed, parent_of: Callable[[TableObject], TableManifest | None], doubt: Doubt
) -> bool:
    """Whether a commit whose answer was lost happened, although the table keeps it neither as present nor as older.

    Raises:
        CommitUnknown: later commits have hidden it.
    """
    number = ours.snapshot.id
    listed = {one.id for one in (current.status.snapshot, *current.status.history) if one is not None}
    if current.status.snapshot is None or current.status.snapshot.id < number or number in listed:
        return False
    try:
        manifest = parent_of(current)
    except (NoAgentAnswers, ValueError) as error:
        raise _unknown(current, ours.snapshot, doubt, error) from error
    assert manifest is not None
    if manifest.snapshot_id == number + 1:
        return manifest.parent == ours.snapshot.manifest_sha256
    before = {file.path for file in ours.parent.files} if ours.parent else set()
    if any(file.path not in before for file in ours.manifest.files if file in manifest.files):
        return True
    raise _unknown(current, ours.snapshot, doubt, f"snapshot {current.status.snapshot.id} is there")


def _snapshot(manifest: TableManifest, sha256: str, now: datetime.datetime) -> TableSnapshot:
    return TableSnapshot(
        id=manifest.snapshot_id,
        manifest=f"sha256:{sha256}",
        committed_at=now.astimezone(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        partitions=manifest.partition_count,
        files=len(manifest.files),
        rows=sum(file.rows for file in manifest.files),
        bytes=sum(file.bytes for file in manifest.files),
    )


def _refuse_overtaking(began_with: TableObject, current: TableObject, change: Change) -> None:
    before = began_with.status.snapshot.id if began_with.status.snapshot else 0
    after = current.status.snapshot.id if current.status.snapshot else 0
    raise LoadConflict(
        f"table {current.namespace}.{current.name}: this load ({change.name}) lost: it began on snapshot {before}, and "
        f"snapshot {after} was committed meanwhile. Nothing was changed; load again if it should replace that one"
    )
