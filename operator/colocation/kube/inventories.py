"""What the agents hold: asked in threads, with short deadlines, so that a silent node never holds up a pass.

An agent that is slow to answer is left to answer in the background; until then its last word stands, with the time
since when it is silent. Whether that still counts is decided from the observation (``kube.snapshot``), not here.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from ..agentclient import AgentError
from ..model.agent import AgentReport, InventoryRequest, TableReference
from ..state.observation import AgentView, BucketBytes

logger = logging.getLogger(__name__)

Tables = tuple[TableReference, ...]
BytesKey = tuple[str, str, str]

ANSWER_WAIT_SECONDS = 1.0
"""How long a pass waits for agents; they answer from memory."""
FIRST_ANSWER_WAIT_SECONDS = 5.0
"""How long it waits for an agent that was never asked: an operator that starts must not call good groups unstable."""
MAX_THREADS = 32


class InventoryClient(Protocol):
    """The part of ``AgentClient`` that is used here."""

    def inventory(self, request: InventoryRequest, revision: str | None = None) -> AgentReport | None:
        """The report, or None when nothing changed since the revision."""

    def close(self) -> None:
        """Close the connections."""


@dataclass
class _Agent:
    """One node's agent: its client (None while it has no address), the request under way, and its last word."""

    view: AgentView
    url: str | None = None
    client: InventoryClient | None = None
    task: "asyncio.Task[None] | None" = None


class Inventories:
    """The last word of every node's agent.

    Args:
        connect: makes a client for an agent's URL.
        now: the clock.
        changed: called when an agent says something new after the pass that asked it has gone on.
    """

    def __init__(
        self, connect: Callable[[str], InventoryClient], now: Callable[[], datetime], changed: Callable[[], None]
    ) -> None:
        self._connect = connect
        self._now = now
        self._changed = changed
        self._waiting = False
        self._version = 0
        self._agents: dict[str, _Agent] = {}
        self._bucket_bytes: dict[BytesKey, BucketBytes] = {}
        self._executor = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="inventory")

    @property
    def version(self) -> int:
        """Grows whenever an agent says something new, falls silent or answers again."""
        return self._version

    @property
    def views(self) -> Mapping[str, AgentView]:
        """Node name -> the last word of its agent."""
        return {node: agent.view for node, agent in self._agents.items()}

    @property
    def bucket_bytes(self) -> Mapping[BytesKey, BucketBytes]:
        """(namespace, directory, manifest) -> bytes of each bucket, as any agent that has the manifest said."""
        return dict(self._bucket_bytes)

    async def ask(self, urls: Mapping[str, str | None], waited_for: frozenset[str], tables: Tables) -> None:
        """Ask the agents at ``urls`` (by node; None = it has no agent now) about the tables.

        Waits a moment for those of ``waited_for``. Nodes that are not in ``urls`` any more are forgotten.
        """
        self._forget_bytes_of_old_manifests(tables)
        for node in self._agents.keys() - urls.keys():
            self._disconnect(self._agents.pop(node))
        first = not waited_for <= self._agents.keys()
        for node, url in urls.items():
            agent = self._agents.setdefault(node, _Agent(AgentView(silent_since=self._now())))
            self._follow(agent, url)
            if agent.client and (agent.task is None or agent.task.done()):
                agent.task = asyncio.create_task(self._ask_one(node, agent, agent.client, tables))
        tasks = [agent.task for node in waited_for if (agent := self._agents[node]).task]
        if tasks:
            self._waiting = True
            await asyncio.wait(tasks, timeout=FIRST_ANSWER_WAIT_SECONDS if first else ANSWER_WAIT_SECONDS)
            self._waiting = False

    async def close(self) -> None:
        """End the requests under way and close the connections."""
        tasks = [agent.task for agent in self._agents.values() if agent.task]
        for agent in self._agents.values():
            self._disconnect(agent)
        await asyncio.gather(*tasks, return_exceptions=True)
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _follow(self, agent: _Agent, url: str | None) -> None:
        """Connect to where the agent is now. A new pod finds its predecessor's files on the disk."""
        if agent.url == url:
            return
        self._disconnect(agent)
        agent.url, agent.client = url, self._connect(url) if url else None
        if url is None:
            self._mark_silent(agent)

    def _disconnect(self, agent: _Agent) -> None:
        if agent.task:
            agent.task.cancel()
        if agent.client:
            agent.client.close()
        agent.url, agent.client, agent.task = None, None, None

    async def _ask_one(self, node: str, agent: _Agent, client: InventoryClient, tables: Tables) -> None:
        before, asked_at = agent.view, self._now()
        revision = before.report.revision if before.report and before.asked == tables else None
        request = InventoryRequest(tables=tables)
        loop = asyncio.get_running_loop()
        try:
            report = await loop.run_in_executor(self._executor, client.inventory, request, revision)
        except AgentError as error:
            logger.info("agent of node %s at %s: %s", node, agent.url, error)
            self._mark_silent(agent)
            return
        agent.view = AgentView(report or before.report, tables, self._now(), asked_at=asked_at)
        if report is not None:
            self._remember_bytes(report)
        if report is not None or before.silent_since is not None:
            self._notice()

    def _mark_silent(self, agent: _Agent) -> None:
        view = agent.view
        if view.silent_since is None:
            agent.view = replace(view, silent_since=self._now())
            self._notice()

    def _notice(self) -> None:
        self._version += 1
        if not self._waiting:
            self._changed()

    def _remember_bytes(self, report: AgentReport) -> None:
        for table in report.tables:
            if table.manifest is None or not table.manifest_present:
                continue
            key = (table.namespace, table.directory, table.manifest)
            known = self._bucket_bytes.get(key, {})
            said = {bucket: held.bytes_wanted for bucket, held in table.buckets.items()}
            self._bucket_bytes[key] = {**said, **{one: max(size, said.get(one, 0)) for one, size in known.items()}}

    def _forget_bytes_of_old_manifests(self, tables: Tables) -> None:
        live = {(table.namespace, table.directory, table.manifest) for table in tables}
        for key in self._bucket_bytes.keys() - live:
            del self._bucket_bytes[key]
