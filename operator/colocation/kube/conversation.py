"""The operator's conversation with one agent: a question at a time, which the agent holds until something changes.

A question that differs from the one before is sent as that difference, and answered at once. Then the same question
is asked again and held: what changes on the node is heard of within moments, and a quiet node costs a request a minute.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random
from typing import Protocol

from ..agentclient import AgentError, BadRequest, StaleTerm, UnknownQuestion
from ..agentclient.calls import NOT_MODIFIED, Call, inventory_call, old_inventory_call, parsed
from ..common.waiting import set_within
from ..model.agent import AgentReport, AskedTable, InventoryRequest, SeenLease, TableReport
from ..state.agent_view import AgentView, TableKey
from .agent_channel import AgentChannel
from .manifest_memory import ManifestMemory

logger = logging.getLogger(__name__)

Asked = Mapping[TableKey, AskedTable]

HOLD_SECONDS = 45.0
HOLD_JITTER_SECONDS = 5.0
"""Questions to a thousand agents must not all end in the same second."""
MIN_INTERVAL_SECONDS = 0.5
"""Between two held questions: an agent that answers them at once must not keep the operator busy."""
OLD_INTERVAL_SECONDS = 5.0
"""Between two questions to an agent that cannot hold them: one of the release before."""
FIRST_RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 5.0
"""Well below the grace of 30 s: an agent that is back in time has to be heard in time."""
MAX_EXCHANGES = 64
"""Questions at once that are answered at once: a start, or a change on all nodes, must not open a thousand connections
in one moment."""
INVALID_BODY = "InvalidBody"


class Listener(Protocol):
    """What listens to a conversation."""

    def answered(self, node: str, view: AgentView, news: bool) -> None:
        """The agent answered, with news or without. ``view.tables`` is another object when tables changed."""

    def fell_silent(self, node: str, view: AgentView) -> None:
        """The agent did not answer, or not with what is an answer."""


class Leader(Protocol):
    """This operator's part in the election, as far as conversations with agents are concerned."""

    @property
    def term(self) -> int:
        """0 = it does not lead."""

    @property
    def lease(self) -> SeenLease | None:
        """What agents are to remember of the Lease; None = what they remember has to stay for now."""

    @property
    def etcd_restored(self) -> bool:
        """Whether deletions wait for an administrator."""

    def hear_term(self, term: int) -> None:
        """An agent has heard of an operator with this term, newer than ours."""

    def hear_lease(self, lease: SeenLease) -> None:
        """What an agent remembered of the Lease when this conversation with it began."""


@dataclass(frozen=True)
class Surroundings:
    """What all conversations share. ``first_contacts`` and ``exchanges`` bound how many talk at once."""

    channel: AgentChannel
    now: Callable[[], datetime]
    leader: Leader
    listener: Listener
    memory: ManifestMemory = field(default_factory=ManifestMemory)
    random: Random = field(default_factory=Random)
    first_contacts: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_EXCHANGES))
    exchanges: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_EXCHANGES))


