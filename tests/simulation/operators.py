"""Operators: the real process (loop, election, reader, writer, decisions, planner), over fake API server and agents.

This file is the seam: what the real process reaches the world by is put in here, and nowhere else.
"""

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from colocation.common.server_clock import ServerClock
from colocation.controller import full_lists
from colocation.controller import operator as process
from colocation.controller.clock import SteadyClock
from colocation.controller.leadership import LEASES, Leadership
from colocation.controller.operator import Operator
from colocation.controller.reconciler import PassResult
from colocation.controller.settings import Settings
from colocation.kube.api import EVENTS, GROUPS, NODES, TABLES, Resource
from colocation.kube.inventories import Inventories
from colocation.model.conditions import Reason

from .api import ApiClient, ApiFaults, Event
from .network import AgentCalls, QuestionChannel
from .virtual_time import VirtualLoop, WallClock

if TYPE_CHECKING:
    from .world import World

UNCOUNTED = (EVENTS.plural, LEASES.plural)
"""Writes of which nothing depends."""
OWNER: contextvars.ContextVar[object] = contextvars.ContextVar("owner")
WATCHED = (GROUPS, TABLES, NODES)
"""By kopf; the process watches the others itself."""


class _Time:
    """In the place of the module ``time``."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.monotonic = loop.time


@contextmanager
def virtual_processes(loop: VirtualLoop) -> Iterator[None]:
    """Operators' processes run in virtual time."""
    with patch.object(process, "time", _Time(loop)), patch.object(full_lists, "time", _Time(loop)):
        yield


def follow_tasks(loop: VirtualLoop) -> "dict[asyncio.Task[Any], object]":
    """Task -> the process that began it: with a process all its tasks end."""
    owners: dict[asyncio.Task[Any], object] = {}

    def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
        owner = OWNER.get(None)
        if owner is not None:
            owners[task] = owner
            task.add_done_callback(lambda task: owners.pop(task, None))
        return task

    loop.set_task_factory(make)
    return owners


def settings_for(world: "World", name: str) -> Settings:
    """What the world promises, as the operators' settings."""
    limits = world.limits
    usual: dict[str, Any] = {
        "namespace": "colocation",
        "image": "operator:1",
        "agent_grace_seconds": limits.agent_grace,
        "garbage_grace_seconds": limits.garbage_grace,
        "resync_seconds": limits.resync,
        "collect_seconds": limits.collect,
        "clone_deadline_seconds": 120,
        "pod_name": name,
    }
    return Settings.model_validate(usual | world.settings)


class Watch:
    """How one operator hears of objects: first of all that there are, then of changes; late, at its own pace per kind,
    sometimes twice, sometimes not at all.

    ``lost_rate``: of events that never come; the next full list makes up for them.
    """

    def __init__(self, world: "World", random: Random, take: Callable[[Event], None]) -> None:
        self._world = world
        self._random = random
        self._take = take
        self._heard_at: dict[Resource, float] = {}
        self.slowest_seconds = 0.5
        self.lost_rate = 0.0
        self.twice_rate = 0.02
        self.is_open = True
        for resource in WATCHED:
            for body in world.api.peek(resource):
                self._see(Event(resource, body, deleted=False))
        world.api.watchers.append(self._see)

    def close(self) -> None:
        """Hear of nothing any more."""
        self.is_open = False
        self._world.api.watchers.remove(self._see)

    def _see(self, event: Event) -> None:
        if self._random.random() < self.lost_rate:
            return
        now = self._world.loop.elapsed
        at = max(self._heard_at.get(event.resource, 0.0), now + self._random.uniform(0.001, self.slowest_seconds))
        self._heard_at[event.resource] = at
        self._world.loop.call_at(at, self._tell, event)
        if self._random.random() < self.twice_rate:
            self._world.loop.call_at(at + self._random.uniform(0, 5), self._tell, event)

    def _tell(self, event: Event) -> None:
        if self.is_open:
            self._take(event)


