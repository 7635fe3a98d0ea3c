"""What the nodes hold of a group's buckets, over all its tables, from the agents' last words."""

from collections import Counter
from collections.abc import Iterable, Mapping

from ..model.agent import ReplicaState, TableReport
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
    observation: Observation, reports: TableReports, tables: Iterable[ObservedTable], buckets: int
) -> tuple[tuple[int, ...], Held]:
    """(bytes of each bucket, what the nodes hold) over the tables that have a snapshot.

    A bucket is complete on a node when all its tables are; corrupt when any is; absent when none is; else partial.
    """
    total, wanting = [0] * buckets, Counter[int]()
    found: dict[str, dict[int, list[ReplicaState]]] = {}
    for table in tables:
        sizes = _wanted_bytes(observation, table, buckets)
        for bucket, size in sizes.items():
            total[bucket] += size
            wanting[bucket] += 1
        for node, report in reports.of(table):
            states = found.setdefault(node, {})
            for bucket, state in _table_states(report, table, sizes).items():
                states.setdefault(bucket, []).append(state)
    held = {
        node: {bucket: _combine(states[bucket], wanting[bucket]) for bucket in sorted(states)}
        for node, states in found.items()
        if states
    }
    return tuple(total), held


def _wanted_bytes(observation: Observation, table: ObservedTable, buckets: int) -> dict[int, int]:
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
