"""What the nodes hold of tables and of a group's buckets, from the newest report of each agent."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NamedTuple

from ..model.agent import ReplicaState, TableReport
from ..model.group import BucketSequence
from .agent_view import TableKey
from .memo import Memo
from .objects import ObservedTable
from .observation import Observation

Held = dict[str, dict[int, ReplicaState]]
"""Node -> bucket -> state; absent = nothing held."""
Pending = Mapping[str, frozenset[int]]
"""Node -> buckets."""
NodeReport = tuple[str, TableReport]
_State = ReplicaState | Literal["awaited"]


class TableReports(NamedTuple):
    """The agents' newest reports of one table, sorted by node.

    ``asked``: of all agents that were asked about it. ``holding``: of those that have something of it. ``manifests``:
    those that at least one agent has, of those that it was asked about.
    """

    asked: tuple[NodeReport, ...] = ()
    holding: tuple[NodeReport, ...] = ()
    manifests: frozenset[str] = frozenset()

    @classmethod
    def of(cls, asked: tuple[NodeReport, ...]) -> "TableReports":
        """Sort out which agents have something. Equal parts stay one object, which makes comparisons cheap."""
        holding = tuple(one for one in asked if _has_something(one[1]))
        manifests = frozenset(one.manifest for _, one in asked if one.manifest is not None and one.manifest_present)
        return cls(asked, asked if len(holding) == len(asked) else holding, manifests)


NOT_REPORTED = TableReports()


def _has_something(report: TableReport) -> bool:
    """A manifest without files is something, too: files of a retained snapshot may be stored with it."""
    has_manifest = report.manifest is not None and report.manifest_present
    named = report.buckets or report.retained_only or report.retained_missing
    return bool(named or report.unnamed_buckets or has_manifest)


class ReportsByTable:
    """The agents' reports sorted by table. Each pass starts from the last one's and takes in what has changed."""

    def __init__(self, observation: Observation, memo: Memo) -> None:
        before: ReportsByTable | None = memo.last(ReportsByTable)
        self._by_node = {node: view.tables for node, view in observation.agent_views.items()}
        self._by_table: dict[TableKey, TableReports] = dict(before._by_table) if before else {}
        for key, changed in _changes(before._by_node if before else {}, self._by_node).items():
            merged = {**dict(self._by_table.pop(key, NOT_REPORTED).asked), **changed}
            asked = tuple((node, report) for node in sorted(merged) if (report := merged[node]) is not None)
            if asked:
                self._by_table[key] = TableReports.of(asked)
        memo.keep(ReportsByTable, self)

    def of(self, table: ObservedTable) -> TableReports:
        """Those of one table."""
        return self._by_table.get((table.identity.namespace, table.directory), NOT_REPORTED)


def _changes(
    before: Mapping[str, Mapping[TableKey, TableReport]], after: Mapping[str, Mapping[TableKey, TableReport]]
) -> dict[TableKey, dict[str, TableReport | None]]:
    """Table -> node -> its report now, None = it has none any more; only where it is another object than before."""
    found: dict[TableKey, dict[str, TableReport | None]] = {}
    nothing: Mapping[TableKey, TableReport] = {}
    for node in before.keys() | after.keys():
        was, now = before.get(node, nothing), after.get(node, nothing)
        if was is not now:
            for key in was.keys() | now.keys():
                report = now.get(key)
                if was.get(key) is not report:
                    found.setdefault(key, {})[node] = report
    return found


class TableFiles(NamedTuple):
    """One table with all that is known of its files.

    ``bucket_bytes``: of the committed manifest, as agents read it there; None = no agent with the manifest has
    answered. ``silent``: the nodes among those with a report whose agent does not answer now.
    """

    table: ObservedTable
    reports: TableReports
    bucket_bytes: Mapping[int, int] | None
    silent: frozenset[str] = frozenset()

    @property
    def has_manifest(self) -> bool:
        """Whether the newest report of at least one agent has the committed manifest."""
        return self.table.reference.manifest in self.reports.manifests

    def wanted_bytes(self, buckets: int) -> dict[int, int]:
        """Bytes of the buckets that have files.

        Until the sizes are known every bucket counts, with one byte: where data is unknown, it must not look unwanted.
        What loaders write into the table's status is only a claim.
        """
        if self.table.reference.manifest is None:
            return {}
        if self.bucket_bytes is None:
            return dict.fromkeys(range(buckets), 1)
        return {bucket: size for bucket, size in self.bucket_bytes.items() if size > 0 and bucket < buckets}

    def is_committed_snapshot(self, report: TableReport) -> bool:
        """Whether the report is about the committed manifest, and its node has that."""
        return report.manifest == self.table.reference.manifest and report.manifest_present

    def holds_any(self, node: str, bucket: int) -> bool:
        """Whether the node holds files of the bucket."""
        report = dict(self.reports.holding).get(node)
        held = report.buckets.get(bucket) if report else None
        return held is not None and held.files_held > 0

    @property
    def nodes_without_retained(self) -> Mapping[int, frozenset[str]]:
        """Bucket -> the nodes that lack files of the retained snapshots, although an agent that answers has them.

        Files that no agent has are not waited for; a replica is complete without them.
        """
        return {bucket: one.lacking for bucket, one in _retained(self).items()}


class Holdings(NamedTuple):
    """What the nodes hold of a group's buckets. ``bucket_bytes``: of one replica of each bucket.

    ``pending``: node -> buckets that are complete there but for tables whose last commit the agent has not reported on.
    """

    bucket_bytes: tuple[int, ...]
    held: Held
    pending: Pending


class GroupFiles(NamedTuple):
    """The files of tables that share one map.

    ``rows``: the map; None = there is none, and no node has to have files of retained snapshots. ``doubtful``: uid of
    each table with a recent commit -> the nodes that have not reported on it yet.
    """

    tables: tuple[TableFiles, ...]
    buckets: int
    rows: BucketSequence | None = None
    doubtful: Mapping[str, frozenset[str]] | None = None

    def is_outside(self, node: str, bucket: int) -> bool:
        """Whether the map has no replica of the bucket on the node."""
        return self.rows is not None and (bucket >= len(self.rows) or node not in self.rows[bucket])


def holdings(group: GroupFiles) -> Holdings:
    """What the nodes hold over all tables that have a snapshot.

    A bucket is complete on a node when all its tables are; corrupt when one is; absent when none is there; else
    partial. A node outside the map is complete only with the files of retained snapshots, too, as far as an agent that
    answers has them: the replica that it is to replace may be deleted then.
    """
    total, wanting = [0] * group.buckets, Counter[int]()
    found: dict[str, dict[int, list[_State]]] = {}
    for files in group.tables:
        wanted = _wanted(files, group)
        for bucket, size in wanted.sizes.items():
            total[bucket] += size
            wanting[bucket] += 1
        for node, bucket, state in _states(files, wanted, group):
            found.setdefault(node, {}).setdefault(bucket, []).append(state)
    return Holdings(tuple(total), _held(found, wanting), _pending(found, wanting))


class _Wanted(NamedTuple):
    """What a group wants of one table. ``sizes``: bytes of each bucket.

    ``retained``: see ``_retained``. ``only_retained``: buckets of which retained snapshots alone have files. They count
    as one byte, so that no move goes without a clone; nodes of the map need none of these files.
    """

    sizes: Mapping[int, int]
    retained: Mapping[int, "_Retained"]
    only_retained: frozenset[int]


def _wanted(files: TableFiles, group: GroupFiles) -> _Wanted:
    sizes = files.wanted_bytes(group.buckets)
    retained = _retained(files) if group.rows is not None else {}
    certain = {bucket for bucket, one in retained.items() if one.is_certain}
    only_retained = certain.intersection(range(group.buckets)).difference(sizes)
    return _Wanted(sizes | dict.fromkeys(only_retained, 1), retained, frozenset(only_retained))


def _states(files: TableFiles, wanted: _Wanted, group: GroupFiles) -> Iterator[tuple[str, int, _State]]:
    """(node, bucket, state) of all that nodes hold of one table."""
    doubtful = (group.doubtful or {}).get(files.table.identity.uid)
    waiting = dict.fromkeys(doubtful or (), True)
    for node, report in files.reports.holding:
        for bucket, state in _states_of_node(files, report, wanted, waiting.pop(node, False)).items():
            retained = wanted.retained.get(bucket)
            is_lacking = state == "complete" and retained is not None and node in retained.lacking
            if not (is_lacking and group.is_outside(node, bucket)):
                yield node, bucket, state
            elif bucket not in wanted.only_retained:  # of those it may have nothing at all
                yield node, bucket, "partial"
    for node in waiting:
        for bucket in wanted.sizes:
            yield node, bucket, "awaited"
    if doubtful is None:
        for node, bucket in _last_traces(files, wanted.sizes.keys() - wanted.only_retained):
            yield node, bucket, "partial"


def _states_of_node(
    files: TableFiles, report: TableReport, wanted: _Wanted, is_doubtful: bool
) -> dict[int, _State]:
    """State of the table's wanted buckets on the node of this report."""
    sizes = wanted.sizes
    if files.is_committed_snapshot(report):
        states: dict[int, _State] = {
            bucket: held.state for bucket, held in report.buckets.items() if held.state is not None and bucket in sizes
        }
        for bucket in wanted.only_retained:
            states[bucket] = "complete"
        return states
    if is_doubtful:
        # Whole as of the last commit, or without files then: the new files are here unless the report denies it.
        known = {bucket: held.state if held.files_wanted else "complete" for bucket, held in report.buckets.items()}
        return {bucket: "awaited" if known.get(bucket, "complete") == "complete" else "partial" for bucket in sizes}
    # The report is about another snapshot, or the manifest is missing: what the node held before is at best a part.
    return {bucket: "partial" for bucket, held in report.buckets.items() if held.files_held and bucket in sizes}


