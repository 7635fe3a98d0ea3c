"""The agents that a clone may pull from: in the operator's order, the next one when one fails."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from colocation.agentclient import AgentClient
from colocation.model.clone import CloneSource


@dataclass(frozen=True)
class Source:
    """A live replica's node and the client of its agent."""

    node: str
    client: AgentClient


class Sources:
    """Spreads transfers over the sources. Safe to share between threads.

    Args:
        wanted: the sources, best first; the operator knows how busy each is. A clone may not ask agents that itself.
        connect: makes a client of a source.
    """

    def __init__(self, wanted: Sequence[CloneSource], connect: Callable[[CloneSource], AgentClient]) -> None:
        self._lock = threading.Lock()
        self._sound = [Source(source.node, connect(source)) for source in wanted]
        self._failed: list[Source] = []

    def order(self, turn: int) -> tuple[Source, ...]:
        """The sources in the order in which to try them: transfers of other turns begin with other sources.

        One that has failed comes last from then on.
        """
        with self._lock:
            start = turn % len(self._sound) if self._sound else 0
            return (*self._sound[start:], *self._sound[:start], *self._failed)

    def demote(self, source: Source) -> None:
        """Try this one last from now on."""
        with self._lock:
            for sources in (self._sound, self._failed):
                if source in sources:
                    sources.remove(source)
            self._failed.append(source)
