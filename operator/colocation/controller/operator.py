"""The operator: watches feed it, it wakes, coalesces, and makes one pass after another."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from ..admin_api.application import AdminApi
from ..admin_api.changes import GroupChanges
from ..admin_api.last_pass import LastPass, Passes
from ..admission import Known, admission_application
from ..agentclient import Credentials
from ..kube.api import GROUPS, Api, Resource
from ..kube.errors import ClusterError
from ..kube.events import EventPoster
from ..kube.inventories import Inventories
from ..kube.orders import AgentOrders, inventory_client, order_client
from ..kube.reader import JsonObject, LiveCluster
from ..kube.writer import LiveWriter
from .metrics import Metrics
from .reconciler import PassResult, Reconciler
from .settings import Settings

logger = logging.getLogger(__name__)

BUSY_INTERVAL_SECONDS = 2.0
"""Between passes while something is under way."""
COALESCING_SECONDS = 0.05
"""Events come in bursts; a pass waits this long for the rest of its burst."""


def utc_now() -> datetime:
    """The wall clock: the only place where the operator reads it."""
    return datetime.now(UTC)


class Operator:
    """Runs passes until it is stopped.

    Args:
        api: the API server.
        settings: of the operator.
        failed: called when the loop dies: the process must not live on without it.
    """

    def __init__(self, api: Api, settings: Settings, failed: Callable[[], None]) -> None:
        access = Path(settings.token_directory)
        credentials = Credentials(access / "token", access / "ca.crt")
        self.metrics = Metrics()
        self.last: PassResult | None = None
        self.last_pass_at: datetime | None = None
        self.started_at = utc_now()
        self._settings = settings
        self._failed = failed
        self._api = api
        self._wake = asyncio.Event()
        self._inventories = Inventories(inventory_client(credentials), utc_now, self._wake.set)
        self._orders = AgentOrders(order_client(credentials))
        self._cluster = LiveCluster(
            api, settings.namespace, utc_now, self._inventories, access / "ca.crt"
        )
        events = EventPoster(api, utc_now, settings.pod_name)
        writer = LiveWriter(api, self._orders, events, settings.clone_jobs, self.take)
        self._reconciler = Reconciler(self._cluster, writer, settings)
        self._passes = Passes()
        self._changes = GroupChanges(api, events.post, utc_now, lambda body: self.take(GROUPS, body))
        self._task: asyncio.Task[None] | None = None
        self._resync_at = 0.0

    def start(self) -> None:
        """Begin to make passes, in the background."""
        self._task = asyncio.create_task(self._run(), name="passes")
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """End the passes, wherever they are, and close all connections."""
        if self._task:
            self._task.cancel()
            await asyncio.wait({self._task})  # not awaited itself: it may have died, which was told already
        await self._inventories.close()
        self._orders.close()
        await self._api.close()

    def admin_api(self) -> web.Application:
        """The requests of admins."""
        return AdminApi(self._api, self._passes, self._changes).application()

    def admission(self) -> web.Application:
        """The requests of the API server's webhooks."""
        return admission_application(self._known)

    def _known(self) -> Known | None:
        if self.last is None:
            return None
        return Known(
            now=utc_now(),
            groups=self._cluster.groups,
            tables=self._cluster.tables,
            snapshot=self.last.decision.snapshot,
            data_root=self._settings.data_root,
            spark_image=self._settings.spark_image or None,
        )

    def take(self, resource: Resource, body: JsonObject, deleted: bool = False) -> None:
        """Hear of an object; a change that matters wakes the next pass."""
        if self._cluster.take(resource, body, deleted):
            self._wake.set()

    async def _run(self) -> None:
        while True:
            busy = True
            try:
                await self._resync_if_due()
                self._wake.clear()
                with self.metrics.time_pass():
                    result = await self._reconciler.reconcile_once()
                await self._show(result)
                busy = result.is_busy
            except ClusterError as error:
                self.metrics.failed_passes.inc()
                logger.warning("the pass did not happen: %s", error)
            await self._sleep(BUSY_INTERVAL_SECONDS if busy else self._settings.inventory_seconds)

    async def _show(self, result: PassResult) -> None:
        """Tell of a pass: metrics, snapshot, admin API."""
        new, self.last, self.last_pass_at = result is not self.last, result, utc_now()
        self.metrics.show(result)
        if new:
            decision = result.decision
            await self._passes.show(LastPass(result.observation, decision.snapshot, decision.plan))

    async def _resync_if_due(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._resync_at:
            await self._cluster.resync()
            self._reconciler.forget_writes()
            self._resync_at = now + self._settings.resync_seconds

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), timeout=seconds)
        await asyncio.sleep(COALESCING_SECONDS)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            logger.critical("the loop died; the process ends, to be started again", exc_info=task.exception())
            self._failed()
