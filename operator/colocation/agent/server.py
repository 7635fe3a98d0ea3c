"""Starts and stops an agent: its front, API, background work and certificate; and the health port."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from colocation.common.tls import Certificate, follow
from colocation.model.conditions import DISK_REASONS, is_disk_usable
from colocation.model.names import agent_certificate_name
from colocation.storage.incoming import uploads_in_use
from colocation.storage.root import DataRoot

from .access import Gate
from .authorizer import Authorizer
from .certificate_keeper import CertificateKeeper, CertificateRequests
from .damage import DamageChecks, FrontErrors
from .front import AGENT_SOCKET, HEALTH_SOCKET, READS_SOCKET, Front, front_folder, running_front
from .front_configuration import ServedCertificate
from .metrics import Metrics
from .node_state import NodeState
from .read_requests import ReadRequests
from .routes import AgentApi
from .settings import Settings
from .upkeep import Upkeep

READ_BUFFER_BYTES = 1 << 20
"""Per connection: the next block of an upload arrives while a thread writes the previous one."""

MAX_REQUEST_LINE_BYTES = 1 << 15
"""Sixteen partition folders of 255 bytes, percent-encoded."""

KEEPALIVE_SECONDS = 3600.0
"""Longer than the front keeps connections to the agent, so that none closes while it sends a request."""

CLOSING_SECONDS = 1.0
"""Requests that outlast the shutdown time are cut off within it."""

_log = logging.getLogger(__name__)


class Health:
    """The plain HTTP port: healthz, readyz, metrics. It names no table.

    The agent is alive while its background threads run and the data root is the file system that it opened. It is ready
    when the first scan is done, the disk takes writes or is only full, and it has a certificate of this node. These
    requests need no token, so they touch no disk: upkeep probes it (``storage.disk_health``).
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
            return web.Response(status=503, text=f"threads ended unexpectedly: {', '.join(ended)}; restart the agent\n")
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
        if fault and not is_disk_usable(fault.reason):
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


class RunningAgent:
    """An agent that serves. ``port`` and ``health_port`` are the actual ones (0 in the settings = any free)."""

    def __init__(
        self,
        node: NodeState,
        health: Health,
        upkeep: Upkeep,
        front: Front,
        damage: DamageChecks,
        keeper: CertificateKeeper | None,
    ) -> None:
        self.node = node
        self.keeper = keeper
        self.health = health
        self.upkeep = upkeep
        self.front = front
        self.damage = damage
        self.port = front.port
        self.health_port = front.health_port


@contextlib.asynccontextmanager
async def running_agent(
    settings: Settings, authorizer: Authorizer, requests: CertificateRequests | None = None
) -> AsyncIterator[RunningAgent]:
    """Serve until left; then report not ready, refuse new requests (503), let running ones end, and stop background
    work.

    ``requests``: gets this node's certificate; None = the agent serves the shared one.
    """
    has_shared = requests is None or (settings.tls_certificate.exists() and settings.tls_key.exists())
    shared = Certificate(settings.tls_certificate, settings.tls_key) if has_shared else None
    async with contextlib.AsyncExitStack() as stack:
        metrics = Metrics(settings.clone_account)
        root = DataRoot(settings.data_root, reserved_fraction=settings.reserved_fraction)
        if root.reserved_fraction:
            percent = 100 * root.reserved_fraction
            _log.info("%s is on the kubelet's disk: %.0f %% of it is the kubelet's", root.path, percent)
        root.damage_listeners.append(lambda _table, _path: metrics.damaged_files.inc())
        stack.callback(root.close)
        stack.enter_context(uploads_in_use(root))
        node = NodeState(settings, root, metrics)
        stack.callback(node.close)
        node.health.probe()
        upkeep = Upkeep(settings, node.inventory, metrics, node.conversation.keeps_recycled, node.health)
        upkeep.start()
        stack.callback(upkeep.stop)
        folder = await stack.enter_async_context(front_folder())
        keeper = _keeper(node, requests, folder) if requests else None
        health = Health(node, upkeep, keeper)
        gate = Gate(node, authorizer)
        api = AgentApi(node, gate)
        reads = ReadRequests(node, gate)
        await _listen(stack, settings, health.application(), folder / HEALTH_SOCKET)
        await _listen(stack, settings, api.application(), folder / AGENT_SOCKET)
        server = await asyncio.get_running_loop().create_unix_server(reads.connection, folder / READS_SOCKET)
        stack.callback(server.close)
        errors = FrontErrors(node.reads, api.damage)
        front = await stack.enter_async_context(
            running_front(settings, _served(settings, shared, keeper), folder, node.reads.take_lines, errors.take_lines)
        )
        if shared is not None:
            stack.callback(asyncio.create_task(follow(shared, front.reload)).cancel)
        if keeper is not None:
            stack.callback(asyncio.create_task(keeper.run(front.reload)).cancel)
        _log.info(
            "agent of node %s serves %s on port %d, health on %d",
            settings.node, settings.data_root, front.port, front.health_port,
        )  # fmt: skip
        try:
            yield RunningAgent(node, health, upkeep, front, api.damage, keeper)
        finally:
            health.stopping = True
            await node.finish(settings.shutdown_seconds)


def _keeper(node: NodeState, requests: CertificateRequests, folder: Path) -> CertificateKeeper:
    settings, file = node.settings, folder / "own.pem"
    keeper = CertificateKeeper(
        settings.node, node.root, node.health, requests, settings.authority, file, node.metrics
    )
    keeper.begin()
    return keeper


def _served(
    settings: Settings, shared: Certificate | None, keeper: CertificateKeeper | None
) -> Sequence[ServedCertificate]:
    """The certificates to serve: clients ask for the node's name; all others get the shared one while there is one."""
    served = [ServedCertificate(settings.tls_certificate, settings.tls_key)] if shared else []
    if keeper is not None:
        served.append(ServedCertificate(keeper.file, keeper.file, agent_certificate_name(settings.node)))
    return served


async def _listen(
    stack: contextlib.AsyncExitStack, settings: Settings, application: web.Application, path: Path
) -> None:
    """Serve an application to the front until the stack is left."""
    runner = web.AppRunner(
        application,
        access_log=None,
        shutdown_timeout=min(CLOSING_SECONDS, settings.shutdown_seconds),
        read_bufsize=READ_BUFFER_BYTES,
        max_line_size=MAX_REQUEST_LINE_BYTES,
        max_field_size=MAX_REQUEST_LINE_BYTES,
        auto_decompress=False,
        keepalive_timeout=KEEPALIVE_SECONDS,
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.UnixSite(runner, str(path)).start()
