"""Operators: the real reader, writer, decisions, planner and loop, over the fake API server and agents.

This file is the seam: whatever the real parts are built from, they are put together here, and nowhere else.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from colocation.controller.reconciler import PassResult, Reconciler
from colocation.controller.settings import Settings
from colocation.kube.api import JOBS, PODS, Resource
from colocation.kube.errors import ClusterError
from colocation.kube.events import EventPoster
from colocation.kube.inventories import Inventories
from colocation.kube.orders import AgentOrders
from colocation.kube.reader import LiveCluster
from colocation.kube.writer import LiveWriter
from colocation.model.conditions import Reason

from .api import ApiClient, ApiFaults, Event
from .network import AgentCalls
from .virtual_time import WallClock

if TYPE_CHECKING:
    from .world import World

LEASES = Resource("coordination.k8s.io", "v1", "leases")
BUSY_INTERVAL_SECONDS = 2.0
NO_FILE = Path("/nonexistent/ca.crt")


def settings_for(world: "World") -> Settings:
    """What the world promises, as an operator is told it."""
    limits = world.limits
    return Settings(
        namespace="colocation",
        image="operator:1",
        agent_grace_seconds=limits.agent_grace,
        garbage_grace_seconds=limits.garbage_grace,
        resync_seconds=limits.resync,
        collect_seconds=limits.collect,
        clone_deadline_seconds=120,
    )


class Watch:
    """How one operator hears of objects: late, at its own pace per kind, sometimes twice, sometimes not at all.

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
    """One operator's process; `kill` is what a crash is, `start` what a new pod is.

    ``writes``: how many writes and orders its processes have begun. ``dies_at``: with this one; ``dies_after``: only
    when it is carried out.
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
        self.restarts_by_itself = True
        self.last: PassResult | None = None
        self.passes = 0
        self.frozen_until = 0.0
        self._generation = 0
        self._alive = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_alive(self) -> bool:
        return self._alive

    def start(self) -> None:
        """A new process, which knows nothing."""
        self._generation += 1
        self._alive = True
        generation = self._generation
        world = self._world
        api = ApiClient(
            world.api, self._random, self.faults, self._before_api_write, self._after_write,
            is_alive=lambda: self._alive and generation == self._generation,
        )  # fmt: skip
        settings = settings_for(world)
        self._wake = asyncio.Event()
        now = self.wall.now
        self._inventories = Inventories(self._connect, now, self._wake.set)
        orders = AgentOrders(self._connect)  # type: ignore[arg-type]
        self._cluster = LiveCluster(api, settings.namespace, now, self._inventories, NO_FILE)  # type: ignore[arg-type]
        events = EventPoster(api, now, self.name)  # type: ignore[arg-type]
        writer = LiveWriter(api, orders, events, settings.clone_jobs, self._cluster.take)  # type: ignore[arg-type]
        self._reconciler = Reconciler(self._cluster, writer, settings)
        self._settings = settings
        self._watch = Watch(world, self._random, self._hear)
        self._watch.lost_rate = self.lost_events_rate
        self._tasks = [world.loop.create_task(self._run(), name=self.name)]

    def kill(self) -> None:
        """The process ends at once, wherever it is; what it has sent is under way."""
        if not self._alive:
            return
        self._alive = False
        self._watch.close()
        for task in self._tasks:
            task.cancel()
        self._world.note(f"{self.name} dies")

    def restart(self) -> None:
        """Kill, and start anew."""
        self.kill()
        self.start()
        self._world.note(f"{self.name} starts")

    def freeze(self, seconds: float) -> None:
        """The process stands still, and goes on later as if nothing had been."""
        self.frozen_until = self._world.loop.elapsed + seconds

    def _connect(self, url: str) -> AgentCalls:
        generation = self._generation

        def before(name: str) -> bool:
            return self._alive and generation == self._generation and self._before_write(name)

        return AgentCalls(self._world, self._random, url, self.name, before, self._after_write)

    def _before_api_write(self, name: str) -> None:
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
        if self.writes == self.dies_at and self.dies_after and self._alive:
            self._world.note(f"{self.name} is to die after write {self.writes}: {name}")
            self._die()

    def _die(self) -> None:
        self.dies_at = None
        self.kill()
        if self.restarts_by_itself:
            self._world.loop.call_later(self._random.uniform(1, 20), self.start)

    def _hear(self, event: Event) -> None:
        if event.resource in (PODS, JOBS) and event.body["metadata"]["namespace"] != self._settings.namespace:
            return
        if event.resource in self._cluster._stores:
            if self._cluster.take(event.resource, event.body, event.deleted):
                self._wake.set()

    async def _run(self) -> None:
        """The loop of `colocation.controller.operator.Operator`."""
        loop, resync_at = self._world.loop, 0.0
        while True:
            busy = True
            with contextlib.suppress(ClusterError):
                if loop.time() >= resync_at:
                    await self._cluster.resync()
                    self._reconciler.forget_writes()
                    resync_at = loop.time() + self._settings.resync_seconds
                self._wake.clear()
                self.last = await self._reconciler.reconcile_once()
                self._check_plans(self.last)
                busy = self.last.is_busy
            self.passes += 1
            with contextlib.suppress(TimeoutError):
                seconds = BUSY_INTERVAL_SECONDS if busy else self._settings.inventory_seconds
                await asyncio.wait_for(self._wake.wait(), timeout=seconds)
            await asyncio.sleep(0.05)

    def _check_plans(self, last: PassResult) -> None:
        """The planner makes no plan that its own rules forbid."""
        for one in last.decision.plan.groups:
            broken = one.stalled is not None and one.stalled.reason == Reason.UNSAFE_PLAN
            self._world.checks.require(not broken, f"unsafe plan: {one.stalled}")