def _held(found: Mapping[str, Mapping[int, list[_State]]], wanting: Counter[int]) -> Held:
    combined = {
        node: {bucket: state for bucket in sorted(states) if (state := _combine(states[bucket], wanting[bucket]))}
        for node, states in found.items()
    }
    return {node: states for node, states in combined.items() if states}


def _combine(states: list[_State], wanting: int) -> ReplicaState | None:
    """Of one bucket on one node: the states of the tables that the node holds something of, of ``wanting`` tables."""
    if "corrupt" in states:
        return "corrupt"
    if states.count("complete") == wanting:
        return "complete"
    return "partial" if set(states) != {"awaited"} else None


def _pending(found: Mapping[str, Mapping[int, list[_State]]], wanting: Counter[int]) -> Pending:
    pending: dict[str, frozenset[int]] = {}
    for node, states in found.items():
        buckets = [
            bucket
            for bucket, known in states.items()
            if "awaited" in known and known.count("awaited") + known.count("complete") == wanting[bucket]
        ]
        if buckets:
            pending[node] = frozenset(buckets)
    return pending


class _Retained(NamedTuple):
    """Of one bucket: the nodes that lack files of retained snapshots.

    ``is_certain``: an agent that was asked about the present snapshot reports that retained ones have files of it.
    """

    lacking: frozenset[str]
    is_certain: bool


