"""The plain HTTP port: healthz, readyz, metrics. No table is named there."""

import asyncio
import time

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from colocation.model.conditions import Reason

from .certificate_keeper import CertificateKeeper
from .metrics import DISK_REASONS
from .node import NodeState
from .upkeep import Upkeep


class Health:
    """Alive while the background threads run on the disk that lies at the data root; ready when the first scan is done
    and the disk takes writes, or is merely full, and there is a certificate of this node.

    Nobody needs a token to ask, so asking touches no disk: the upkeep looks at it (``storage.disk_health``).
    """

    def __init__(self, node: NodeState, upkeep: Upkeep, keeper: CertificateKeeper | None = None) -> None:
        self._node = node
        self._keeper = keeper
        self._upkeep = upkeep
        self.stopping = False

    def application(self) -> web.Application:
        """The aiohttp application of the health port."""
        application = web.Application()
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics)
        return application

    async def _healthz(self, _request: web.Request) -> web.Response:
        ended = self._upkeep.ended_threads()
        if ended:
            return web.Response(status=503, text=f"threads that ended: {', '.join(ended)}; restart the agent\n")
        if self._node.health.needs_restart:
            return web.Response(status=503, text="another file system is mounted at the data root; restart the agent\n")
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        if self.stopping:
            return web.Response(status=503, text="stopping\n")
        if not self._upkeep.scanned.is_set():
            return web.Response(status=503, text="the first scan of the data root is not done\n")
        keeper = self._keeper
        if keeper is not None and keeper.fault is not None and not keeper.is_held:
            return web.Response(status=503, text=f"{keeper.fault.reason}: {keeper.fault.message}\n")
        fault = self._node.health.fault
        if fault is not None and fault.reason != Reason.DISK_FULL:
            return web.Response(status=503, text=f"{fault.reason}: {fault.message}\n")
        return web.Response(text="ok\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        await asyncio.to_thread(self._observe)
        return web.Response(
            body=generate_latest(self._node.metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    def _observe(self) -> None:
        disk = self._node.root.disk()
        self._node.metrics.capacity_bytes.set(disk.capacity_bytes)
        self._node.metrics.free_bytes.set(disk.free_bytes)
        fault = self._node.health.fault
        for reason in DISK_REASONS:
            self._node.metrics.disk_fault.labels(reason).set(fault is not None and fault.reason == reason)
        oldest = self._node.root.ledger.oldest_verification()
        self._node.metrics.oldest_verification_seconds.set(0 if oldest is None else time.time() - oldest)
