"""What the nodes hold of a group's buckets, over all its tables, from the agents' last words."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
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
_State = ReplicaState | Literal["awaited"]


class _Told(NamedTuple):
    """What agents say of one table. ``reports``: of those that have something of it, by the names of their nodes.

    ``manifests``: all that any of them has of those that it was asked about.
    """

    everything: tuple[tuple[str, TableReport], ...]
    reports: tuple[tuple[str, TableReport], ...]
    manifests: frozenset[str]


class TableReports:
    """The agents' reports by table: made once per pass, from the one before and what agents have said since.

    Args:
        observation: the cluster.
        memo: of earlier decisions.
    """

    def __init__(self, observation: Observation, memo: Memo | None = None) -> None:
        before: TableReports | None = memo.last(TableReports) if memo else None
        self._views = {node: view.tables for node, view in observation.agent_views.items() if view.tables}
        self._told: dict[TableKey, _Told] = dict(before._told) if before else {}
        for key, by_node in _changes(before._views if before else {}, self._views).items():
            known = self._told.pop(key, None)
            merged = {**dict(known.everything if known else ()), **by_node}
            everything = tuple((node, report) for node in sorted(merged) if (report := merged[node]) is not None)
            if everything:
                self._told[key] = _told(everything)
        if memo:
            memo.keep(TableReports, self)

    def of(self, table: ObservedTable) -> tuple[tuple[str, TableReport], ...]:
        """(node, report) of every agent that has something to say of the table."""
        told = self._told.get((table.identity.namespace, table.directory))
        return told.reports if told else ()

    def all_of(self, table: ObservedTable) -> tuple[tuple[str, TableReport], ...]:
        """(node, report) of every agent that was asked about the table."""
        told = self._told.get((table.identity.namespace, table.directory))
        return told.everything if told else ()

    def has_manifest(self, table: ObservedTable) -> bool:
        """Whether any agent's last word is that it has the table's committed manifest."""
        told = self._told.get((table.identity.namespace, table.directory))
        return told is not None and table.reference.manifest in told.manifests


def _told(everything: tuple[tuple[str, TableReport], ...]) -> _Told:
    reports = tuple(one for one in everything if _has_something(one[1]))
    manifests = frozenset(one.manifest for _, one in everything if one.manifest is not None and one.manifest_present)
    return _Told(everything, everything if len(reports) == len(everything) else reports, manifests)


def _has_something(report: TableReport) -> bool:
    """A manifest without files is something, too: a retained snapshot's files may lie beside it."""
    has_manifest = report.manifest is not None and report.manifest_present
    named = report.buckets or report.retained_only or report.retained_missing
    return bool(named or report.unnamed_buckets or has_manifest)


def _changes(
    before: Mapping[str, Mapping[TableKey, TableReport]], after: Mapping[str, Mapping[TableKey, TableReport]]
) -> dict[TableKey, dict[str, TableReport | None]]:
    """Table -> node -> its report now, None = no more; of what is not the very same object as before."""
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


class Holdings(NamedTuple):
    """What the nodes have of a group's buckets. ``bucket_bytes``: of each bucket, one replica.

    ``pending``: node -> buckets that are complete there but for tables whose commit the agent has not spoken of yet.
    """

    bucket_bytes: tuple[int, ...]
    held: Held
    pending: Pending


def held_of_group(
    observation: Observation,
    reports: TableReports,
    tables: Iterable[ObservedTable],
    buckets: int,
    rows: BucketSequence | None = None,
    doubtful: Mapping[str, frozenset[str]] | None = None,
) -> Holdings:
    """What the nodes hold over the tables that have a snapshot.

    A bucket is complete on a node when all its tables are; corrupt when any is; absent when none is; else partial.
    A node outside the map ``rows`` is complete only with the files of retained snapshots too, as far as an agent that
    answers has them: what it is to replace may be deleted then. None: no node has to have them.
    A bucket of which only retained snapshots have files counts as one byte, so that no move does without a clone; nodes
    of the map need none of it.
    ``doubtful``: table uid -> nodes that have not spoken of its last commit yet.
    """
    total, wanting = [0] * buckets, Counter[int]()
    found: dict[str, dict[int, list[_State]]] = {}
    for table in tables:
        retained = _retained(observation, reports, table) if rows is not None else {}
        without = {bucket: one.lacking for bucket, one in retained.items()}
        sizes = wanted_bytes(observation, table, buckets)
        certain = {bucket for bucket, one in retained.items() if one.is_certain}
        only_retained = certain.intersection(range(buckets)).difference(sizes)
        sizes |= dict.fromkeys(sorted(only_retained), 1)
        for bucket, size in sizes.items():
            total[bucket] += size
            wanting[bucket] += 1
        waiting = dict.fromkeys((doubtful or {}).get(table.identity.uid, ()), True)
        for node, report in reports.of(table):
            states = found.setdefault(node, {})
            is_doubtful = waiting.pop(node, False)
            table_states = _table_states(report, table, sizes, is_doubtful)
            if rows is not None and _answers(report, table):
                table_states |= dict.fromkeys(only_retained, "complete")
            for bucket, state in table_states.items():
                lacking = state == "complete" and rows is not None and node in without.get(bucket, ())
                outside = lacking and rows is not None and (bucket >= len(rows) or node not in rows[bucket])
                if not outside:
                    states.setdefault(bucket, []).append(state)
                elif bucket not in only_retained:  # of those it may have nothing at all
                    states.setdefault(bucket, []).append("partial")
        for node in waiting:
            for bucket in sizes:
                found.setdefault(node, {}).setdefault(bucket, []).append("awaited")
        if table.identity.uid not in (doubtful or {}):
            for node, bucket in _last_traces(observation, reports, table, sizes.keys() - only_retained):
                found.setdefault(node, {}).setdefault(bucket, []).append("partial")
    return Holdings(tuple(total), _held(found, wanting), _pending(found, wanting))