def _retained(files: TableFiles) -> dict[int, _Retained]:
    """The buckets of which retained snapshots may have files, as far as an agent that answers has all of them."""
    if not files.table.status.history:
        return {}
    manifest = files.table.reference.manifest
    asked = {node: report for node, report in files.reports.asked if report.manifest == manifest}
    found = dict(files.reports.holding) | asked
    answering = found.keys() - files.silent
    sure = [report for node, report in asked.items() if node in answering]
    certain = {bucket for report in sure for bucket in (*report.retained_only, *report.retained_missing)}
    without_manifests = frozenset(node for node, report in found.items() if not report.retained_present)
    missing: dict[int, set[str]] = {}
    for node, report in found.items():
        for bucket in report.retained_missing:
            missing.setdefault(bucket, set()).add(node)
    retained: dict[int, _Retained] = {}
    for bucket in certain.union(*(report.buckets for report in found.values())):
        lacking = without_manifests.union(missing.get(bucket, ()))
        if answering - lacking:
            retained[bucket] = _Retained(lacking, bucket in certain)
    return retained


def _last_traces(files: TableFiles, wanted: Collection[int]) -> Iterator[tuple[str, int]]:
    """(node, bucket) of nodes from which a clone may complete a bucket that no node has whole.

    These are the nodes that have files of it without the manifest, and those that have the manifest to give. It happens
    when a node was away at a load, and came back after the others with the rest of the table were lost.
    """
    manifest = files.table.reference.manifest
    answering = [
        (node, report)
        for node, report in files.reports.holding
        if report.manifest == manifest and node not in files.silent
    ]
    unnamed = {bucket for _, report in answering for bucket in report.unnamed_buckets}.intersection(wanted)
    for bucket in unnamed:
        held = [found for _, report in answering if (found := report.buckets.get(bucket))]
        if any(one.state == "complete" for one in held):
            continue
        for node, report in answering:
            if report.manifest_present or bucket in report.unnamed_buckets:
                yield node, bucket
