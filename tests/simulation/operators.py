"""Operators: the real reader, writer, decisions and planner, over the fake API server and agents."""

import contextlib
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from colocation.controller.reconciler import PassResult, Reconciler
from colocation.controller.settings import Settings
from colocation.kube.errors import ClusterError
from colocation.kube.events import EventPoster
from colocation.kube.reader import LiveCluster
from colocation.kube.writer import LiveWriter
from colocation.model.conditions import Reason

from .agents import FakeInventories, FakeOrders
from .api import ApiClient
from .schedule import Process, Turn

if TYPE_CHECKING:
    from .world import World

SETTINGS = Settings(namespace="colocation", image="operator:1", disk_headroom_fraction=0.1)
WATCHED_AT_ONCE = 4
RESYNC_RATE = 0.05


class SimulatedOperator:
    """One operator's process; `restart` is what a crash and a new pod are.

    The loop is that of `colocation.controller.operator.Operator`, which adds only sleeping and metrics.
    """

    def __init__(self, world: "World", name: str, seed: int) -> None:
        self._world = world
        self._random = Random(seed)
        self.name = name
        self.restart()

    def restart(self) -> None:
        """Forget everything, as a new process does."""
        if hasattr(self, "_process"):
            self._process.kill()
        world, random = self._world, self._random
        self.api = ApiClient(world.api, random, world.fault_rate)
        inventories = FakeInventories(world, random)
        no_file = Path("/nonexistent/ca.crt")
        self._cluster = LiveCluster(self.api, SETTINGS.namespace, world.clock.now, inventories, no_file)  # type: ignore[arg-type]
        events = EventPoster(self.api, world.clock.now, self.name)  # type: ignore[arg-type]
        orders = FakeOrders(world, random)
        writer = LiveWriter(self.api, orders, events, SETTINGS.clone_jobs, self._cluster.take)  # type: ignore[arg-type]
        self._reconciler = Reconciler(self._cluster, writer, SETTINGS)
        self._watched = len(world.api.events)
        self.last: PassResult | None = None
        self.passes = 0
        self._process = Process(self._run())

    def step(self) -> None:
        """Go on to the next request."""
        self._process.step()

    def watch(self) -> None:
        """Hear of some of what happened, late, and of some things twice."""
        events = self._world.api.events
        until = min(len(events), self._watched + self._random.randint(0, WATCHED_AT_ONCE))
        since = max(0, self._watched - (self._random.random() < self._world.fault_rate))
        for event in events[since:until]:
            if event.resource in self._cluster._stores:
                self._cluster.take(event.resource, event.body, event.deleted)
        self._watched = max(self._watched, until)

    async def _run(self) -> None:
        await self._resync()
        while True:
            with contextlib.suppress(ClusterError):
                self.last = await self._reconciler.reconcile_once()
                self._check_plans(self.last)
            self.passes += 1
            await Turn()
            if self._random.random() < RESYNC_RATE:
                await self._resync()

    @staticmethod
    def _check_plans(last: PassResult) -> None:
        """The planner makes no plan that its own rules forbid."""
        for one in last.decision.plan.groups:
            assert one.stalled is None or one.stalled.reason != Reason.UNSAFE_PLAN, one.stalled.message

    async def _resync(self) -> None:
        while True:
            try:
                await self._cluster.resync()
            except ClusterError:
                continue
            self._reconciler.forget_writes()
            return
