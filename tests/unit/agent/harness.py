"""A real agent over loopback TLS for tests: its own CA, a fake authorizer, a thread with an event loop."""

import asyncio
import datetime
import http.client
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from colocation.agent.authorizer import Access, AuthenticationUnavailable, Identity
from colocation.agent.server import RunningAgent, running_agent
from colocation.agent.settings import Settings
from colocation.agentclient import Credentials, Timeouts
from colocation.common.review_bounds import TooManyReviews
from colocation.model.agent import AgentReport, AskedTable, DeletionProof, InventoryRequest
from colocation.model.names import AGENT_TLS_SERVER_NAME
from tests.support.agent_caller import AgentCaller
from tests.support.certificates import NODE_NAMES
from tests.support.waiting import until
from tests.unit.storage.tables import data_path, make_table

ADMIN_TOKEN = "token-of-admin"
SHOP_READER_TOKEN = "token-of-shop-reader"
SHOP_LOADER_TOKEN = "token-of-shop-loader"
ADMIN = Identity("admin", is_for_this_node=True)
TABLE = make_table({data_path(bucket): b"content" for bucket in (0, 1)})
"""What the fixture ``loaded`` holds."""


@dataclass
class FakeAuthorizer:
    """Maps tokens to users, and users to rights; ``available`` False = the API server is down."""

    available: bool = True
    asked: int = 0
    too_many: bool = False
    peers: set[str] = field(default_factory=set)
    rights: dict[str, set[tuple[str, str]]] = field(
        default_factory=lambda: {
            "admin": {("*", "*")},
            "shop-reader": {("get", "shop")},
            "shop-loader": {("get", "shop"), ("create", "shop")},
        }
    )
    callers: dict[str, Identity] = field(
        default_factory=lambda: {
            ADMIN_TOKEN: ADMIN,
            SHOP_READER_TOKEN: Identity("shop-reader"),
            SHOP_LOADER_TOKEN: Identity("shop-loader"),
        }
    )

    async def identify(self, token: str, peer: str = "") -> Identity | None:
        """See ``Authorizer``."""
        self._ask()
        self.peers.add(peer)
        return self.callers.get(token)

    async def may(self, identity: Identity, access: Access) -> bool:
        """See ``Authorizer``."""
        self._ask()
        return bool({("*", "*"), (access.verb, access.namespace)} & self.rights[identity.user])

    def _ask(self) -> None:
        self.asked += 1
        if self.too_many:
            raise TooManyReviews("ask again in a moment")
        if not self.available:
            raise AuthenticationUnavailable("the API server cannot be reached")


@dataclass(frozen=True)
class Pki:
    """PEM files of a CA and of a certificate that it signed."""

    ca: Path
    certificate: Path
    key: Path


