"""The plain HTTP port: healthz, readyz, metrics. No table is named there."""

import asyncio
import time

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from colocation.storage.errors import StorageError
from colocation.storage.root import DataRoot

from .node import NodeState
from .upkeep import Upkeep

PROBE_SECONDS = 5.0
"""Nobody needs a token to ask whether the agent is ready: it writes a file to find out so often at most."""


class Health:
    """Alive while the background threads run; ready when the first scan is done and the root can be written."""

    def __init__(self, node: NodeState, upkeep: Upkeep) -> None:
        self._node = node
        self._upkeep = upkeep
        self.stopping = False
        self._probing = asyncio.Lock()
        self._probe_at = 0.0
        self._fault = ""

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
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        if self.stopping:
            return web.Response(status=503, text="stopping\n")
        if not self._upkeep.scanned.is_set():
            return web.Response(status=503, text="the first scan of the data root is not done\n")
        async with self._probing:
            if time.monotonic() >= self._probe_at:
                self._fault = await asyncio.to_thread(_write_fault, self._node.root)
                self._probe_at = time.monotonic() + PROBE_SECONDS
        if self._fault:
            return web.Response(status=503, text=f"the data root is not writable: {self._fault}\n")
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
        oldest = self._node.root.ledger.oldest_verification()
        self._node.metrics.oldest_verification_seconds.set(0 if oldest is None else time.time() - oldest)


def _write_fault(root: DataRoot) -> str:
    """Why the data root cannot be written; empty when it can."""
    try:
        root.check_writable()
    except (OSError, StorageError) as error:
        return str(error)
    return ""
