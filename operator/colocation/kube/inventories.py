"""What the agents hold: one conversation with each, and the last words of all of them.

A pass waits for agents only where it has something new to ask: their reports arrive by themselves. An
agent that does not answer keeps its last word, with the time since when it is silent; whether that still counts is
decided from the observation (``state.snapshot``), not here.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from random import Random

from ..state.agent_view import AgentView
from ..state.observation import BucketBytes
from .agent_channel import AgentChannel
from .conversation import Asked, Conversation, Leader, Surroundings
from .manifest_memory import BytesKey, ManifestMemory

ANSWER_WAIT_SECONDS = 1.0
"""How long a pass waits for the answers to new questions; agents answer from memory."""
_LASTING_FIELDS = ("instance", "capacity_bytes", "disk", "unknown_directories", "recycled_directories")
"""Of a report's header: what is a reason to wake a pass. The rest (free space, progress of clones) changes all the
time, and is found by the next one."""


class Inventories:
    """The last word of every node's agent.

    Args:
        channel: how questions reach agents.
        now: the steady clock.
        leader: this operator's part in the election.
        changed: called when an agent has news after the pass that asked it has gone on.
        random: of sessions and jitter.
    """

    def __init__(
        self,
        channel: AgentChannel,
        now: Callable[[], datetime],
        changed: Callable[[], None],
        leader: Leader,
        random: Random | None = None,
    ) -> None:
        self._leader = leader
        self._channel = channel
        self._now = now
        self._changed = changed
        self._random = random or Random()
        self._waiting = False
        self._version = 0
        self._views: dict[str, AgentView] = {}
        self._conversations: dict[str, Conversation] = {}
        self._by_url: dict[str, Conversation] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._around: Surroundings | None = None
        self._memory = ManifestMemory()
        self._awaited: set[str] = set()
        self._all_answered = asyncio.Event()

    @property
    def version(self) -> int:
        """Grows whenever an agent has news, falls silent or answers again."""
        return self._version

    @property
    def views(self) -> Mapping[str, AgentView]:
        """Node name -> the last word of its agent."""
        return dict(self._views)

    @property
    def bucket_bytes(self) -> Mapping[BytesKey, BucketBytes]:
        """(namespace, directory, manifest) -> bytes of each bucket, as any agent that has the manifest said."""
        return self._memory.bucket_bytes

    async def ask(
        self,
        urls: Mapping[str, str | None],
        waited_for: Collection[str],
        questions: Mapping[str, Asked],
        again: Collection[str] = (),
    ) -> None:
        """Talk with the agents at ``urls`` (by node; None = it has no agent now), about the tables in ``questions``.

        Waits a moment for those of ``waited_for`` that are asked something new, or that are to be asked ``again``.
        Nodes that are not in ``urls`` any more are forgotten. A node's question is a new one when it is another object.
        """
        for node in self._views.keys() - urls.keys():
            self._end(node)
            del self._views[node]
        for node, url in urls.items():
            if self._follow(node, url, questions.get(node) or _NOTHING, node in again) and node in waited_for:
                self._awaited.add(node)
        await self._wait(ANSWER_WAIT_SECONDS)
        self._awaited.clear()

    def ask_again(self, url: str, in_full: bool = False) -> None:
        """Ask the agent at this URL once more, now: it has just carried out an order.

        ``in_full``: it refused, as what was decided on is not so; that nothing has changed since would not help then.
        """
        conversation = self._by_url.get(url)
        if conversation is not None:
            conversation.ask(conversation.wanted, in_full)

    def forget_bytes(self, keys: Iterable[BytesKey]) -> None:
        """Of manifests that are not wanted any more."""
        self._memory.forget(keys)

    def keep_bytes(self, keys: Collection[BytesKey]) -> None:
        """Forget those of all other manifests."""
        self._memory.keep(keys, (table for view in self._views.values() for table in view.tables.values()))

    async def close(self) -> None:
        """End the conversations and close the connections; ``ask`` opens new ones."""
        tasks = list(self._tasks.values())
        for node in list(self._conversations):
            self._end(node)
        await asyncio.gather(*tasks, return_exceptions=True)
        self._views.clear()
        await self._channel.close()

    # What the conversations tell

    def answered(self, node: str, view: AgentView, news: bool) -> None:
        """See ``conversation.Listener``."""
        before = self._views.get(node, AgentView())
        self._views[node] = view
        back = before.silent_since is not None
        if back or before.asked is not view.asked or before.tables is not view.tables or _has_news(before, view):
            self._notice(wake=True)
        elif news:
            self._notice(wake=False)
        if self._conversations[node].is_answered:
            self._settle(node)

    def fell_silent(self, node: str, view: AgentView) -> None:
        """See ``conversation.Listener``."""
        before = self._views.get(node, AgentView())
        self._views[node] = view
        if before.silent_since is None:
            self._notice(wake=True)
        self._settle(node)

    # How they begin and end

    def _follow(self, node: str, url: str | None, wanted: Asked, again: bool) -> bool:
        """Talk with the agent where it is now, about what is wanted now; whether it is asked something new.

        A new pod finds its predecessor's files on the disk.
        """
        self._views.setdefault(node, AgentView(silent_since=self._now()))
        conversation = self._conversations.get(node)
        if conversation is None or conversation.url != url:
            self._end(node)
            if url is None:
                self._mark_silent(node)
                return False
            self._begin(node, url, wanted)
            return True
        if conversation.wanted is wanted and not again:
            return False
        conversation.ask(wanted)
        return True

    def _begin(self, node: str, url: str, wanted: Asked) -> None:
        if self._around is None:
            self._around = Surroundings(
                self._channel, self._now, self._leader, self, self._memory, self._random
            )
        conversation = Conversation(node, url, self._views[node], wanted, self._around)
        self._conversations[node] = self._by_url[url] = conversation
        self._tasks[node] = asyncio.create_task(conversation.run(), name=f"agent of {node}")

    def _end(self, node: str) -> None:
        conversation = self._conversations.pop(node, None)
        if conversation is not None:
            self._by_url.pop(conversation.url, None)
        task = self._tasks.pop(node, None)
        if task is not None:
            task.cancel()
        self._settle(node)

    async def _wait(self, seconds: float) -> None:
        """Until everyone that was asked something new has answered or failed, at most so long."""
        if not self._awaited:
            return
        self._all_answered.clear()
        self._waiting = True
        try:
            async with asyncio.timeout(seconds):
                await self._all_answered.wait()
        except TimeoutError:
            return
        finally:
            self._waiting = False

    def _settle(self, node: str) -> None:
        self._awaited.discard(node)
        if not self._awaited:
            self._all_answered.set()

    def _mark_silent(self, node: str) -> None:
        view = self._views.get(node)
        if view is not None and view.silent_since is None:
            self._views[node] = replace(view, silent_since=self._now())
            self._notice(wake=True)

    def _notice(self, wake: bool) -> None:
        self._version += 1
        if wake and not self._waiting:
            self._changed()


_NOTHING: Asked = {}
"""One object: a question about nothing is not a new one every time."""


def _has_news(before: AgentView, after: AgentView) -> bool:
    """Whether more than passing figures differ."""
    if before.report is None or after.report is None:
        return before.report is not after.report
    return any(getattr(before.report, name) != getattr(after.report, name) for name in _LASTING_FIELDS)
