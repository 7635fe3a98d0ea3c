"""Fixtures: a CA for the session, an agent per test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import TABLE, AgentThread, FakeAuthorizer, Pki, make_pki


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    """A CA and the agents' certificate."""
    return make_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def agent(tmp_path: Path, pki: Pki) -> Iterator[AgentThread]:
    """A running agent over an empty data root."""
    thread = AgentThread(tmp_path / "root", pki, FakeAuthorizer()).start()
    yield thread
    thread.stop()


@pytest.fixture
def loaded(agent: AgentThread) -> AgentThread:
    """An agent that holds ``TABLE``."""
    with agent.client() as client:
        for path, content in TABLE.contents.items():
            client.put_file(*TABLE.path, path, content)
        client.put_manifest(*TABLE.path, TABLE.stored, TABLE.manifest)
    return agent
