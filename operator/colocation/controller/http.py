"""HTTP of the operator: health and metrics for the cluster, plain; the snapshot on loopback; by TLS the admin API
and the API server's webhooks.

The snapshot names tables and nodes, so it is not served to the network: `kubectl port-forward` reaches loopback, and
who may forward ports of this pod is decided by RBAC. Callers of the admin API send tokens, which do not travel in plain
text: without a certificate it is served on loopback only, too.
"""

import asyncio
from pathlib import Path
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from ..admission.server import SERVER_OPTIONS
from ..common.tls import Certificate, follow
from .bounded_server import BoundedServer
from .operator import Operator
from .settings import Settings

ALL_ADDRESSES = None
"""IPv4 and IPv6: kubelets probe at the pod's IP, whichever it has."""
LOOPBACK = "127.0.0.1"


class HttpServers:
    """The servers of one operator."""

    def __init__(self, operator: Operator, settings: Settings) -> None:
        self._operator = operator
        self._settings = settings
        self._runners: list[web.AppRunner] = []
        self._doors: list[BoundedServer] = []
        self._renewals: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Serve until ``stop``."""
        health = [
            web.get("/healthz", self._healthz),
            web.get("/readyz", self._readyz),
            web.get("/metrics", self._metrics),
        ]
        await self._serve(_application(health), ALL_ADDRESSES, self._settings.health_port)
        snapshot = [web.get("/v1/snapshot", self._snapshot), web.get("/v1/folders", self._folders)]
        await self._serve(_application(snapshot), LOOPBACK, self._settings.snapshot_port)
        if self._settings.admin_api:
            await self._serve_admins()
        if self._settings.webhook_tls_directory:
            await self._serve_by_tls(
                "webhooks",
                self._operator.admission(),
                self._settings.webhook_port,
                self._settings.webhook_tls_directory,
                SERVER_OPTIONS,
            )

    async def stop(self) -> None:
        """Close all servers."""
        for renewal in self._renewals:
            renewal.cancel()
        for door in self._doors:
            await door.stop()
        for runner in self._runners:
            await runner.cleanup()

    async def _serve_admins(self) -> None:
        settings = self._settings
        if not settings.admin_tls_directory:
            await self._serve(self._operator.admin_api(), LOOPBACK, settings.admin_port)
            return
        directory = settings.admin_tls_directory
        await self._serve_by_tls("admin", self._operator.admin_api(), settings.admin_port, directory)

    async def _serve_by_tls(
        self,
        server: str,
        application: web.Application,
        port: int,
        tls_directory: str,
        options: dict[str, Any] | None = None,
    ) -> None:
        directory = Path(tls_directory)
        certificate = Certificate(directory / "tls.crt", directory / "tls.key")

        def show() -> None:
            self._operator.metrics.server_certificate_end.labels(server).set(certificate.ends_at.timestamp())

        show()
        self._renewals.append(asyncio.create_task(follow(certificate, show), name=f"certificate of port {port}"))
        runner = await self._runner(application, options or {})
        assert runner.server is not None, "it is set up"
        self._doors.append(BoundedServer(runner.server, port, certificate.context))

    async def _serve(self, application: web.Application, host: str | None, port: int) -> None:
        await web.TCPSite(await self._runner(application, {}), host, port).start()

    async def _runner(self, application: web.Application, options: dict[str, Any]) -> web.AppRunner:
        runner = web.AppRunner(application, access_log=None, **options)
        await runner.setup()
        self._runners.append(runner)
        return runner

    async def _healthz(self, request: web.Request) -> web.Response:
        """Alive while the loop advances, also while the API server is away: a restart would not bring it back."""
        return _health(self._operator.is_alive, self._operator)

    async def _readyz(self, request: web.Request) -> web.Response:
        """Whether it leads and has made a pass, or can take over from the one that leads. Callers of the admin API and
        of the webhooks get to the leader alone, by its pod's label (``leader_label``).
        """
        return _health(self._operator.is_serving or self._operator.leadership.is_standing_by, self._operator)

    async def _metrics(self, request: web.Request) -> web.Response:
        text = await asyncio.to_thread(self._operator.metrics.render)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _snapshot(self, request: web.Request) -> web.Response:
        last = self._operator.last
        if last is None:
            message = {"error": "NotReady", "message": "the operator has not made its first pass yet; try again"}
            return web.json_response(message, status=503)
        return web.Response(
            text=last.decision.snapshot.model_dump_json(by_alias=True), content_type="application/json"
        )

    async def _folders(self, request: web.Request) -> web.Response:
        """What `colocation adopt` decides from; the agents are asked now."""
        found = await self._operator.folders()
        if found is None:
            message = {"error": "NotReady", "message": "the operator has not made its first pass yet; try again"}
            return web.json_response(message, status=503)
        return web.Response(text=found.model_dump_json(by_alias=True), content_type="application/json")


def _application(routes: list[web.RouteDef]) -> web.Application:
    application = web.Application()
    application.add_routes(routes)
    return application


def _health(good: bool, operator: Operator) -> web.Response:
    last, term = operator.last_pass_at, operator.leadership.term
    role = "waits for the Lease"
    if operator.leadership.is_leading:
        role = f"leads, term {term}"
    elif operator.leadership.is_standing_by:
        role = "stands by"
    text = f"{role}; last pass: {last.isoformat() if last else 'none yet'}\n"
    return web.Response(text=text, status=200 if good else 503)
