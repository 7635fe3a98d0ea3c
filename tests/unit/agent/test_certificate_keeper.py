"""A node's certificate: kept on its disk, requested when it is not this node's or expires, served with a shared one."""

import asyncio
import socket
import ssl
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from colocation.agent.certificate_keeper import CertificateKeeper, NoCertificate
from colocation.agent.metrics import Metrics
from colocation.agent.node_certificate import CERTIFICATE_FILE, UnusableCertificate, checked, joined, new_request
from colocation.agent.server import RunningAgent, running_agent
from colocation.agent.settings import Settings
from colocation.model.conditions import Reason
from colocation.model.names import AGENT_TLS_SERVER_NAME, agent_certificate_name
from colocation.storage.disk_health import DiskHealth
from colocation.storage.root import DataRoot
from tests.support.waiting import until as waited_for

from ...support.certificate_authority import Signer, make_authority
from .harness import ADMIN_TOKEN, FakeAuthorizer, make_pki

REFUSED = NoCertificate(Reason.CERTIFICATE_REFUSED, "request x: Denied: not you", is_final=True)


class Scene:
    """A keeper on a data root of its own; ``now`` is the wall clock, ``seconds`` the monotonic one."""

    def __init__(self, folder: Path) -> None:
        self.authority = make_authority(folder / "ca")
        self.signer = Signer(folder / "ca")
        self.folder = folder
        self.now, self.seconds = datetime.now(UTC), 1000.0
        (folder / "data").mkdir()
        self.root = DataRoot(folder / "data", monotonic=lambda: self.seconds)
        self.health = DiskHealth(self.root, "node-1")
        self.reloads = 0
        self.restart()

    def restart(self, node: str = "node-1") -> CertificateKeeper:
        """Restart as a new agent."""
        self.metrics = Metrics()
        self.keeper = CertificateKeeper(
            node, self.root, self.health, self.signer, self.authority, self.folder / "own.pem", self.metrics,
            lambda: self.now,
        )  # fmt: skip
        self.keeper.begin()
        return self.keeper

    async def turn(self) -> None:
        """One turn of the keeper's loop."""

        def renewed() -> None:
            self.reloads += 1

        await self.keeper.look(renewed)

    @property
    def file(self) -> Path:
        return self.folder / "data" / CERTIFICATE_FILE

    def served(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate((self.folder / "own.pem").read_bytes())

    def fault(self, reason: Reason) -> float | None:
        return self.metrics.registry.get_sample_value("colocation_agent_certificate_fault", {"reason": reason})


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_a_first_certificate_is_requested_and_kept(scene: Scene) -> None:
    """Until then clients trust nothing that is served; only the agent's user can read the file."""
    assert not scene.keeper.is_held
    assert scene.keeper.fault is not None
    assert scene.keeper.fault.reason == Reason.CERTIFICATE_MISSING
    assert scene.fault(Reason.CERTIFICATE_MISSING) == 1
    await scene.turn()
    assert (scene.keeper.is_held, scene.keeper.fault, scene.reloads) == (True, None, 1)
    assert stat.S_IMODE(scene.file.stat().st_mode) == stat.S_IMODE((scene.folder / "own.pem").stat().st_mode) == 0o600
    scene.served().verify_directly_issued_by(x509.load_pem_x509_certificate(scene.authority.read_bytes()))
    assert scene.fault(Reason.CERTIFICATE_MISSING) == 0


async def test_a_restart_needs_no_signer(scene: Scene) -> None:
    """The operator and the API server are away: the file is enough."""
    await scene.turn()
    before = scene.served()
    scene.signer.refusal = NoCertificate(Reason.CERTIFICATE_MISSING, "no answer")
    assert scene.restart().is_held
    await scene.turn()
    assert scene.served() == before
    assert len(scene.signer.asked) == 1


def _truncate(scene: Scene) -> None:
    scene.file.write_bytes(scene.file.read_bytes()[:-200])


def _mix(scene: Scene) -> None:
    chain = scene.file.read_bytes().partition(b"-----BEGIN CERTIFICATE-----")
    scene.file.write_bytes(joined(new_request("node-1").key, chain[1] + chain[2]))


def _of_another_node(scene: Scene) -> None:
    other = Signer(scene.folder / "ca", "node-2")
    asked = new_request("node-2")
    scene.file.write_bytes(joined(asked.key, asyncio.run(other.certificate(asked))))


def _expire(scene: Scene) -> None:
    scene.now += timedelta(days=1)


def _change_authority(scene: Scene) -> None:
    make_authority(scene.folder / "ca", "another")


def _link(scene: Scene) -> None:
    elsewhere = scene.folder / "elsewhere"
    scene.file.rename(elsewhere)
    scene.file.symlink_to(elsewhere)


def _fill(scene: Scene) -> None:
    scene.file.write_bytes(scene.file.read_bytes() + b"\n" * (1 << 16))


DAMAGES: dict[str, Callable[[Scene], None]] = {
    "cut off": _truncate, "another key": _mix, "another node's": _of_another_node, "expired": _expire,
    "another CA's": _change_authority, "a link": _link, "too long": _fill, "gone": lambda scene: scene.file.unlink(),
    "empty": lambda scene: scene.file.write_bytes(b""), "no PEM": lambda scene: scene.file.write_bytes(b"\xff" * 99),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_an_unusable_file_is_replaced(scene: Scene, damage: Callable[[Scene], None]) -> None:
    """By a newly requested certificate."""
    asyncio.run(scene.turn())
    damage(scene)
    scene.restart()
    asyncio.run(scene.turn())
    assert len(scene.signer.asked) == 2
    assert (scene.keeper.is_held, scene.keeper.fault) == (True, None)
    assert not scene.file.is_symlink()
    assert checked(scene.file.read_bytes(), "node-1").is_trusted(scene.authority.read_bytes())


async def test_a_certificate_is_renewed_long_before_its_end(scene: Scene) -> None:
    """Once, after about two thirds of its life, not a moment earlier."""
    await scene.turn()
    ends_at = scene.served().not_valid_after_utc
    life = ends_at - scene.served().not_valid_before_utc
    scene.now, scene.seconds = ends_at - 0.4 * life, 10_000.0
    await scene.turn()
    assert len(scene.signer.asked) == 1
    scene.now = ends_at - 0.29 * life
    scene.signer.lifetime_seconds = 86400
    await scene.turn()
    await scene.turn()
    assert (len(scene.signer.asked), scene.reloads) == (2, 2)
    assert scene.served().not_valid_after_utc > ends_at


async def test_a_wrong_clock_requests_only_now_and_then(scene: Scene) -> None:
    """A clock that is years ahead finds every certificate expired."""
    await scene.turn()
    scene.now += timedelta(days=3650)
    for _ in range(20):
        await scene.turn()
        scene.seconds += 30
    assert len(scene.signer.asked) <= 3


async def test_a_new_authority_is_followed_immediately(scene: Scene) -> None:
    """Charts rendered without a cluster bring a new one each time; clients trust only that."""
    await scene.turn()
    make_authority(scene.authority.parent)
    for _ in range(3):
        await scene.turn()
    assert scene.reloads == 2


async def test_a_refused_renewal_keeps_the_old_certificate(scene: Scene) -> None:
    """The fault is the refusal, and later also the near expiry."""
    await scene.turn()
    before, ends_at = scene.served(), scene.served().not_valid_after_utc
    scene.signer.refusal, scene.seconds = REFUSED, 10_000.0
    scene.now = ends_at - timedelta(minutes=15)
    await scene.turn()
    assert scene.served() == before
    assert (scene.fault(Reason.CERTIFICATE_REFUSED), scene.fault(Reason.CERTIFICATE_EXPIRING)) == (1, 0)
    scene.now = ends_at - timedelta(minutes=5)
    await scene.turn()
    assert scene.fault(Reason.CERTIFICATE_EXPIRING) == 1
    assert scene.metrics.registry.get_sample_value("colocation_agent_certificate_end_timestamp_seconds") == (
        ends_at.timestamp()
    )
    assert len(set(scene.signer.asked)) == len(scene.signer.asked)  # a denied request is not repeated


async def test_an_unanswered_request_is_repeated_with_the_same_key(scene: Scene) -> None:
    """It may yet be answered: waiting agents leave one request, not hundreds."""
    scene.signer.refusal = NoCertificate(Reason.CERTIFICATE_MISSING, "no answer in 300 s")
    for _ in range(3):
        await scene.turn()
    assert len(set(scene.signer.asked)) == 1


async def test_an_untrusted_certificate_is_not_used(scene: Scene) -> None:
    """A signer with an unknown CA is reported; so is one that signs for another node."""
    scene.authority = make_authority(scene.folder / "others")
    scene.restart()
    await scene.turn()
    assert scene.keeper.fault is not None
    assert "agent.tls.ca" in scene.keeper.fault.message
    scene.authority, scene.signer.node = scene.folder / "ca" / "tls.crt", "node-2"
    scene.restart()
    await scene.turn()
    assert scene.keeper.fault is not None
    assert "node-2" in scene.keeper.fault.message
    assert not scene.keeper.is_held


async def test_nothing_is_written_to_a_failing_disk(scene: Scene) -> None:
    """The certificate is served nevertheless, and saved once the disk is healthy."""
    scene.health.probe()
    marker = scene.folder / "data" / "colocation.json"
    content = marker.read_bytes()
    marker.unlink()
    scene.health.probe()
    await scene.turn()
    assert scene.keeper.is_held
    assert not scene.file.exists()
    marker.write_bytes(content)
    scene.health.probe()
    await scene.turn()
    assert scene.file.exists()


@pytest.mark.parametrize("pem", [b"", b"-----BEGIN", b"\x00" * 40], ids=["empty", "cut", "zeros"])
def test_anything_else_is_an_unusable_certificate(pem: bytes) -> None:
    """One kind of error for every wrong input."""
    with pytest.raises(UnusableCertificate):
        checked(pem, "node-1")


# The running agent.


@asynccontextmanager
async def running(folder: Path, signer: Signer, shared: bool = False) -> AsyncIterator[RunningAgent]:
    """An agent with a certificate of its own; ``shared``: and the previous release's."""
    pki = make_pki(folder / "shared")
    (folder / "data").mkdir(exist_ok=True)
    settings = Settings(
        node="node-1", data_root=folder / "data", tls_certificate=pki.certificate, tls_key=pki.key, host="127.0.0.1",
        port=0, health_port=0, shutdown_seconds=1.0, authority=folder / "ca" / "tls.crt", signer_name="test",
    )  # fmt: skip
    if not shared:
        settings = replace(settings, tls_certificate=folder / "none.crt", tls_key=folder / "none.key")
    async with running_agent(settings, FakeAuthorizer(), signer) as agent:
        yield agent


def served_by(port: int, name: str | None) -> x509.Certificate:
    """The certificate that a client gets for this name."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=name) as connection,
    ):
        content = connection.getpeercert(binary_form=True)
    assert content is not None
    return x509.load_der_x509_certificate(content)


async def until(condition: Callable[[], bool]) -> None:
    """In a thread: the agent's event loop is the test's."""
    await asyncio.to_thread(waited_for, condition, 30)


async def test_each_client_gets_the_certificate_that_it_knows(tmp_path: Path) -> None:
    """Current clients ask for the node's name. The previous release's ask for the shared one, or for none."""
    authority = x509.load_pem_x509_certificate(make_authority(tmp_path / "ca").read_bytes())
    own = agent_certificate_name("node-1")
    async with running(tmp_path, Signer(tmp_path / "ca"), shared=True) as agent:
        await until(lambda: served_by(agent.port, own).issuer == authority.subject)
        for name in (AGENT_TLS_SERVER_NAME, None, agent_certificate_name("node-2")):
            found = await asyncio.to_thread(served_by, agent.port, name)
            assert found == x509.load_pem_x509_certificate((tmp_path / "shared" / "tls.crt").read_bytes())


async def test_without_a_shared_certificate_all_get_the_nodes(tmp_path: Path) -> None:
    """As after a first install."""
    authority = x509.load_pem_x509_certificate(make_authority(tmp_path / "ca").read_bytes())
    async with running(tmp_path, Signer(tmp_path / "ca")) as agent:
        for name in (agent_certificate_name("node-1"), AGENT_TLS_SERVER_NAME, None):
            await until(lambda name=name: served_by(agent.port, name).issuer == authority.subject)


async def test_a_renewal_cuts_no_connection(tmp_path: Path) -> None:
    """A running request ends with the certificate that it started with."""
    make_authority(tmp_path / "ca")
    signer = Signer(tmp_path / "ca")
    own = agent_certificate_name("node-1")
    async with running(tmp_path, signer) as agent:
        await until(lambda: len(signer.asked) == 1 and served_by(agent.port, own).issuer != _NO_ONE)
        first = await asyncio.to_thread(served_by, agent.port, own)
        context = ssl.create_default_context(cafile=tmp_path / "ca" / "tls.crt")
        reader, writer = await connected(agent.port, context, own)
        body = b'{"term": 1, "session": "s", "number": 1, "waitSeconds": 5}'
        head = f"POST /v1/inventory HTTP/1.1\r\nHost: agent\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n"
        writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n".encode())
        await writer.drain()  # a request that has started
        keeper = agent.keeper
        assert keeper is not None
        assert await keeper.renew()
        agent.front.reload()
        await until(lambda: served_by(agent.port, own) != first)
        writer.write(b"\r\n" + body)
        await writer.drain()
        async with asyncio.timeout(30):
            answer = await reader.readline()
        assert answer.startswith(b"HTTP/1.1 200"), answer
        writer.close()


async def connected(
    port: int, context: ssl.SSLContext, name: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect with the known certificate: for a moment after a reload an old worker may still answer."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
            except ssl.SSLCertVerificationError:
                await asyncio.sleep(0.05)


_NO_ONE = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "colocation.dev")])


async def test_an_agent_without_a_certificate_is_not_ready(tmp_path: Path) -> None:
    """The probe's answer has the reason, and a rollout waits: the other agents stay as they are."""
    make_authority(tmp_path / "ca")
    async with running(tmp_path, Signer(tmp_path / "ca", refusal=REFUSED), shared=True) as agent:
        await asyncio.to_thread(agent.upkeep.scanned.wait, 30)
        await until(lambda: b"CertificateRefused: request x" in _ready(agent.health_port))


def _ready(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        plain.sendall(b"GET /readyz HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n")
        content = b""
        while block := plain.recv(65536):
            content += block
    return content
