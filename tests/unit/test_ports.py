"""Ports for servers of tests: kept from connections, open for the server."""

import socket
from contextlib import closing

import pytest

from tests.support.ports import free_ports


def test_a_port_is_kept_for_its_server() -> None:
    """No connection gets it, not even one that wants just it; a server that starts later listens on it."""
    [port] = free_ports(1)
    with closing(socket.socket()) as connection, pytest.raises(OSError, match="in use"):
        connection.bind(("127.0.0.1", port))
    with closing(socket.create_server(("127.0.0.1", port))):
        socket.create_connection(("127.0.0.1", port)).close()


def test_ports_differ() -> None:
    """Also those that are asked for one by one."""
    ports = [port for _ in range(20) for port in free_ports(1)]
    assert len(set(ports)) == 20
