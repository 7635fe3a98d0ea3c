"""Folders on the nodes that are not those of tables which are there: in recycle bins, or in their places still."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from ..state.observation import Observation

Folders = Mapping[str, Sequence[tuple[str, str]]]
"""``<namespace>/<directory>`` of a folder -> (node, its agent's URL) of all that have it."""

Strays = Mapping[tuple[str, str], Collection[str]]
"""(Namespace, table's name) -> folders that nobody remembers: see ``strays``."""


def bins_of(observation: Observation) -> Folders:
    """What the agents that answer have in their bins."""
    return _by_folder((node, url, report.recycled_directories) for node, url, _, report in observation.answering)


def lying_of(observation: Observation) -> Folders:
    """What they have in their bins, or in their places without having been asked about a table of it."""
    return _by_folder(
        (node, url, (*report.recycled_directories, *report.unknown_directories))
        for node, url, _, report in observation.answering
    )


def _by_folder(found: Iterable[tuple[str, str, Iterable[str]]]) -> Folders:
    by_folder: dict[str, dict[tuple[str, str], None]] = {}
    for node, url, folders in found:
        for folder in folders:
            by_folder.setdefault(folder, {})[node, url] = None
    return {folder: tuple(nodes) for folder, nodes in by_folder.items()}
