"""Reads, uploads, long work and probes have threads of their own, and none waits for another kind."""

import threading
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from colocation.agent.node_state import MAX_VERIFICATIONS_OF_ACCOUNT, MAX_WAITING_VERIFICATIONS, VERIFY_THREADS
from colocation.storage.table_inventory import TableInventory
from tests.support.waiting import until
from tests.unit.storage.tables import data_path, make_table

from .harness import AgentThread

TABLE = make_table({data_path(1): b"content"})


def put(agent: AgentThread) -> None:
    """Publish the table."""
    with agent.client() as client:
        client.put_file(*TABLE.path, data_path(1), b"content")
        client.put_manifest(*TABLE.path, TABLE.stored, TABLE.manifest)


def test_long_verifications_delay_no_reads_uploads_or_probes(
    agent: AgentThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them run than there are threads of any kind, and everything else is served."""
    put(agent)
    ends, begun = threading.Event(), threading.Semaphore(0)
    original = TableInventory.verify

    def slow(self: TableInventory, manifest: str, deep: bool) -> object:
        begun.release()
        assert ends.wait(300)
        return original(self, manifest, deep)

    monkeypatch.setattr(TableInventory, "verify", slow)
    count = MAX_VERIFICATIONS_OF_ACCOUNT + MAX_WAITING_VERIFICATIONS
    assert count > VERIFY_THREADS
    with ThreadPoolExecutor(count) as callers, agent.client() as client:
        waiting: list[Future[object]] = [
            callers.submit(client.verify, *TABLE.path, TABLE.manifest) for _ in range(count)
        ]
        try:
            until(lambda: begun.acquire(blocking=False))
            with client.get_file(*TABLE.path, data_path(1)) as stream:
                assert stream.read() == b"content"
            assert client.put_file(*TABLE.path, data_path(2), b"more").bytes == 4
            for path in ("/readyz", "/metrics"):
                assert urllib.request.urlopen(agent.health_url + path, timeout=30).status == 200
        finally:
            ends.set()
        assert all(one.result(60) for one in waiting)
