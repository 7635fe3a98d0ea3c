"""What the nodes hold of a group's buckets, over all its tables, from the agents' last words."""

from collections.abc import Iterable, Mapping

from ..model.agent import ReplicaState, TableReport
from .observation import AgentView, Observation, ObservedTable

TableStates = Mapping[int, ReplicaState]
"""Bucket -> state of one table on one node; absent = nothing held."""


def held_of_group(
    observation: Observation, tables: Iterable[ObservedTable], buckets: int
) -> tuple[tuple[int, ...], dict[str, dict[int, ReplicaState]]]:
    """(bytes of each bucket, node -> bucket -> state) over the tables that have a snapshot.

    A bucket is complete on a node when all its tables are; corrupt when any is; absent when none is; else partial.
    """
    wanted = [(table, sizes) for table in tables if (sizes := _wanted_bytes(observation, table, buckets))]
    total = tuple(sum(sizes.get(bucket, 0) for _, sizes in wanted) for bucket in range(buckets))
    held: dict[str, dict[int, ReplicaState]] = {}
    for node, view in observation.agent_views.items():
        states = [(_table_states(view, table, sizes), sizes) for table, sizes in wanted]
        combined = {
            bucket: state
            for bucket in range(buckets)
            if (state := _combine([of_table.get(bucket) for of_table, sizes in states if bucket in sizes]))
        }
        if combined:
            held[node] = combined
    return total, held


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


def _table_states(view: AgentView, table: ObservedTable, wanted: Mapping[int, int]) -> TableStates:
    report = _report_of(view, table)
    if report is None:
        return {}
    if report.manifest == table.reference.manifest and report.manifest_present:
        return {bucket: held.state for bucket, held in report.buckets.items() if held.state is not None}
    # The agent spoke of another snapshot, or lacks this one's manifest: what it held before is at best a part.
    return {bucket: "partial" for bucket in wanted if bucket in report.buckets and report.buckets[bucket].files_held}


def _report_of(view: AgentView, table: ObservedTable) -> TableReport | None:
    if view.report is None:
        return None
    namespace, directory = table.identity.namespace, table.directory
    return next((one for one in view.report.tables if one.directory == directory and one.namespace == namespace), None)


def _combine(states: list[ReplicaState | None]) -> ReplicaState | None:
    if "corrupt" in states:
        return "corrupt"
    if all(state is None for state in states):
        return None
    return "complete" if all(state == "complete" for state in states) else "partial"