class SimulatedOperator:
    """One operator's pod; `kill` is what a crash is, `start` what a new container is.

    ``writes``: how many writes and orders it has begun. ``dies_at``: with this one; ``dies_after``: only when it is
    carried out.
    """

    def __init__(self, world: "World", name: str, random: Random) -> None:
        self._world = world
        self._random = random
        self.name = name
        self.faults = ApiFaults()
        self.wall = WallClock(world.loop)
        self.lost_events_rate = 0.0
        self.writes = 0
        self.dies_at: int | None = None
        self.dies_after = False
        self.starts = 0
        self.process: Operator | None = None
        self._owner: object = None
        self._watch: Watch | None = None
        self._starting: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        return self.process is not None

    @property
    def is_leading(self) -> bool:
        return self.process is not None and self.process.leadership.is_leading

    @property
    def last(self) -> PassResult | None:
        """The result of the newest pass."""
        return self.process.last if self.process else None

    def start(self) -> None:
        """A new process, which knows nothing."""
        if self.process is not None:
            return
        self.starts += 1
        owner, process_name = object(), f"{self.name}.{self.starts}"
        self._owner = owner
        world, monotonic = self._world, self._world.loop.time
        api = ApiClient(
            world.api, self._random, self.faults, self._before_api_write, self._after_write,
            is_alive=lambda: owner is self._owner, after_read=partial(world.checks.orders.after_read, process_name),
            clock=ServerClock(self.wall.now, monotonic),
        )  # fmt: skip
        parts: dict[str, Any] = {
            "SteadyClock": partial(SteadyClock, monotonic=monotonic),
            "Leadership": partial(Leadership, monotonic=world.loop.time),
            "Inventories": partial(Inventories, random=self._random),
            "HttpChannel": lambda *_: QuestionChannel(world, self._random, process_name, self.faults),
            "order_client": lambda credentials: partial(self._connect, owner, process_name),
        }
        settings = settings_for(world, self.name)
        with patch.multiple(process, **parts):
            self.process = Operator(api, settings, partial(self._failed, owner))  # type: ignore[arg-type]
        self._check_passes(self.process)
        self._starting = contextvars.copy_context().run(self._start_owned, owner, self.process)

    def _start_owned(self, owner: object, started: Operator) -> "asyncio.Task[None]":
        OWNER.set(owner)
        return self._world.loop.create_task(self._begin(started))

    async def _begin(self, started: Operator) -> None:
        """kopf hears of objects once the operator has started."""
        await started.start()
        self._watch = Watch(self._world, self._random, self._hear)
        self._watch.lost_rate = self.lost_events_rate

    def kill(self) -> None:
        """The process ends at once, wherever it is; what it has sent is under way."""
        if self.process is None:
            return
        owner, self._owner, self.process = self._owner, None, None
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        for task, one in list(self._world.task_owners.items()):
            if one is owner:
                task.cancel()
        self._world.note(f"{self.name} dies")

    def restart(self) -> None:
        """Kill, and start again."""
        self.kill()
        self.start()
        self._world.note(f"{self.name} starts")

    def freeze(self, seconds: float) -> None:
        """Whatever the process was about to send, it sends later, as if no time had passed."""
        self.faults.frozen_until = self._world.loop.elapsed + seconds

    def _failed(self, owner: object) -> None:
        """The process has ended itself; the kubelet starts it again."""
        if owner is self._owner:
            self._world.note(f"{self.name} ends itself")
            self._die()

    def _connect(self, owner: object, process_name: str, url: str) -> AgentCalls:
        def before(name: str) -> bool:
            return owner is self._owner and self._before_write(name)

        return AgentCalls(self._world, self._random, url, process_name, before, self._after_write, self.faults)

    def _before_api_write(self, name: str) -> None:
        if not any(kind in name for kind in UNCOUNTED):
            self._before_write(name)

    def _before_write(self, name: str) -> bool:
        """Whether the process lives on."""
        self.writes += 1
        if self.writes == self.dies_at and not self.dies_after:
            self._world.note(f"{self.name} is to die before write {self.writes}: {name}")
            self._die()
            return False
        return True

    def _after_write(self, name: str) -> None:
        counted = not any(kind in name for kind in UNCOUNTED)
        if counted and self.writes == self.dies_at and self.dies_after and self.is_alive:
            self._world.note(f"{self.name} is to die after write {self.writes}: {name}")
            self._die()

    def _die(self) -> None:
        self.dies_at = None
        self.kill()
        self._world.loop.call_later(self._random.uniform(1, 20), self.start)

    def _hear(self, event: Event) -> None:
        if self.process is not None and event.resource in WATCHED:
            self.process.take(event.resource, event.body, event.deleted)

    def _check_passes(self, operator: Operator) -> None:
        """The planner makes no plan that its own rules forbid, and no pass fails by an error of ours."""
        show = operator._show

        async def checked(result: PassResult) -> None:
            for one in result.decision.plan.groups:
                broken = one.stalled is not None and one.stalled.reason in (Reason.UNSAFE_PLAN, Reason.INTERNAL_ERROR)
                self._world.checks.require(not broken, f"{one.stalled}")
            for scope, error in result.failures.items():
                self._world.checks.require(type(error).__name__ != "InternalError", f"{scope}: {error}")
            await show(result)

        operator._show = checked  # type: ignore[method-assign]
