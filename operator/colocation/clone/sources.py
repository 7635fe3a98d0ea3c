"""The agents that a clone may pull from: the least busy first, the next one when it fails."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from colocation.agentclient import AgentClient, AgentError
from colocation.model.clone import CloneSource

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """A live replica's node and the client of its agent."""

    node: str
    client: AgentClient


class Sources:
    """Keeps to one source while it serves, so that connections are used again.

    Args:
        wanted: the sources, best first.
        connect: makes a client of a source.
    """

    def __init__(self, wanted: Sequence[CloneSource], connect: Callable[[CloneSource], AgentClient]) -> None:
        self._sources = _least_busy_first([Source(source.node, connect(source)) for source in wanted])

    def __iter__(self) -> Iterator[Source]:
        """The sources in the order in which to try them; a failed one has moved to the end."""
        return iter(tuple(self._sources))

    def demote(self, source: Source) -> None:
        """Try this one last from now on."""
        self._sources.remove(source)
        self._sources.append(source)


def _least_busy_first(sources: list[Source]) -> list[Source]:
    if len(sources) == 1:
        return sources
    transfers = {source.node: _active_transfers(source) for source in sources}
    return sorted(sources, key=lambda source: transfers[source.node])  # stable: the given order decides ties


def _active_transfers(source: Source) -> float:
    try:
        return source.client.status().active_transfers
    except AgentError as error:
        _log.warning("source %s is tried last: %s", source.node, error)
        return float("inf")