def make_pki(
    folder: Path, server_name: str = AGENT_TLS_SERVER_NAME, node_names: Sequence[str] = NODE_NAMES
) -> Pki:
    """Make a new CA and a certificate for ``server_name`` and for the names of some nodes."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test CA")])
    now = datetime.datetime.now(datetime.UTC)
    dns_names = [x509.DNSName(one) for one in (server_name, *node_names)]
    names = x509.SubjectAlternativeName([*dns_names, x509.IPAddress(ipaddress.ip_address("192.0.2.1"))])

    def signed(subject: x509.Name, public: ec.EllipticCurvePublicKey, is_ca: bool) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(ca_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )

    ca = signed(ca_name, ca_key.public_key(), True).sign(ca_key, hashes.SHA256())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, server_name)])
    certificate = signed(subject, key.public_key(), False).add_extension(names, False).sign(ca_key, hashes.SHA256())
    folder.mkdir(parents=True, exist_ok=True)
    pki = Pki(folder / "ca.crt", folder / "tls.crt", folder / "tls.key")
    pki.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    pki.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pki.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return pki


class AgentThread:
    """An agent that runs in a thread between ``start`` and ``stop``."""

    def __init__(self, data_root: Path, pki: Pki, authorizer: FakeAuthorizer, node: str = "node-1") -> None:
        data_root.mkdir(parents=True, exist_ok=True)
        self.settings = Settings(
            node=node,
            data_root=data_root,
            tls_certificate=pki.certificate,
            tls_key=pki.key,
            host="127.0.0.1",
            port=0,
            health_port=0,
            disk_headroom_fraction=0.0,
            shutdown_seconds=1.0,
        )
        self.authorizer = authorizer
        self.pki = pki
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._thread: threading.Thread | None = None
        self.running: RunningAgent | None = None

    def start(self, **changed_settings: Any) -> "AgentThread":
        """Serve; returns once the first scan is done."""
        self.settings = replace(self.settings, **changed_settings)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        entered = self._stack.enter_async_context(running_agent(self.settings, self.authorizer))
        self.running = asyncio.run_coroutine_threadsafe(entered, self._loop).result(60)
        assert self.running.upkeep.scanned.wait(60)
        return self

    def stop(self) -> None:
        """Stop as on SIGTERM."""
        if self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._stack.aclose(), self._loop).result(60)
        asyncio.run_coroutine_threadsafe(_end_other_tasks(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()
        self._thread = None

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function on the agent's event loop."""
        self._loop.call_soon_threadsafe(function, *arguments)

    @property
    def url(self) -> str:
        """The address of its API."""
        assert self.running is not None
        return f"https://127.0.0.1:{self.running.port}"

    @property
    def health_url(self) -> str:
        """The address of health and metrics."""
        assert self.running is not None
        return f"http://127.0.0.1:{self.running.health_port}"

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        assert self.running is not None
        return self.running.node.metrics.registry.get_sample_value(name) or 0.0

    def client(self, token: str = ADMIN_TOKEN, ca: Path | None = None) -> AgentCaller:
        """A client with this token; one attempt per call."""
        token_path = self.pki.ca.parent / f"{token}.token"
        if not token_path.exists():  # another client may be reading it
            token_path.write_text(token)
        return AgentCaller(self.url, Credentials(token_path, ca or self.pki.ca), Timeouts(10.0, 60.0, 0.0))

    def raw_request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> "RawResponse":
        """Send a request exactly as given, without a client that normalizes targets and headers."""
        with self._sent(method, target, headers, body) as connection:
            response = http.client.HTTPResponse(connection, method=method)
            response.begin()
            return RawResponse(response.status, dict(response.headers.items()), response.read())

    def send_and_hang_up(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
        """Send a request and disconnect without waiting for the answer, once the agent works on it."""
        with self._sent(method, target, headers, body), self.client() as client:
            until(lambda: client.status().active_transfers)

    @contextmanager
    def _sent(
        self, method: str, target: str, headers: Mapping[str, str] | None, body: bytes
    ) -> Iterator[ssl.SSLSocket]:
        sent = {"Host": "agent", "Authorization": f"Bearer {ADMIN_TOKEN}", "Connection": "close"} | dict(headers or {})
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        context = ssl.create_default_context(cafile=self.pki.ca)
        assert self.running is not None
        with (
            socket.create_connection(("127.0.0.1", self.running.port), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname=AGENT_TLS_SERVER_NAME) as connection,
        ):
            connection.sendall(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body)
            yield connection


async def _end_other_tasks() -> None:
    """Cancel tasks as ``asyncio.run`` does at its end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Operator:
    """The operator's side of a conversation with one agent: asks, and remembers the answers."""

    def __init__(self, client: AgentCaller, session: str = "first", term: int = 1) -> None:
        self.client = client
        self.session = session
        self.term = term
        self.number = 0
        self.revision: str | None = None
        self.report: AgentReport | None = None

    def ask(self, *tables: AskedTable, revision: str | None = None) -> AgentReport | None:
        """Ask in full about exactly these tables; None if nothing has changed since ``revision``."""
        self.number += 1
        return self._send(InventoryRequest(term=self.term, session=self.session, number=self.number, changed=tables),
                          revision)  # fmt: skip

    def change(self, *tables: AskedTable, removed: tuple[str, ...] = ()) -> AgentReport | None:
        """Change the last question."""
        base, self.number = self.number, self.number + 1
        return self._send(
            InventoryRequest(
                term=self.term, session=self.session, number=self.number, base=base, changed=tables, removed=removed
            ),
            self.revision,
        )

    def wait(self, seconds: float) -> AgentReport | None:
        """Ask the last question again, to be answered when something changes."""
        again = InventoryRequest(
            term=self.term, session=self.session, number=self.number, base=self.number, wait_seconds=seconds
        )
        return self._send(again, self.revision)

    def proof(self, asked: AskedTable, **changes: object) -> DeletionProof:
        """The proof of a deletion decided from the last report."""
        assert self.report is not None
        proof = DeletionProof(
            instance=self.report.instance,
            not_after_seconds=self.report.uptime_seconds + 600,
            term=self.term,
            table_uid=asked.uid,
            group_uid=asked.group_uid,
            map_version=asked.map_version,
        )
        return proof.model_copy(update=changes)

    def _send(self, request: InventoryRequest, revision: str | None) -> AgentReport | None:
        report = self.client.inventory(request, revision)
        if report is not None:
            self.revision, self.report = report.revision, report
        return report


@dataclass(frozen=True)
class RawResponse:
    """An unparsed answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def reason(self) -> str:
        """The reason of an error."""
        return str(json.loads(self.body)["error"])
