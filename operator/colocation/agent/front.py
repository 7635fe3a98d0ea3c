"""The agent's front: nginx, a child process that ends TLS and sends the files that the agent allows.

It lives as long as the agent: the kernel ends it when the agent dies, and the agent stops when it ends. Its log lines
come through pipes: what each request was sent, and errors.
"""

import asyncio
import contextlib
import logging
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import IO

from colocation.common.waiting import set_within

from .front_configuration import FrontConfiguration, ServedCertificate
from .settings import Settings

START_SECONDS = 30.0
QUIT_SECONDS = 1.0
"""For what nginx has yet to flush when all requests have ended."""
TERMINATE_SECONDS = 5.0
"""nginx' own: after a second it kills workers that do not end."""
LOG_PAUSE_SECONDS = 0.05
"""Between two reads of a log: many lines cost one wake-up."""
LOG_BLOCK_BYTES = 1 << 16
MAX_WORKERS = 8
MAX_DESCRIPTORS = 65536
AGENT_SOCKET, READS_SOCKET, HEALTH_SOCKET = "agent.sock", "reads.sock", "health.sock"
BACKLOG = 511

_log = logging.getLogger(__name__)

_LAST_SIGNALS = ((signal.SIGQUIT, QUIT_SECONDS), (signal.SIGTERM, TERMINATE_SECONDS), (signal.SIGKILL, START_SECONDS))

Lines = Callable[[list[str]], None]


class FrontEnded(Exception):
    """nginx ended although it was not stopped; the agent has to be restarted with it."""


class Front:
    """A running nginx. ``port`` and ``health_port`` are the actual ones (0 in the settings = any free).

    ``ended`` is set when it ends for any reason.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, health_port: int) -> None:
        self.port = port
        self.health_port = health_port
        self.ended = asyncio.Event()
        self._process = process

    @property
    def process_id(self) -> int:
        """The id of nginx' master process, which starts its workers."""
        return self._process.pid

    def reload(self) -> None:
        """Load renewed files; running requests end with the old ones."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGHUP)

    async def watch(self) -> None:
        """Wait until nginx ends."""
        code = await asyncio.to_thread(self._process.wait)  # asyncio's own also waits for the workers' pipes
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # workers that outlive a killed master
        _log.log(logging.INFO if code == 0 else logging.ERROR, "nginx ended with status %d", code)
        self.ended.set()

    async def stop(self) -> None:
        """Stop nginx, with time only for what it has yet to flush."""
        for number, seconds in _LAST_SIGNALS:
            if self.ended.is_set():
                return
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)
            await set_within(self.ended, seconds)


@contextlib.asynccontextmanager
async def front_folder() -> AsyncIterator[Path]:
    """A folder that only this user can reach, for sockets and configuration."""
    with tempfile.TemporaryDirectory(prefix="colocation-front-") as name:
        yield Path(name)


@contextlib.asynccontextmanager
async def running_front(
    settings: Settings, certificates: Sequence[ServedCertificate], folder: Path, sent: Lines, errors: Lines
) -> AsyncIterator[Front]:
    """Run nginx in front of the agent's sockets in ``folder`` until left.

    Args:
        settings: where to listen, and what to serve.
        certificates: of the agent.
        folder: see ``front_folder``.
        sent: takes the log lines that report sent bytes.
        errors: takes the lines of the error log.

    Raises:
        OSError: nginx is not installed or did not start, or an address is not free.
    """
    sockets, health_sockets = _listening(settings.host, settings.port), _listening(settings.host, settings.health_port)
    try:
        configuration = FrontConfiguration(
            folder=folder,
            data_root=settings.data_root.resolve(),
            certificates=certificates,
            addresses=[_address_of(one) for one in sockets],
            health_addresses=[_address_of(one) for one in health_sockets],
            workers=min(os.cpu_count() or 1, MAX_WORKERS),
            descriptors=min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], MAX_DESCRIPTORS),
            max_requests=settings.max_requests,
            max_requests_per_address=settings.max_requests_per_address,
            is_root=os.geteuid() == 0,
        )
        process = _started(configuration, [*sockets, *health_sockets])
        port, health_port = (int(one[0].getsockname()[1]) for one in (sockets, health_sockets))
    finally:
        for one in (*sockets, *health_sockets):
            one.close()
    front = Front(process, port, health_port)
    assert process.stdout and process.stderr, "both are pipes"
    tasks = [
        asyncio.create_task(front.watch()),
        asyncio.create_task(_follow(process.stdout, sent)),
        asyncio.create_task(_follow(process.stderr, errors)),
    ]
    try:
        await _wait_until_started(front, folder / "nginx.pid")
        yield front
    finally:
        await front.stop()
        await asyncio.gather(*tasks)


def _started(configuration: FrontConfiguration, sockets: Sequence[socket.socket]) -> "subprocess.Popen[bytes]":
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if program is None:
        raise FileNotFoundError("nginx is not installed; install the package nginx-light")
    path = configuration.folder / "nginx.conf"
    path.write_text(configuration.text())
    for one in sockets:
        one.setblocking(False)  # else a worker blocks if another accepts first
    descriptors = [one.fileno() for one in sockets]
    command = ["setpriv", "--pdeathsig", "TERM", program, "-e", "stderr", "-p", str(configuration.folder)]
    return subprocess.Popen(
        [*command, "-c", str(path)],
        env=os.environ | {"NGINX": "".join(f"{number};" for number in descriptors)},  # sockets to listen on
        pass_fds=descriptors,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


async def _wait_until_started(front: Front, pid_file: Path) -> None:
    """Wait until nginx has read its configuration and opened its logs."""
    async with asyncio.timeout(START_SECONDS):
        while not await asyncio.to_thread(_has_content, pid_file):
            if front.ended.is_set():
                raise OSError("nginx did not start; its message is in the log")
            await asyncio.sleep(0.005)


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


async def _follow(pipe: IO[bytes], take: Lines) -> None:
    """Pass on the lines of a log, many at a time, until all its writers have ended."""
    stream = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), pipe
    )
    rest = b""
    while block := await stream.read(LOG_BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        take([line.decode(errors="replace") for line in lines])
        await asyncio.sleep(LOG_PAUSE_SECONDS)
    transport.close()


def _listening(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at an address, or at all addresses, of IPv6 where available. The caller closes them."""
    if host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return [socket.create_server((host, port), family=family, backlog=BACKLOG)]
    sockets = [socket.create_server(("0.0.0.0", port), backlog=BACKLOG)]
    try:
        address = ("::", sockets[0].getsockname()[1])
        sockets.append(socket.create_server(address, family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=False))
    except OSError as error:
        _log.info("the agent listens on IPv4 only: %s", error)
    return sockets


def _address_of(listening: socket.socket) -> str:
    """The address in the form of nginx' ``listen``."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if listening.family == socket.AF_INET6 else f"{host}:{port}"
