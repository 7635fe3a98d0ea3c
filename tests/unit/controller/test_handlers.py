"""What kopf's handlers pass on, and how the operator's process ends."""

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import kopf
import pytest

from colocation.controller import handlers
from colocation.controller.handlers import _handler, stop
from colocation.kube.api import NODES, Resource
from tests.integration.control_plane import kubeconfig_of
from tests.support.ports import free_ports

PORTS = ("COLOCATION_HEALTH_PORT", "COLOCATION_SNAPSHOT_PORT", "COLOCATION_ADMIN_PORT")


class Listener:
    """An operator that only hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def take(self, resource: Resource, body: dict[str, str], deleted: bool) -> None:
        self.heard.append(("deleted" if deleted else "there", body["name"]))

    def take_listed(self, resource: Resource, body: dict[str, str]) -> None:
        self.heard.append(("listed", body["name"]))


async def test_what_a_watch_begins_with_is_distinguished() -> None:
    """kopf lists again without a word when the API server has forgotten; nothing shows what is gone by then."""
    operator = Listener()
    for kind, name in ((None, "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")):
        event = {"type": kind, "object": {"name": name}}
        await _handler(NODES)(event=event, memo=kopf.Memo(operator=operator))
    assert operator.heard == [("listed", "a"), ("there", "b"), ("there", "b"), ("deleted", "b")]


def test_an_operator_that_cannot_start_reports_why_in_one_line(tmp_path: Path) -> None:
    """Its port is taken."""
    ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
    (tmp_path / "kubeconfig").write_text(kubeconfig_of("https://127.0.0.1:1", "a token"))
    names = {"COLOCATION_IMAGE": "operator", "COLOCATION_NAMESPACE": "system"}
    environment = {**os.environ, **ports, **names, "KUBECONFIG": str(tmp_path / "kubeconfig")}
    with socket.create_server(("127.0.0.1", int(ports["COLOCATION_HEALTH_PORT"]))):
        command = [sys.executable, "-m", "colocation.controller"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "the operator cannot start: " in line
    assert "address already in use" in line


async def test_nothing_is_left_that_kopf_would_wait_for() -> None:
    """A task of kopf's waits for the flag; while it is not set, kopf waits 5 s for that task. It did not die of it."""
    memo = kopf.Memo(stop=asyncio.Event(), has_died=False)
    await stop(memo=memo)
    assert memo.stop.is_set()
    assert not memo.has_died


async def test_start_that_is_cancelled_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod is ended while the API server is away: kopf cleans up only after what has started."""
    stopped = asyncio.Event()

    class Waiting:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        async def start(self) -> None:
            await asyncio.Event().wait()

        async def stop(self) -> None:
            stopped.set()

    class Servers(Waiting):
        async def start(self) -> None:
            pass

    async def connect() -> None:
        pass

    monkeypatch.setattr(handlers, "connect", connect)
    monkeypatch.setattr(handlers, "settings_from", lambda _: None)
    monkeypatch.setattr(handlers, "Operator", Waiting)
    monkeypatch.setattr(handlers, "HttpServers", Servers)
    memo = kopf.Memo(stop=asyncio.Event(), has_died=False)
    starting = asyncio.create_task(handlers.start(settings=kopf.OperatorSettings(), memo=memo))
    await asyncio.sleep(0.05)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert stopped.is_set() and memo.stop.is_set()
