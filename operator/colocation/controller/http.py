"""Plain HTTP of the operator: health and metrics for the cluster; the snapshot on loopback only.

The snapshot names tables and nodes, so it is not served to the network: `kubectl port-forward` reaches loopback, and
who may forward ports of this pod is decided by RBAC.
"""

from datetime import datetime, timedelta

from aiohttp import web

from .operator import Operator, utc_now
from .settings import Settings

ALL_ADDRESSES = None
"""IPv4 and IPv6: kubelets probe at the pod's IP, whichever it has."""
MAX_PASS_AGE = timedelta(seconds=120)


class HttpServers:
    """The two servers of one operator."""

    def __init__(self, operator: Operator, settings: Settings) -> None:
        self._operator = operator
        self._settings = settings
        self._runners: list[web.AppRunner] = []

    async def start(self) -> None:
        """Serve until ``stop``."""
        health = [
            web.get("/healthz", self._healthz),
            web.get("/readyz", self._readyz),
            web.get("/metrics", self._metrics),
        ]
        await self._serve(health, ALL_ADDRESSES, self._settings.health_port)
        await self._serve([web.get("/v1/snapshot", self._snapshot)], "127.0.0.1", self._settings.snapshot_port)

    async def stop(self) -> None:
        """Close both servers."""
        for runner in self._runners:
            await runner.cleanup()

    async def _serve(self, routes: list[web.RouteDef], host: str | None, port: int) -> None:
        application = web.Application()
        application.add_routes(routes)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        self._runners.append(runner)
        await web.TCPSite(runner, host, port).start()

    async def _healthz(self, request: web.Request) -> web.Response:
        """Alive while passes happen: kubelet restarts an operator whose loop hangs."""
        last = self._operator.last_pass_at
        return _health(is_alive(self._operator.started_at, last, utc_now()), last)

    async def _readyz(self, request: web.Request) -> web.Response:
        """Ready after the first pass."""
        last = self._operator.last_pass_at
        return _health(last is not None, last)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._operator.metrics.render(), content_type="text/plain", charset="utf-8")

    async def _snapshot(self, request: web.Request) -> web.Response:
        last = self._operator.last
        if last is None:
            message = {"error": "NotReady", "message": "the operator has not made its first pass yet; try again"}
            return web.json_response(message, status=503)
        return web.Response(
            text=last.decision.snapshot.model_dump_json(by_alias=True), content_type="application/json"
        )


def is_alive(started_at: datetime, last_pass_at: datetime | None, now: datetime) -> bool:
    """Whether the last pass (or the start) is recent enough."""
    return now - (last_pass_at or started_at) <= MAX_PASS_AGE


def _health(good: bool, last_pass_at: datetime | None) -> web.Response:
    text = f"last pass: {last_pass_at.isoformat() if last_pass_at else 'none yet'}\n"
    return web.Response(text=text, status=200 if good else 503)