def said_of(observation: Observation, reports: TableReports, tables: tuple[ObservedTable, ...]) -> tuple[object, ...]:
    """All that ``held_of_group`` reads of these tables, but for its other arguments."""
    told = tuple(map(reports.all_of, tables))
    sizes = tuple(observation.bucket_bytes.get(_bytes_key(table)) for table in tables)
    silent = observation.silent_nodes
    if silent:
        silent = silent.intersection(node for one in told for node, _ in one)
    return tables, told, sizes, silent


def _bytes_key(table: ObservedTable) -> tuple[str, str, str]:
    return table.identity.namespace, table.directory, table.reference.manifest or ""


def _held(found: Mapping[str, Mapping[int, list[_State]]], wanting: Counter[int]) -> Held:
    combined = {
        node: {bucket: state for bucket in sorted(states) if (state := _combine(states[bucket], wanting[bucket]))}
        for node, states in found.items()
    }
    return {node: states for node, states in combined.items() if states}


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


def holds_any(reports: TableReports, tables: Iterable[ObservedTable], node: str, bucket: int) -> bool:
    """Whether the node holds files of the bucket of any of the tables."""
    return any(
        holder == node and (found := report.buckets.get(bucket)) is not None and found.files_held > 0
        for table in tables
        for holder, report in reports.of(table)
    )


def nodes_without_retained(
    observation: Observation, reports: TableReports, table: ObservedTable
) -> Mapping[int, frozenset[str]]:
    """Bucket -> the nodes that lack files of the table's retained snapshots, although an agent that answers has them.

    Files that nobody has can be waited for in vain; a replica is complete without them.
    """
    retained = _retained(observation, reports, table)
    return {bucket: one.lacking for bucket, one in retained.items() if one.lacking}


class _Retained(NamedTuple):
    """Of one bucket. ``is_certain``: an agent that was asked about the present snapshot says that retained ones have
    files of it.
    """

    lacking: frozenset[str]
    is_certain: bool


def _retained(observation: Observation, reports: TableReports, table: ObservedTable) -> dict[int, _Retained]:
    """The buckets of which retained snapshots may have files, as far as an agent that answers has all of them."""
    if not table.status.history:
        return {}
    asked = {node for node, report in reports.all_of(table) if report.manifest == table.reference.manifest}
    found = dict(reports.of(table)) | {node: report for node, report in reports.all_of(table) if node in asked}
    answering = {node for node in found if observation.agent_views[node].silent_since is None}
    sure = [found[node] for node in asked & answering]
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


def wanted_bytes(observation: Observation, table: ObservedTable, buckets: int) -> dict[int, int]:
    """Bytes of the table's buckets that have files, as the agents read them in the manifest.

    While no agent with the manifest has answered, every bucket counts, with next to no bytes: data whose whereabouts
    are unknown must not look like data that is not wanted; and what loaders write into the status is only a claim.
    """
    manifest = table.reference.manifest
    if manifest is None:
        return {}
    known = observation.bucket_bytes.get(_bytes_key(table))
    if known is None:
        return dict.fromkeys(range(buckets), 1)
    return {bucket: size for bucket, size in known.items() if size > 0 and bucket < buckets}


def _last_traces(
    observation: Observation, reports: TableReports, table: ObservedTable, wanted: Collection[int]
) -> Iterator[tuple[str, int]]:
    """(node, bucket) of the nodes that have files of it without the manifest, and of those that have the manifest to
    give, where nobody who answers has the bucket whole: a clone from all of them may make it so.

    A node was away at a load, and came back after the others with the rest of the table were lost.
    """
    told = [
        (node, report)
        for node, report in reports.of(table)
        if report.manifest == table.reference.manifest and observation.agent_views[node].silent_since is None
    ]
    unnamed = {bucket for _, report in told for bucket in report.unnamed_buckets}.intersection(wanted)
    for bucket in sorted(unnamed):
        holders = {node: held for node, report in told if (held := report.buckets.get(bucket)) and held.state}
        if any(held.state == "complete" for held in holders.values()):
            continue
        for node, report in told:
            if node not in holders and (report.manifest_present or bucket in report.unnamed_buckets):
                yield node, bucket


def _answers(report: TableReport, table: ObservedTable) -> bool:
    return report.manifest == table.reference.manifest and report.manifest_present


def _table_states(
    report: TableReport, table: ObservedTable, wanted: Mapping[int, int], is_doubtful: bool
) -> dict[int, _State]:
    """State of the table's wanted buckets on one node."""
    if _answers(report, table):
        return {
            bucket: held.state for bucket, held in report.buckets.items() if held.state is not None and bucket in wanted
        }
    if is_doubtful:
        # Whole as of the last commit, or without files then: the new files are here unless the agent says otherwise.
        states = {bucket: held.state if held.files_wanted else "complete" for bucket, held in report.buckets.items()}
        return {bucket: "awaited" if states.get(bucket, "complete") == "complete" else "partial" for bucket in wanted}
    # The agent spoke of another snapshot, or lacks this one's manifest: what it held before is at best a part.
    return {bucket: "partial" for bucket, held in report.buckets.items() if held.files_held and bucket in wanted}


def _combine(states: list[_State], wanting: int) -> ReplicaState | None:
    """Of one bucket on one node: the states of the tables that the node holds something of, of ``wanting`` tables."""
    if "corrupt" in states:
        return "corrupt"
    if states.count("complete") == wanting:
        return "complete"
    return "partial" if set(states) != {"awaited"} else None
