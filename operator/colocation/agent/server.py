"""Starts and stops an agent: both ports, background work, certificate."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from aiohttp import web

from colocation.storage.root import DataRoot
from colocation.tls import Certificate, follow

from .api import AgentApi
from .authorizer import Authorizer
from .health import Health
from .metrics import Metrics
from .node import NodeState
from .settings import Settings
from .upkeep import Upkeep

READ_BUFFER_BYTES = 1 << 20
"""Per connection: the next block of an upload arrives while a thread writes the one before."""

MAX_REQUEST_LINE_BYTES = 1 << 15
"""Sixteen partition folders of 255 bytes, percent-encoded."""

CLOSING_SECONDS = 1.0
"""What still runs when the time for running requests is over is cut off within it."""

_log = logging.getLogger(__name__)


class RunningAgent:
    """An agent that serves. ``port`` and ``health_port`` are the real ones (0 in the settings = any free)."""

    def __init__(self, node: NodeState, health: Health, upkeep: Upkeep, port: int, health_port: int) -> None:
        self.node = node
        self.health = health
        self.upkeep = upkeep
        self.port = port
        self.health_port = health_port


@contextlib.asynccontextmanager
async def running_agent(settings: Settings, authorizer: Authorizer) -> AsyncIterator[RunningAgent]:
    """Serves until left; then it is not ready any more, new requests are turned away (503) while running ones end, and
    background work is given up.
    """
    certificate = Certificate(settings.tls_certificate, settings.tls_key)
    async with contextlib.AsyncExitStack() as stack:
        metrics = Metrics()
        root = DataRoot(settings.data_root)
        root.damage_listeners.append(lambda _table, _path: metrics.damaged_files.inc())
        stack.callback(root.close)
        node = NodeState(settings, root, metrics)
        stack.callback(node.close)
        node.health.probe()
        upkeep = Upkeep(settings, root, node.inventory, metrics, node.conversation.is_asked_about, node.health)
        upkeep.start()
        stack.callback(upkeep.stop)
        health = Health(node, upkeep)
        health_port = await _listen(stack, settings, health.application(), settings.health_port, None)
        port = await _listen(stack, settings, AgentApi(node, authorizer).application(), settings.port, certificate)
        renewal = asyncio.create_task(follow(certificate))
        stack.callback(renewal.cancel)
        _log.info(
            "agent of node %s serves %s on port %d, health on %d", settings.node, settings.data_root, port, health_port
        )
        try:
            yield RunningAgent(node, health, upkeep, port, health_port)
        finally:
            health.stopping = True
            await node.finish(settings.shutdown_seconds)


async def _listen(
    stack: contextlib.AsyncExitStack,
    settings: Settings,
    application: web.Application,
    port: int,
    certificate: Certificate | None,
) -> int:
    """Serve an application until the stack is left; the real port."""
    runner = web.AppRunner(
        application,
        access_log=None,
        shutdown_timeout=min(CLOSING_SECONDS, settings.shutdown_seconds),
        read_bufsize=READ_BUFFER_BYTES,
        max_line_size=MAX_REQUEST_LINE_BYTES,
        auto_decompress=False,
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    context = certificate.context if certificate else None
    await web.TCPSite(runner, settings.host or None, port, ssl_context=context).start()
    return int(runner.addresses[0][1])
