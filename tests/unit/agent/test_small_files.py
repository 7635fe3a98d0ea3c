"""POST …/files: several small files by one request, over real TLS."""

import errno
import json
import os
from unittest.mock import Mock

import pytest

from colocation.agentclient import BadRequest, Forbidden
from colocation.model.agent import MAX_BYTES_AT_ONCE, MAX_FILES_AT_ONCE, InventoryRequest
from colocation.model.file_transfer import FileFrame
from tests.unit.storage.tables import damage, data_path, make_table, on_disk

from .harness import SHOP_READER_TOKEN, AgentThread

CONTENTS = {data_path(1, load=str(number)): bytes([number]) * number * 1000 for number in range(60)}
TABLE = make_table(CONTENTS)
TARGET = "/v1/tables/shop/orders-0a1b2c3d/files"


def put(agent: AgentThread) -> None:
    """Publish the table, which the operator asks about."""
    with agent.client() as client:
        for path, content in CONTENTS.items():
            client.put_file(*TABLE.path, path, content)
        client.put_manifest(*TABLE.path, TABLE.stored, TABLE.manifest)
        client.inventory(InventoryRequest(session="one", number=1, changed=(TABLE.asked,)))


def test_files_come_in_the_requested_order(agent: AgentThread) -> None:
    """Including empty ones, and the same connection serves the next request."""
    put(agent)
    paths = tuple(sorted(CONTENTS, reverse=True))
    with agent.client(SHOP_READER_TOKEN) as client:
        for _ in range(2):
            frames = list(client.get_files(*TABLE.path, paths))
            assert frames == [FileFrame(path, CONTENTS[path], "") for path in paths]


def test_a_file_that_cannot_be_sent_is_reported_in_its_place(agent: AgentThread) -> None:
    """Missing, damaged and too large files fail alone."""
    put(agent)
    missing, damaged, large, good = sorted(CONTENTS)[-4:]
    on_disk(agent.settings.data_root, TABLE.path, missing).unlink()
    damage(on_disk(agent.settings.data_root, TABLE.path, damaged))
    os.truncate(on_disk(agent.settings.data_root, TABLE.path, large), MAX_BYTES_AT_ONCE + 1)
    with agent.client() as client:
        frames = list(client.get_files(*TABLE.path, (missing, damaged, large, good)))
    assert [frame.failure.partition(":")[0] for frame in frames] == ["NotFound", "ReplicaCorrupt", "ReplicaCorrupt", ""]
    assert frames[-1].content == CONTENTS[good]


def test_a_file_too_large_for_a_shared_answer_is_refused(
    agent: AgentThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many callers there are, the agent holds no more than that in memory."""
    put(agent)
    small, large = sorted(CONTENTS, key=lambda path: len(CONTENTS[path]))[1:3]
    monkeypatch.setattr("colocation.agent.file_requests.MAX_BYTES_AT_ONCE", len(CONTENTS[small]))
    with agent.client() as client:
        frames = list(client.get_files(*TABLE.path, (large, small)))
        with client.get_file(*TABLE.path, large) as stream:
            assert stream.read() == CONTENTS[large]
    assert [frame.failure.partition(":")[0] for frame in frames] == ["FileTooLarge", ""]


def test_a_file_that_becomes_shorter_is_not_sent(agent: AgentThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it shrinks between the check and the read, the rest must not be taken for the file."""
    put(agent)
    path = max(CONTENTS, key=lambda path: len(CONTENTS[path]))
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, count, offset: read(descriptor, count, offset)[:-1])
    with agent.client() as client:
        [frame] = client.get_files(*TABLE.path, (path,))
    assert (frame.content, frame.failure.partition(":")[0]) == (b"", "NotFound")


def test_an_unreadable_file_is_damaged(agent: AgentThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if no manifest names it: the caller should ask another replica."""
    path = data_path(1, load="alone")
    with agent.client() as client:
        client.put_file(*TABLE.path, path, b"content")
        os.utime(on_disk(agent.settings.data_root, TABLE.path, path), (1000, 1000))  # so that it is read again
        monkeypatch.setattr(os, "pread", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
        [frame] = client.get_files(*TABLE.path, (path,))
    assert (frame.content, frame.failure.partition(":")[0]) == (b"", "ReplicaCorrupt")


def test_a_caller_who_stops_reading_does_not_spoil_the_connection(agent: AgentThread) -> None:
    """The rest of an answer is not taken for the next one."""
    put(agent)
    paths = tuple(sorted(CONTENTS))
    with agent.client() as client:
        for path in paths[:3]:
            frames = client.get_files(*TABLE.path, (path, *paths))
            assert next(frames).content == CONTENTS[path]
            frames.close()
        assert client.status().instance


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        pytest.param((), "InvalidBody", id="none"),
        pytest.param((data_path(1),) * (MAX_FILES_AT_ONCE + 1), "InvalidBody", id="too many"),
        pytest.param(("data/../../../etc/passwd",), "InvalidPath", id="a path outside the table"),
        pytest.param((data_path(1), "data//x_00001.parquet"), "InvalidPath", id="an empty segment"),
        pytest.param((data_path(1).replace("data/", "data/%2e%2e/"),), "InvalidPath", id="an escaped step"),
    ],
)
def test_refuses_wrong_requests_for_files(agent: AgentThread, paths: tuple[str, ...], reason: str) -> None:
    """400, and nothing is read."""
    body = json.dumps({"paths": paths}).encode()
    answer = agent.raw_request("POST", TARGET, {"Content-Length": str(len(body))}, body)
    assert (answer.status, answer.reason) == (400, reason)


def test_needs_the_right_to_read_the_table(agent: AgentThread) -> None:
    """As for one file."""
    put(agent)
    with agent.client(SHOP_READER_TOKEN) as client, pytest.raises(Forbidden):
        list(client.get_files("bank", TABLE.path.directory, tuple(CONTENTS)))
    with agent.client() as client, pytest.raises(BadRequest):
        list(client.get_files("bank", "no-directory", tuple(CONTENTS)))
