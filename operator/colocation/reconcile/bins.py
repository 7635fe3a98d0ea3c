"""What lies in the nodes' recycle bins."""

from collections.abc import Collection, Mapping, Sequence

from ..state.observation import Observation

Bins = Mapping[str, Sequence[tuple[str, str]]]
"""``<namespace>/<directory>`` of a folder in a recycle bin -> (node, its agent's URL) of all that have it there."""

Strays = Mapping[tuple[str, str], Collection[str]]
"""(Namespace, table's name) -> folders in bins that nobody remembers: see ``strays``."""


def bins_of(observation: Observation) -> Bins:
    """What the agents that answer have in their bins."""
    bins: dict[str, list[tuple[str, str]]] = {}
    for node, url, _, report in observation.answering:
        for folder in report.recycled_directories:
            bins.setdefault(folder, []).append((node, url))
    return bins
