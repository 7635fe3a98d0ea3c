"""HTTPS with a bounded number of connections, which no caller can take from the others.

A connection takes 270 KiB from its first byte, before anybody has shown anything, and asyncio's servers take any number
of them. Here, when there are too many, the caller with the most loses its oldest one: who has few, as the API server
has, never loses any.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

MAX_CONNECTIONS = 256
"""Also while the API server asks as much at once as it lets its own callers change (200)."""
HANDSHAKE_SECONDS = 5.0
PAUSE_SECONDS = 1.0
BACKLOG = 128

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Connection:
    """One caller's. ``transport``: once TLS is agreed on."""

    caller: str
    socket: socket.socket
    handshake: asyncio.Task[None] | None = None
    transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """Close the socket with the connection."""
        return self.socket.fileno() != -1

    def abort(self) -> None:
        """Close it at once, without a word."""
        if self.transport is not None:
            self.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()


class BoundedServer:
    """Serves ``protocols`` (an aiohttp ``web.Server``) by TLS at a port of all addresses.

    Raises:
        OSError: the port is taken.
    """

    def __init__(
        self, protocols: Callable[[], asyncio.Protocol], port: int, tls: ssl.SSLContext, most: int = MAX_CONNECTIONS
    ) -> None:
        self._protocols = protocols
        self._tls = tls
        self._most = most
        self._connections: list[Connection] = []
        self._listener = _listener(port)
        self._accepting = asyncio.create_task(self._accept(), name=f"connections of port {port}")

    async def stop(self) -> None:
        """Take no more connections; those whose TLS is agreed on are the ``web.Server``'s to end."""
        self._accepting.cancel()
        handshakes = [one.handshake for one in self._connections if one.handshake and not one.transport]
        for handshake in handshakes:
            handshake.cancel()
        await asyncio.gather(self._accepting, *handshakes, return_exceptions=True)
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(self._listener)
            except OSError as error:  # no file descriptor is left, say
                _log.warning("connections cannot be accepted for the moment: %s", error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            accepted.setblocking(False)
            connection = Connection(address[0], accepted)
            self._make_room(connection)
            connection.handshake = asyncio.create_task(self._greet(connection))

    def _make_room(self, newcomer: Connection) -> None:
        """Aborted ones no longer count, though their sockets close a moment later."""
        self._connections = [*(one for one in self._connections if one.is_open), newcomer]
        while len(self._connections) > self._most:
            [(greediest, _)] = Counter(one.caller for one in self._connections).most_common(1)
            oldest = next(one for one in self._connections if one.caller == greediest)
            self._connections.remove(oldest)
            oldest.abort()

    async def _greet(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError, TimeoutError):  # what is no TLS, or too slow; it is closed then
            connection.transport, _ = await loop.connect_accepted_socket(
                self._protocols, connection.socket, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )


def _listener(port: int) -> socket.socket:
    """At all addresses, IPv4 and IPv6: kubelets and the API server come to the pod's, whichever it has."""
    if socket.has_dualstack_ipv6():
        listener = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
    else:
        listener = socket.create_server(("", port), backlog=BACKLOG)
    listener.setblocking(False)
    return listener
