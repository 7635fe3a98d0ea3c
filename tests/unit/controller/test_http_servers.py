"""The operator's ports: what is served where."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509

from colocation.controller.http import HttpServers
from colocation.controller.operator import Operator
from colocation.controller.settings import Settings
from tests.support.certificates import self_signed
from tests.support.ports import free_ports

from .test_operator_loop import FakeApi


def settings(**fields: Any) -> Settings:
    """Settings with ports of this machine."""
    names = ("health_port", "snapshot_port", "admin_port")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    return Settings(namespace="system", image="operator:1", **{**ports, **fields})


@asynccontextmanager
async def served(given: Settings) -> AsyncIterator[HttpServers]:
    """The servers of an operator that has not made a pass yet."""
    operator = Operator(FakeApi([]), given, failed=lambda: None)  # type: ignore[arg-type]
    servers = HttpServers(operator, given)
    await servers.start()
    try:
        yield servers
    finally:
        await servers.stop()
        await operator.stop()


async def status_of(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status


async def test_before_the_first_pass() -> None:
    """Alive, not ready, no snapshot; the admin API describes itself."""
    given = settings()
    async with served(given):
        assert await status_of(f"http://127.0.0.1:{given.health_port}/healthz") == 200
        assert await status_of(f"http://127.0.0.1:{given.health_port}/readyz") == 503
        assert await status_of(f"http://127.0.0.1:{given.snapshot_port}/v1/snapshot") == 503
        assert await status_of(f"http://127.0.0.1:{given.admin_port}/api/openapi.json") == 200


async def test_admin_api_without_a_certificate_is_on_loopback_only() -> None:
    """Tokens do not travel in plain text."""
    async with served(settings()) as servers:
        hosts = {address[0] for runner in servers._runners[1:] for address in runner.addresses}
    assert hosts == {"127.0.0.1"}


async def test_admin_api_that_is_switched_off_is_not_served() -> None:
    """No one listens."""
    given = settings(admin_api=False)
    async with served(given):
        with pytest.raises(aiohttp.ClientConnectionError):
            await status_of(f"http://127.0.0.1:{given.admin_port}/api/openapi.json")


async def test_metrics_say_when_the_servers_certificate_ends(tmp_path: Path) -> None:
    """Of the file that is served."""
    certificate, _ = self_signed(tmp_path, "operator")
    given = settings(admin_tls_directory=str(tmp_path))
    ends_at = x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    url = f"http://127.0.0.1:{given.health_port}/metrics"
    async with served(given), aiohttp.ClientSession() as session, session.get(url) as answer:
        text = await answer.text()
    [line] = re.findall(r'^colocation_server_certificate_end_timestamp_seconds\{server="admin"\} (.+)$', text, re.M)
    assert float(line) == ends_at.timestamp()
