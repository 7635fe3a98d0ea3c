"""Decides which folders of tables that are gone go into the recycle bins, and when too many would go at once.

A folder is explained when a group remembers its table as dropped: a user wanted that. Any other folder without a table
may be the sign of something worse: objects that an etcd restore or CRDs applied anew took away. Such folders wait for a
while; and when they are more than a small share of all, none goes until somebody says that they may (the brake). A
few folders may always go, unless they are most of what there is: a small cluster that lost its objects is small, too.

Safety invariant: within ``BRAKE_WINDOW`` no more unexplained folders go than the brake lets through.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..model.members import RecycledTable
from ..model.table import ColocatedTableSpec
from ..state.index import TableIndex
from ..state.observation import AgentView
from .actions import RecycleTable
from .evidence import Evidence
from .members import keep_seconds_of
from .policy import Policy
from .proofs import proof_of_folder

DEFAULT_RECYCLE_SECONDS: int = ColocatedTableSpec.model_fields["recycle_after_seconds"].default
"""Of folders of which no group knows how long they are to be kept."""
FEW_FOLDERS = 10
MAX_UNEXPLAINED_SHARE = 0.05
"""Of all table folders on all nodes."""


@dataclass(frozen=True)
class Withheld:
    """Unexplained folders of which none goes, as they are too many. ``known``: all table folders on all nodes.

    ``tables``: '<namespace>/<directory>' of them, each once.
    """

    folders: int
    known: int
    allowed: int
    tables: tuple[str, ...]

    @property
    def namespaces(self) -> frozenset[str]:
        """Where their tables were."""
        return frozenset(path.partition("/")[0] for path in self.tables)

    @property
    def message(self) -> str:
        """What is withheld and what to do, for people."""
        listed = ", ".join(self.tables[:5]) + (", …" if len(self.tables) > 5 else "")
        return (
            f"{self.folders} of {self.known} table folders on the nodes belong to no table, and no group remembers "
            f"that they were dropped ({len(self.tables)} tables: {listed}); at most {self.allowed} go at once, "
            "so none does. If the objects were lost, `colocation adopt` makes them again; to let the files go, set "
            f"limits.maxUnexplainedFolders of the chart to {self.folders} or more"
        )


@dataclass(frozen=True)
class Recycling:
    """The folders that go now, and what is withheld. ``is_waiting``: others go with the clock alone."""

    actions: tuple[RecycleTable, ...]
    withheld: Withheld | None
    is_waiting: bool = False


def recycling(index: TableIndex, recycled: Iterable[RecycledTable], evidence: Evidence, policy: Policy) -> Recycling:
    """Folders of tables that are gone go to the recycle bin of their node.

    ``recycled``: the dropped tables as their groups remember them after this pass. Folders that a table takes over
    just now stay.
    """
    records = {f"{record.namespace}/{folder}": record for record in recycled for folder in record.directories}
    explained: list[RecycleTable] = []
    unexplained: list[RecycleTable] = []
    for action in _unknown_folders(index, records):
        (explained if action.is_explained else unexplained).append(action)
    known = sum(_folders(view) for view in index.observation.agent_views.values())
    folders = len(unexplained) + evidence.unexplained_in_window(index.observation)
    allowed = _allowed(folders, known, policy)
    if folders > allowed:
        paths = sorted({f"{action.namespace}/{action.directory}" for action in unexplained})
        withheld = Withheld(folders, known, allowed, tuple(paths)) if paths else None
        return Recycling(tuple(explained), withheld)
    now = index.observation.now
    due = [one for one in unexplained if evidence.is_unknown_for(one, now, policy.unknown_folder_seconds)]
    return Recycling((*explained, *due), None, len(due) < len(unexplained))


def _allowed(folders: int, known: int, policy: Policy) -> int:
    """How many unexplained folders may go, of so many that want to, where so many are known."""
    if policy.max_unexplained_folders is not None:
        return policy.max_unexplained_folders
    few = FEW_FOLDERS if 2 * folders <= known else 0
    return max(few, int(known * MAX_UNEXPLAINED_SHARE))


def _folders(view: AgentView) -> int:
    return len(view.tables) + (len(view.report.unknown_directories) if view.report else 0)


def _unknown_folders(index: TableIndex, records: dict[str, RecycledTable]) -> Iterator[RecycleTable]:
    observation = index.observation
    urls = observation.agent_urls
    for node, view in observation.agent_views.items():
        url = urls.get(node)
        if url is None or view.report is None or view.silent_since is not None:
            continue
        for path in view.report.unknown_directories:
            namespace, _, directory = path.partition("/")
            record, key = records.get(path), (namespace, directory)
            proof = proof_of_folder(observation, view, record.uid if record else directory.rpartition("-")[2])
            if proof and key not in view.asked and key not in index.by_folder and not _returns(index, record):
                keep_seconds = keep_seconds_of(record, observation.now) if record else DEFAULT_RECYCLE_SECONDS
                yield RecycleTable(node, url, *key, keep_seconds, proof, is_explained=record is not None)


def _returns(index: TableIndex, record: RecycledTable | None) -> bool:
    """Whether a table waits for the files of the dropped one."""
    return record is not None and any(heir.is_recovering for heir in index.heirs_of(record))
