"""Files that the front cannot read, or that end too early: what readers see, and that the agent looks into it."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from colocation.agent.damage import DamageChecks
from colocation.agent.read_requests import ReadRequests
from colocation.agentclient import AgentError, DigestMismatch, NotFound, Unreachable
from colocation.model.agent import InventoryRequest
from colocation.storage.errors import UNREADABLE_MEDIUM
from colocation.storage.paths import TablePath
from tests.unit.storage.tables import Table, data_path, make_table, on_disk

from .failing_nginx import FIRST_BAD_BYTE, install
from .harness import AgentThread, FakeAuthorizer, Pki, until

PATH = data_path(0)
CONTENT = bytes(range(256)) * (128 << 10)
SHORT_BYTES = len(CONTENT) - (4 << 20)
"""More than lies in all buffers between the disk and a reader who has taken nothing yet."""
TABLE = make_table({PATH: CONTENT})
SMALL = make_table({PATH: bytes(2 * FIRST_BAD_BYTE)})


@pytest.fixture
def suspected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[TablePath, str]]:
    """The files that the front's log lets the agent look at."""
    found: list[tuple[TablePath, str]] = []
    suspect = DamageChecks.suspect

    async def recorded(checks: DamageChecks, table: TablePath, path: str) -> None:
        await suspect(checks, table, path)
        found.append((table, path))

    monkeypatch.setattr(DamageChecks, "suspect", recorded)
    return found


def publish(agent: AgentThread, table: Table = TABLE) -> None:
    """The table is there, and wanted."""
    with agent.client() as client:
        client.put_file(*table.path, PATH, table.contents[PATH])
        client.put_manifest(*table.path, table.stored, table.manifest)
        client.inventory(InventoryRequest(session="s", number=1, changed=(table.asked,)))


@pytest.fixture
def shorten(monkeypatch: pytest.MonkeyPatch) -> Callable[[AgentThread], None]:
    """Lets a file be shortened just after the agent has said that it may be sent."""

    def prepare(agent: AgentThread) -> None:
        allowed = ReadRequests._allowed

        def shortened(requests: ReadRequests, *arguments: object) -> bytes:
            answer = allowed(requests, *arguments)  # type: ignore[arg-type]
            os.truncate(on_disk(agent.settings.data_root, TABLE.path, PATH), SHORT_BYTES)
            return answer

        monkeypatch.setattr(ReadRequests, "_allowed", shortened)

    return prepare


@pytest.mark.parametrize("call", ["openat", "pread"])
@pytest.mark.parametrize("number", sorted(UNREADABLE_MEDIUM), ids=lambda number: errno.errorcode[number])
def test_every_failure_of_the_medium_is_looked_into(
    tmp_path: Path, pki: Pki, monkeypatch: pytest.MonkeyPatch, suspected: list[object], call: str, number: int
) -> None:
    """By the lines that nginx really writes, whether the file cannot be opened or a block of it cannot be read."""
    failing = install(tmp_path / "bin", call, number)
    monkeypatch.setenv("PATH", f"{failing}:{os.environ['PATH']}")
    agent = AgentThread(tmp_path / "root", pki, FakeAuthorizer()).start()
    try:
        publish(agent, SMALL)
        with agent.client() as client, pytest.raises(AgentError):
            client.get_file(*SMALL.path, PATH).read()
        until(lambda: suspected)
        assert set(suspected) == {(SMALL.path, PATH)}
    finally:
        agent.stop()


def test_a_file_that_is_shortened_while_it_is_sent_is_cut_off(agent: AgentThread, suspected: list[object]) -> None:
    """No reader takes it for whole; the agent reads it by itself, and gives it to nobody any more."""
    publish(agent)
    with agent.client() as client, client.get_file(*TABLE.path, PATH) as stream:
        os.truncate(on_disk(agent.settings.data_root, TABLE.path, PATH), SHORT_BYTES)
        received = b""
        with pytest.raises(Unreachable, match="cut off"):
            for chunk in stream.chunks():
                received += chunk
    assert received == CONTENT[: len(received)] and len(received) <= SHORT_BYTES
    until(lambda: suspected)
    with agent.client() as client, pytest.raises(NotFound):
        client.get_file(*TABLE.path, PATH)


def test_a_file_that_is_shortened_before_it_is_sent_is_not_taken_for_whole(
    agent: AgentThread, shorten: Callable[[AgentThread], None]
) -> None:
    """The front announces fewer bytes, and the digest that the agent knows: they do not fit together."""
    publish(agent)
    shorten(agent)
    with agent.client() as client, pytest.raises(DigestMismatch) as refused:
        client.get_file(*TABLE.path, PATH).read()
    assert refused.value.may_pass


def test_a_range_of_a_file_that_is_shortened_ends_where_the_file_ends(
    agent: AgentThread, shorten: Callable[[AgentThread], None]
) -> None:
    """The answer says how long the file is by now; what lies behind its end is refused."""
    publish(agent)
    shorten(agent)
    with agent.client() as client:
        with client.get_file(*TABLE.path, PATH, SHORT_BYTES - 10, SHORT_BYTES + 10) as stream:
            assert stream.total_bytes == SHORT_BYTES
            assert stream.read() == CONTENT[SHORT_BYTES - 10 : SHORT_BYTES]
        with pytest.raises(AgentError):
            client.get_file(*TABLE.path, PATH, SHORT_BYTES, SHORT_BYTES + 10).read()
