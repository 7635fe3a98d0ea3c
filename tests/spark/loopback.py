"""The real node agents on this machine's loopback interface: one data root and one address per node."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from colocation.agent.authorizer import Access, Identity
from colocation.agent.server import running_agent
from colocation.agent.settings import Settings
from colocation.agentclient import AgentClient, Credentials
from colocation.model.agent import AskedTable, InventoryRequest, TableReference
from colocation.model.names import AGENT_TLS_SERVER_NAME
from tests.support.certificates import NODE_NAMES, self_signed

TOKEN = "loader"
Result = TypeVar("Result")


class OneCaller:
    """Knows one token, whose owner may do everything; ``on_access`` is called with whatever is asked for."""

    def __init__(self, on_access: Callable[[Access], None]) -> None:
        self._on_access = on_access

    async def identify(self, token: str, peer: str = "") -> Identity | None:
        return Identity("system:serviceaccount:shop:spark", is_for_this_node=True) if token == TOKEN else None

    async def may(self, identity: Identity, access: Access) -> bool:
        self._on_access(access)
        return True


@dataclass(frozen=True)
class Trust:
    """Files with the agents' certificate and key, the CA that clients trust, and a caller's token."""

    certificate: Path
    key: Path
    token: Path

    @classmethod
    def make(cls, folder: Path) -> "Trust":
        certificate, key = self_signed(folder, AGENT_TLS_SERVER_NAME, names=NODE_NAMES)
        trust = cls(certificate, key, folder / "token")
        trust.token.write_text(TOKEN)
        return trust


class LoopbackAgents:
    """Agents by node; ``urls`` is what the ConfigMap of a group would say.

    Attributes:
        on_access: called in the agents' thread when a request is authorized; a test may end something there.
    """

    def __init__(self, roots: dict[str, Path], trust: Trust) -> None:
        self.roots = roots
        self.trust = trust
        self.urls: dict[str, str] = {}
        self.on_access: Callable[[Access], None] = lambda access: None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agents", daemon=True)
        self._running: dict[str, contextlib.AbstractAsyncContextManager[object]] = {}

    def start_all(self) -> None:
        self._thread.start()
        for node in self.roots:
            self.start(node)

    def start(self, node: str, port: int = 0) -> None:
        """Start a node's agent, at a new port unless one is given."""
        settings = Settings(
            node=node,
            data_root=self.roots[node],
            tls_certificate=self.trust.certificate,
            tls_key=self.trust.key,
            host="127.0.0.1",
            port=port,
            health_port=0,
            disk_headroom_fraction=0.0,
            shutdown_seconds=1,
        )

        async def start() -> int:
            context = running_agent(settings, OneCaller(lambda access: self.on_access(access)))
            self._running[node] = context
            return (await context.__aenter__()).port

        self.urls[node] = f"https://127.0.0.1:{self._in_loop(start())}"

    def stop(self, node: str) -> None:
        """Stop a node's agent; its URL stays, as in a ConfigMap that is not yet renewed."""
        self._in_loop(self._running.pop(node).__aexit__(None, None, None))

    def start_again(self, node: str) -> None:
        """Start a node's agent where it was, as with an address that outlives its pod."""
        self.start(node, int(self.urls[node].rpartition(":")[2]))

    def start_if_stopped(self, node: str) -> None:
        """Undo ``stop``."""
        if node not in self._running:
            self.start(node)

    def stop_all(self) -> None:
        for node in list(self._running):
            self.stop(node)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    def ask_about(self, reference: TableReference, uid: str) -> None:
        """The operator's question of one table, which names what each node should hold."""
        question = InventoryRequest(session="operator", changed=(AskedTable(reference=reference, uid=uid),))
        for url in self.urls.values():
            with AgentClient(url, Credentials(str(self.trust.token), str(self.trust.certificate))) as client:
                client.inventory(question)

    def _in_loop(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=120)


def on_nth_upload(agents: LoopbackAgents, number: int, act: Callable[[], None]) -> threading.Event:
    """Act when so many uploads were asked for; the event is set then."""
    happened = threading.Event()
    uploads = itertools.count(1)

    def watch(access: Access) -> None:
        if access.verb == "create" and next(uploads) == number:
            act()
            happened.set()

    agents.on_access = watch
    return happened


@contextlib.contextmanager
def loopback_agents(folder: Path, nodes: tuple[str, ...]) -> Iterator[LoopbackAgents]:
    """Agents of these nodes with their data roots below ``folder``."""
    roots = {node: folder / node for node in nodes}
    for root in roots.values():
        root.mkdir(parents=True)
    agents = LoopbackAgents(roots, Trust.make(folder))
    agents.start_all()
    try:
        yield agents
    finally:
        agents.stop_all()