class Conversation:
    """One agent at one URL, asked for as long as the task of ``run`` lives.

    Args:
        node: the agent's; one that answers for another node is not believed.
        url: where it listens.
        view: its last word, maybe at another URL.
        wanted: what to ask about.
        surroundings: shared by all conversations.
    """

    def __init__(self, node: str, url: str, view: AgentView, wanted: Asked, surroundings: Surroundings) -> None:
        self.url = url
        self.view = view
        self.wanted = wanted
        self._node = node
        self._around = surroundings
        self._session = uuid.UUID(int=surroundings.random.getrandbits(128)).hex
        self._number = 0
        self._sent: Asked | None = None
        self._revision: str | None = None
        self._due = True
        self._nudge = asyncio.Event()
        self._held_at = 0.0
        self._held: asyncio.Task[tuple[int, bytes]] | None = None
        self._is_old = False
        self._is_full = False
        self._has_answered = False
        self._begun: AgentView | None = None
        """What an answer in several parts holds so far; it is used only once the last part is here."""

    def ask(self, wanted: Asked, in_full: bool = False) -> None:
        """Ask about these tables, now; a question that is being held is given up for it.

        ``in_full``: the agent shall say all of it again. Its uptime above all, which orders end by: an answer that was
        long on its way tells an old one, and "nothing has changed" tells none.
        """
        self.wanted, self._due = wanted, True
        self._is_full = self._is_full or in_full
        self._nudge.set()
        if self._held is not None:
            self._held.cancel()

    @property
    def is_answered(self) -> bool:
        """Whether nothing new is left to be asked."""
        return not self._due

    async def run(self) -> None:
        """Ask for ever."""
        delay = FIRST_RETRY_SECONDS
        while True:
            try:
                await self._exchange()
                delay = FIRST_RETRY_SECONDS
                continue
            except AgentError as error:
                self._fail(error)
            except Exception:  # whatever an agent answers harms the conversation with it only
                logger.exception("agent of node %s at %s: the conversation failed", self._node, self.url)
                self._forget()
            if self.view.silent_since is None:
                self.view = replace(self.view, silent_since=self._around.now())
            self._around.listener.fell_silent(self._node, self.view)
            await asyncio.sleep(delay * self._around.random.uniform(0.5, 1.0))
            delay = min(2 * delay, MAX_RETRY_SECONDS)

    def _fail(self, error: AgentError) -> None:
        level = logging.DEBUG if self.view.silent_since is not None else logging.INFO
        logger.log(level, "agent of node %s at %s: %s", self._node, self.url, error)
        self._forget()
        if isinstance(error, StaleTerm) and error.term > self._around.leader.term:
            self._around.leader.hear_term(error.term)

    def _forget(self) -> None:
        """Nothing is known of what the agent remembers: the next question is asked in full."""
        self._sent, self._revision, self._due, self._is_old, self._begun = None, None, True, False, None

    async def _exchange(self) -> None:
        if self._is_old:
            await self._exchange_old()
            return
        is_full = self._sent is None
        try:
            await (self._ask_now() if self._due else self._ask_held())
        except UnknownQuestion:
            if is_full:
                raise
            self._forget()
        except BadRequest as error:
            if error.reason != INVALID_BODY or not is_full:
                raise
            logger.info("agent of node %s is of the release before: it is asked every few seconds", self._node)
            self._is_old = True

    async def _ask_now(self) -> None:
        gate = self._around.exchanges if self.view.silent_since is None else self._around.first_contacts
        async with gate:
            self._due = False
            if self._is_full:
                self._revision, self._is_full = None, False
            wanted, asked_at = self.wanted, self._around.now()
            answer = await self._around.channel.send(self.url, self._question(wanted, 0.0), 0.0)
        self._take(answer, wanted, asked_at)

    async def _ask_held(self) -> None:
        loop = asyncio.get_running_loop()
        await self._pause(self._held_at + MIN_INTERVAL_SECONDS - loop.time())
        if self._due:
            return
        self._held_at = loop.time()
        wanted, asked_at = self.wanted, self._around.now()
        wait_seconds = HOLD_SECONDS + self._around.random.uniform(0.0, HOLD_JITTER_SECONDS)
        question = self._question(wanted, wait_seconds)
        self._held = asyncio.create_task(self._around.channel.send(self.url, question, wait_seconds))
        try:
            answer = await self._held
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._due and task is not None and not task.cancelling():
                return
            raise
        finally:
            self._held = None
        self._take(answer, wanted, asked_at)

    def _question(self, wanted: Asked, wait_seconds: float) -> Call:
        """The next question, as what differs from the one before."""
        before: Asked = self._sent or {}
        request = InventoryRequest(
            term=self._around.leader.term,
            session=self._session,
            number=self._number + 1,
            base=None if self._sent is None else self._number,
            changed=tuple(table for key, table in wanted.items() if before.get(key) is not table),
            removed=tuple("/".join(key) for key in before if key not in wanted),
            lease=self._around.leader.lease if self._has_answered else None,
            frozen=self._around.leader.etcd_restored,
            wait_seconds=wait_seconds,
        )
        self._number += 1
        self._sent = wanted
        return inventory_call(request, self._revision)

    async def _exchange_old(self) -> None:
        self._due = False
        wanted, asked_at = self.wanted, self._around.now()
        revision = self._revision if self.view.asked is wanted else None
        call = old_inventory_call(tuple(one.reference for one in wanted.values()), revision)
        async with self._around.exchanges:
            answer = await self._around.channel.send(self.url, call, 0.0)
        self._take(answer, wanted, asked_at)
        await self._pause(OLD_INTERVAL_SECONDS)

    async def _pause(self, seconds: float) -> None:
        """Wait so long, or until there is something new to ask."""
        self._nudge.clear()
        if seconds > 0 and not self._due:
            await set_within(self._nudge, seconds)

    def _take(self, answer: tuple[int, bytes], wanted: Asked, asked_at: datetime) -> None:
        status, body = answer
        now = self._around.now()
        before = replace(self.view, answered_at=now, asked_at=asked_at, silent_since=None)
        if status == NOT_MODIFIED:
            if self._revision is None or self._begun is not None:
                raise AgentError(status, "UnexpectedAnswer", "nothing has changed since an answer that was not given")
            header = _aged(self.view, now)
            self._tell(replace(before, report=header, asked=wanted, tables=self._kept(wanted)), news=False)
            return
        report = self._checked(parsed(AgentReport, body))
        if not self._has_answered and report.lease is not None:
            self._around.leader.hear_lease(report.lease)
        self._has_answered = True
        memory = self._around.memory
        reported = {(one.namespace, one.directory): one for one in report.tables}
        shared = {key: reported[key] for key in wanted if key in reported}  # in the keys that all conversations share
        for one in shared.values():
            memory.take(one)
        kept = self._kept(wanted)
        tables = shared if report.is_full else {**kept, **shared} if shared else kept
        self._revision = report.revision
        header = report.model_copy(update={"tables": ()})
        view = replace(before, report=header, tables=tables, asked=wanted)
        self._begun = None if report.is_whole else view
        if report.is_whole:
            self._tell(view, news=True)
        if report.term > self._around.leader.term:
            self._around.leader.hear_term(report.term)

    def _kept(self, wanted: Asked) -> Mapping[TableKey, TableReport]:
        """What was said before, of the tables that are still asked about."""
        said = self._begun or self.view
        if wanted is said.asked:
            return said.tables
        return {key: one for key, one in said.tables.items() if key in wanted}

    def _checked(self, report: AgentReport) -> AgentReport:
        if report.node != self._node:
            message = f"it answers as the agent of node {report.node[:253]!r}; an agent runs once on each node"
            raise AgentError(200, "UnexpectedAnswer", message)
        known = (self._begun or self.view).report
        if not report.is_full and (self._revision is None or known is None or known.instance != report.instance):
            raise AgentError(200, "UnexpectedAnswer", "it reported changes since an answer that it has not given")
        return report

    def _tell(self, view: AgentView, news: bool) -> None:
        self.view = view
        self._around.listener.answered(self._node, view, news)


def _aged(view: AgentView, now: datetime) -> AgentReport | None:
    """The report of an agent that has no news: its process is as much older as time has gone by here."""
    if view.report is None or view.answered_at is None:
        return view.report
    passed_seconds = max(0.0, (now - view.answered_at).total_seconds())
    return view.report.model_copy(update={"uptime_seconds": view.report.uptime_seconds + passed_seconds})
