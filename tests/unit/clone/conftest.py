"""Fixtures: three nodes' data roots, two of them with a running agent."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.agent.harness import AgentThread, FakeAuthorizer, Pki, make_pki


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    """A CA and the agents' certificate."""
    return make_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def agents(tmp_path: Path, pki: Pki) -> Iterator[list[AgentThread]]:
    """The agents of node-1 and node-2."""
    threads = [
        AgentThread(tmp_path / node, pki, FakeAuthorizer(), node).start() for node in ("node-1", "node-2")
    ]
    yield threads
    for thread in threads:
        thread.stop()
