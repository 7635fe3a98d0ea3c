"""A group's agents from Spark's side: one client per node, and reads that any of them can answer."""

import contextlib
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TypeVar

from colocation.agentclient import AgentClient, AgentError, Credentials, Timeouts
from colocation.model.table_manifest import TableManifest, decode_manifest, manifest_path

Answer = TypeVar("Answer")


class NoAgentAnswers(Exception):
    """None of the agents gave what was asked for; the message says what each one said."""


class Agents(contextlib.AbstractContextManager["Agents"]):
    """Clients of a group's ready agents by node; use it as a context manager."""

    def __init__(self, urls: dict[str, str], credentials: Credentials, timeouts: Timeouts) -> None:
        self._clients = {node: AgentClient(url, credentials, timeouts) for node, url in urls.items()}

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes with a ready agent."""
        return frozenset(self._clients)

    def client(self, node: str) -> AgentClient:
        """The client of a node's agent; KeyError when it has none."""
        return self._clients[node]

    def first_answer(self, what: str, nodes: Iterable[str], ask: Callable[[AgentClient], Answer]) -> Answer:
        """The first good answer, asking one node after the other.

        Raises:
            NoAgentAnswers: naming what was asked for and why each node could not give it.
        """
        failures = []
        for node in nodes:
            try:
                return ask(self._clients[node])
            except (AgentError, ValueError) as error:
                failures.append(f"{node}: {error}")
        raise NoAgentAnswers(f"{what}: no agent gave it; asked {'; '.join(failures) or 'none, no agent is ready'}")

    def fetch_manifest(self, namespace: str, directory: str, sha256: str) -> tuple[TableManifest, bytes]:
        """A manifest, checked against its digest and its buckets, and its stored bytes."""

        def fetch(client: AgentClient) -> tuple[TableManifest, bytes]:
            with client.get_file(namespace, directory, manifest_path(sha256)) as stream:
                stored = stream.read()
            return decode_manifest(stored, sha256), stored

        return self.first_answer(f"manifest {sha256} of {namespace}/{directory}", sorted(self._clients), fetch)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            client.close()
