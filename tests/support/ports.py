"""Ports of this machine that no one takes before the server for which they are meant listens."""

import socket

_held: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Ports for servers that say SO_REUSEADDR, as those of asyncio, Go and Java do.

    They are held until this process ends: the kernel gives a port that is only free now to the next outgoing
    connection, of which parallel tests open hundreds, and a server that starts later cannot listen any more. They are
    held on all addresses: a server that listens on all cannot start if its port is taken on one of them.
    """
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("", 0))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after: else it may be one that others hold so
    _held.extend(held)
    return [one.getsockname()[1] for one in held]
