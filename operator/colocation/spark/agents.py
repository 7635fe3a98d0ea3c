"""A group's agents from Spark's side: one client per node, and reads that any of them can answer.

Agents restart, one after the other, whenever they are upgraded. Reads go on with the next node at once, and begin anew
with the first one until the session's retry time is over. Writes wait for their node so long.
"""

import contextlib
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from colocation.agentclient import AgentClient, AgentError, Credentials, Timeouts
from colocation.model.table_manifest import TableManifest, decode_manifest, manifest_path

from .addresses import urls_of

Answer = TypeVar("Answer")

FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 0.2, 5.0
AWAY_SECONDS = 60.0
"""An agent that did not answer for the whole retry time is asked once per request for so long, not waited for again."""


class NoAgentAnswers(Exception):
    """None of the agents gave what was asked for; the message says what each one said."""


class Agents(contextlib.AbstractContextManager["Agents"]):
    """Clients of a group's ready agents by node; use it as a context manager.

    Args:
        urls: by node, as the ConfigMap said.
        credentials: token and CA.
        timeouts: ``retry_deadline_seconds`` is the session's retry time.
        addresses: a file that says where agents are by now; see ``addresses_file``.
        clock: seconds.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        urls: dict[str, str],
        credentials: Credentials,
        timeouts: Timeouts,
        addresses: Path,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        once = replace(timeouts, retry_deadline_seconds=0.0)

        def client(node: str, url: str, patience: Timeouts) -> AgentClient:
            return AgentClient(urls_of(node, url, addresses), credentials, patience, node=node)

        self._patient = {node: client(node, url, timeouts) for node, url in urls.items()}
        self._once = {node: client(node, url, once) for node, url in urls.items()}
        self._retry_seconds = timeouts.retry_deadline_seconds
        self._away_until: dict[str, float] = {}
        self._clock = clock
        self._sleep = sleep

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes with a ready agent."""
        return frozenset(self._patient)

    def ask(self, node: str, ask: Callable[[AgentClient], Answer]) -> Answer:
        """What a node's agent answers; it is waited for, unless it was lately in vain.

        Raises:
            AgentError: it refused, or did not answer.
        """
        is_away = self._clock() < self._away_until.get(node, 0.0)
        try:
            answer = ask((self._once if is_away else self._patient)[node])
        except AgentError as error:
            if error.may_pass:
                self._away_until[node] = self._clock() + AWAY_SECONDS
            raise
        self._away_until.pop(node, None)
        return answer

    def first_answer(self, what: str, nodes: Iterable[str], ask: Callable[[AgentClient], Answer]) -> Answer:
        """The first good answer, asking one node after the other, and all of them again while one may yet answer.

        Raises:
            NoAgentAnswers: naming what was asked for, why each node could not give it, and how long they were asked.
        """
        asked = tuple(nodes)
        started, delay = self._clock(), FIRST_DELAY_SECONDS
        while True:
            failures: dict[str, Exception] = {}
            for node in asked:
                try:
                    return ask(self._once[node])
                except (AgentError, ValueError) as error:
                    failures[node] = error
            passed = self._clock() - started
            may_pass = any(isinstance(error, AgentError) and error.may_pass for error in failures.values())
            if not may_pass or passed + delay > self._retry_seconds:
                said = "; ".join(f"{node}: {error}" for node, error in failures.items())
                raise NoAgentAnswers(f"{what}: no agent gave it; asked for {passed:.0f} s: {said or NONE_READY}")
            self._sleep(delay * random.uniform(0.5, 1.0))
            delay = min(2 * delay, MAX_DELAY_SECONDS)

    def fetch_manifest(self, namespace: str, directory: str, sha256: str) -> tuple[TableManifest, bytes]:
        """A manifest, checked against its digest and its buckets, and its stored bytes."""

        def fetch(client: AgentClient) -> tuple[TableManifest, bytes]:
            with client.get_file(namespace, directory, manifest_path(sha256)) as stream:
                stored = stream.read()
            return decode_manifest(stored, sha256), stored

        return self.first_answer(f"manifest {sha256} of {namespace}/{directory}", sorted(self._once), fetch)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in (*self._patient.values(), *self._once.values()):
            client.close()


NONE_READY = "none, no agent is ready"
