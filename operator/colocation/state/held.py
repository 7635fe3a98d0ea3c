"""What the nodes hold of a group's buckets, over all its tables, from the agents' last words."""

from collections import Counter
from collections.abc import Iterable, Mapping

from ..model.agent import ReplicaState, TableReport
from ..model.group import BucketSequence
from .observation import Observation, ObservedTable

TableKey = tuple[str, str]
"""(namespace, directory)."""
Held = dict[str, dict[int, ReplicaState]]
"""Node -> bucket -> state; absent = nothing held."""


class TableReports:
    """The agents' reports by table: made once per pass, as looking a table up in every report would cost too much."""

    def __init__(self, observation: Observation) -> None:
        self._reports: dict[TableKey, list[tuple[str, TableReport]]] = {}
        for node, view in observation.agent_views.items():
            for report in view.report.tables if view.report else ():
                if report.buckets:
                    self._reports.setdefault((report.namespace, report.directory), []).append((node, report))

    def of(self, table: ObservedTable) -> Iterable[tuple[str, TableReport]]:
        """(node, report) of every agent that has something to say of the table."""
        return self._reports.get((table.identity.namespace, table.directory), ())


def held_of_group(
    observation: Observation,
    reports: TableReports,
    tables: Iterable[ObservedTable],
    buckets: int,
    rows: BucketSequence | None = None,
) -> tuple[tuple[int, ...], Held]:
    """(bytes of each bucket, what the nodes hold) over the tables that have a snapshot.

    A bucket is complete on a node when all its tables are; corrupt when any is; absent when none is; else partial.
    A node outside the map ``rows`` is complete only with the files of retained snapshots too, as far as an agent that
    answers has them: what it is to replace may be deleted then. None: no node has to have them.
    """
    total, wanting = [0] * buckets, Counter[int]()
    found: dict[str, dict[int, list[ReplicaState]]] = {}
    for table in tables:
        sizes = wanted_bytes(observation, table, buckets)
        for bucket, size in sizes.items():
            total[bucket] += size
            wanting[bucket] += 1
        without = nodes_without_retained(observation, reports, table)
        for node, report in reports.of(table):
            states = found.setdefault(node, {})
            for bucket, state in _table_states(report, table, sizes).items():
                lacking = state == "complete" and rows is not None and node in without.get(bucket, ())
                outside = lacking and rows is not None and (bucket >= len(rows) or node not in rows[bucket])
                states.setdefault(bucket, []).append("partial" if outside else state)
    held = {
        node: {bucket: _combine(states[bucket], wanting[bucket]) for bucket in sorted(states)}
        for node, states in found.items()
        if states
    }
    return tuple(total), held


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
    if not table.status.history:
        return {}
    found = list(reports.of(table))
    views = observation.agent_views
    buckets = {bucket for _, report in found for bucket in report.buckets}
    lacking: dict[int, frozenset[str]] = {}
    for bucket in buckets:
        nodes = {node for node, report in found if _lacks_retained(report, bucket)}
        holders = {node for node, _ in found if node not in nodes and views[node].silent_since is None}
        if nodes and holders:
            lacking[bucket] = frozenset(nodes)
    return lacking


def _lacks_retained(report: TableReport, bucket: int) -> bool:
    return not report.retained_present or bucket in report.retained_missing


def wanted_bytes(observation: Observation, table: ObservedTable, buckets: int) -> dict[int, int]:
    """Bytes of the table's buckets that have files.

    While no agent with the manifest has answered, the snapshot's bytes are spread evenly: data whose whereabouts are
    unknown must not look like data that is not wanted.
    """
    snapshot = table.status.snapshot
    if snapshot is None or snapshot.files == 0:
        return {}
    key = (table.identity.namespace, table.directory, snapshot.manifest_sha256)
    known = observation.bucket_bytes.get(key)
    if known is None:
        return dict.fromkeys(range(buckets), max(1, snapshot.bytes // buckets))
    return {bucket: size for bucket, size in known.items() if size > 0 and bucket < buckets}


def _table_states(report: TableReport, table: ObservedTable, wanted: Mapping[int, int]) -> dict[int, ReplicaState]:
    """State of the table's wanted buckets on one node."""
    answers = report.manifest == table.reference.manifest and report.manifest_present
    if answers:
        return {
            bucket: held.state for bucket, held in report.buckets.items() if held.state is not None and bucket in wanted
        }
    # The agent spoke of another snapshot, or lacks this one's manifest: what it held before is at best a part.
    return {bucket: "partial" for bucket, held in report.buckets.items() if held.files_held and bucket in wanted}


def _combine(states: list[ReplicaState], wanting: int) -> ReplicaState:
    """Of one bucket on one node: the states of the tables that the node holds something of, of ``wanting`` tables."""
    if "corrupt" in states:
        return "corrupt"
    return "complete" if states.count("complete") == wanting else "partial"
