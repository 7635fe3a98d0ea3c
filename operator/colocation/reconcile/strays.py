"""Folders in recycle bins that nobody remembers, and tables whose files lie there.

A dropped table comes back under another uid, and its folder with it. Restored to a copy from before that, etcd knows
the first uid only: the folder of the second one has no table, goes to the bins, and no record names it. A table of that
name whose files are not to be found anywhere else gets them from there. They stay in the bin, too: the folder may hold
more than this table wants, of snapshots that were committed after the copy.
"""

from collections.abc import Collection, Iterator, Mapping

from ..model.names import table_directory
from ..state.index import TableIndex
from ..state.observation import ObservedTable
from .actions import RestoreTable
from .bins import Bins

Strays = Mapping[tuple[str, str], Collection[str]]
"""(Namespace, table's name) -> folders in bins that nobody remembers."""


def strays_of(index: TableIndex, bins: Bins) -> Strays:
    """Those that are no table's, no dropped one's that a group remembers, and of no table that one came from."""
    known = {f"{namespace}/{directory}" for namespace, directory in index.by_folder}
    for record, _ in index.records.values():
        known.update(f"{record.namespace}/{directory}" for directory in record.directories)
    for group in index.observation.groups:
        known.update(f"{one.namespace}/{table_directory(one.name, one.uid)}" for one in group.status.members)
    for table in index.observation.tables:
        if table.recovers:
            known.add(f"{table.identity.namespace}/{table_directory(table.identity.name, table.recovers)}")
    found: dict[tuple[str, str], list[str]] = {}
    for folder in sorted(bins.keys() - known):
        namespace, _, directory = folder.partition("/")
        found.setdefault((namespace, directory.rpartition("-")[0]), []).append(directory)
    return found


def stray_orders(index: TableIndex, bins: Bins, strays: Strays, table: ObservedTable) -> Iterator[RestoreTable]:
    """To every node that has such a folder of a table that lacks files."""
    namespace, name = table.identity.namespace, table.identity.name
    for directory in strays.get((namespace, name), ()):
        for node, url in bins.get(f"{namespace}/{directory}", ()):
            yield RestoreTable(
                node, url, namespace, directory, table.directory, index.observation.term, keeps_folder=True
            )
