"""Ports for servers of tests: kept from connections, open for the server."""

import socket
from contextlib import closing

import pytest

from tests.support.ports import free_ports


@pytest.mark.parametrize("address", ["127.0.0.1", "127.77.3.4"])
def test_a_port_is_kept_for_its_server(address: str) -> None:
    """No other socket gets it, on any address of loopback, although it asks for it; its server listens on all."""
    [port] = free_ports(1)
    with closing(socket.socket()) as other, pytest.raises(OSError, match="in use"):
        other.bind((address, port))
    with closing(socket.create_server(("", port))):
        socket.create_connection((address, port)).close()


def test_ports_differ() -> None:
    """Also those that are asked for one by one."""
    ports = [port for _ in range(20) for port in free_ports(1)]
    assert len(set(ports)) == 20
