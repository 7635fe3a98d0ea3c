"""Folders that nobody remembers, and tables whose files lie there.

A dropped table comes back under another uid, and its folder with it. Restored to a copy from before that, etcd knows
the first uid only: the folder of the second one has no table, in its place as in a bin, and no record names it. A table
of that name whose files are not to be found anywhere else gets from there what its own snapshots name. The folder stays
where it is: it may hold more, of snapshots that were committed after the copy.

Who may write a table's status could name there a snapshot of a table that was dropped long ago, or of another team's in
a namespace that was made anew. So the manifest has to be this very table's, or that one's which it brought back (none
but the operator may say which): until the next load it has no other. A table that just comes back needs no such check:
its group remembers the snapshot, which only the operator writes.
"""

from collections.abc import Iterator

from ..model.conditions import Reason
from ..model.names import table_directory
from ..state.held import TableReports
from ..state.index import TableIndex
from ..state.objects import ObservedTable
from ..state.recycled import as_recovered
from .actions import RestoreTable
from .bins import Folders, Strays
from .deletion import is_whole
from .recovery import Recovery, unheard


def strays_of(index: TableIndex, lying: Folders) -> Strays:
    """Those that are no table's, no dropped one's that a group remembers, and of no table that one came from."""
    dropped = (record for record, _ in index.records.values())
    left = lying.keys() - {f"{one.namespace}/{directory}" for one in dropped for directory in one.directories}
    if left:  # as good as never: of all tables there are many
        left -= _folders_of_tables(index)
    found: dict[tuple[str, str], list[str]] = {}
    for folder in sorted(left):
        namespace, _, directory = folder.partition("/")
        found.setdefault((namespace, directory.rpartition("-")[0]), []).append(directory)
    return found


def _folders_of_tables(index: TableIndex) -> set[str]:
    """Of those that are there, that groups count as theirs, and that others came from."""
    known = {f"{namespace}/{directory}" for namespace, directory in index.by_folder}
    for group in index.observation.groups:
        known.update(f"{one.namespace}/{table_directory(one.name, one.uid)}" for one in group.status.members)
    for table in index.observation.tables:
        if table.recovers:
            known.add(f"{table.identity.namespace}/{table_directory(table.identity.name, table.recovers)}")
    return known


def stray_orders(
    index: TableIndex,
    reports: TableReports,
    lying: Folders,
    strays: Strays,
    table: ObservedTable,
    recovery: Recovery | None,
) -> Iterator[RestoreTable]:
    """To every node that has such a folder, of a table that lacks files though all that was remembered is there."""
    namespace, name = table.identity.namespace, table.identity.name
    if (namespace, name) not in strays or not _lacks_files(index, reports, table, recovery):
        return
    wanted = as_recovered(table, recovery.record) if recovery else table
    uids = ("",) if recovery else tuple(filter(None, (table.identity.uid, table.recovers)))
    for directory in strays[namespace, name]:
        for node, url in lying.get(f"{namespace}/{directory}", ()):
            for uid in uids if _takes_files(index, node) else ():
                yield RestoreTable(
                    node, url, namespace, directory, table.directory, index.observation.term,
                    wanted.reference.live_manifests, uid,
                )  # fmt: skip


def _lacks_files(index: TableIndex, reports: TableReports, table: ObservedTable, recovery: Recovery | None) -> bool:
    if recovery:
        is_known = table.identity.uid in recovery.record.recovery_uids
        return is_known and bool(recovery.homeless) and not recovery.awaited and not recovery.unheard
    if table.is_recovering or table.reference.manifest is None or any(unheard(index.observation, table)):
        return False
    return not is_whole(index, reports, table)


def _takes_files(index: TableIndex, node: str) -> bool:
    report = index.observation.agent_views[node].report
    reason = report.disk.reason if report and report.disk else ""
    return node not in index.disks_missing and reason in ("", Reason.DISK_FULL)
