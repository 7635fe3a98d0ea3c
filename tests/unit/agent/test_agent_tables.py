"""Inventory, verification and deletion over HTTPS."""

import pytest

from colocation.agentclient import AgentError, NotFound
from colocation.model.agent import InventoryRequest, Removed
from tests.unit.storage.tables import damage, data_path, make_table, on_disk

from .harness import AgentThread

TABLE = make_table({data_path(bucket): b"content" for bucket in (0, 1)})
REQUEST = InventoryRequest(changed=(TABLE.asked,))


@pytest.fixture
def loaded(agent: AgentThread) -> AgentThread:
    """An agent that holds ``TABLE``."""
    with agent.client() as client:
        for path, content in TABLE.contents.items():
            client.put_file(*TABLE.path, path, content)
        client.put_manifest(*TABLE.path, TABLE.stored, TABLE.manifest)
    return agent


def test_inventory(loaded: AgentThread) -> None:
    """The report has the node, its disk, and the state of every bucket."""
    with loaded.client() as client:
        report = client.inventory(REQUEST)
    assert report.node == "node-1"
    assert 0 <= report.free_bytes <= report.capacity_bytes
    assert {bucket: state.state for bucket, state in report.tables[0].buckets.items()} == {0: "complete", 1: "complete"}


def test_status_has_no_tables(loaded: AgentThread) -> None:
    """Disk and transfers only."""
    with loaded.client() as client:
        report = client.status()
    assert (report.tables, report.active_transfers, report.clones) == ((), 0, ())


def test_deletions(loaded: AgentThread) -> None:
    """A bucket, garbage, the table: each says what it freed, and nothing the second time."""
    with loaded.client() as client:
        assert client.drop_bucket(*TABLE.path, 0, (TABLE.manifest,), 60) == Removed(files=1, bytes=7)
        assert client.drop_bucket(*TABLE.path, 0, (TABLE.manifest,), 60) == Removed(files=0, bytes=0)
        assert client.collect(*TABLE.path, (TABLE.manifest,), 0) == Removed(files=0, bytes=0)
        client.recycle(*TABLE.path, 60)
        client.recycle(*TABLE.path, 60)
        with pytest.raises(NotFound):
            client.head_file(*TABLE.path, data_path(1))
        assert client.inventory(InventoryRequest()).unknown_directories == ()


@pytest.mark.parametrize(
    ("method", "target", "body", "reason"),
    [
        pytest.param("POST", "/v1/inventory", b"{", "InvalidBody", id="no JSON"),
        pytest.param("POST", "/v1/inventory", b'{"table": []}', "InvalidBody", id="unknown field"),
        pytest.param(
            "POST", "/v1/inventory", b'{"tables": [{"namespace": 1, "directory": "x"}]}', "InvalidBody", id="old form"
        ),
        pytest.param(
            "POST", "/v1/tables/shop/orders-0a1b2c3d/verify", b'{"manifest": "../../x"}', "InvalidDigest", id="digest"
        ),
        pytest.param(
            "POST", "/v1/tables/shop/orders-0a1b2c3d/collect", b'{"manifests": [], "graceSeconds": -1}', "InvalidBody",
            id="negative grace",
        ),
        pytest.param("POST", "/v1/tables/shop/orders-0a1b2c3d/buckets/-1/drop", b"", "InvalidBucket", id="bucket"),
        pytest.param("POST", "/v1/tables/shop/orders-0a1b2c3d/buckets/65536/drop", b"", "InvalidBucket", id="above"),
    ],
)
def test_wrong_requests(agent: AgentThread, method: str, target: str, body: bytes, reason: str) -> None:
    """Bad input gets 400, its reason and what is allowed."""
    response = agent.raw_request(method, target, {"Content-Length": str(len(body))}, body)
    assert (response.status, response.reason) == (400, reason)


def test_verify_and_collect_need_their_manifest(loaded: AgentThread) -> None:
    """Without the manifest it is not known what is wanted, so nothing is verified or deleted."""
    with loaded.client() as client:
        with pytest.raises(AgentError, match="ManifestMissing"):
            client.verify(*TABLE.path, "00" * 32)
        with pytest.raises(AgentError, match="ManifestMissing"):
            client.collect(*TABLE.path, ("00" * 32,), 0)
        assert client.verify(*TABLE.path, TABLE.manifest).buckets[0].state == "complete"


def test_reading_a_damaged_file_is_enough_to_find_it(loaded: AgentThread) -> None:
    """Whoever reads a file that was written in place gets none of it, and the next report has the damage."""
    with loaded.client() as client:
        assert client.inventory(REQUEST).tables[0].buckets[0].state == "complete"
        damage(on_disk(loaded.settings.data_root, TABLE.path, data_path(0)))
        with pytest.raises(NotFound, match="ReplicaCorrupt"):
            client.get_file(*TABLE.path, data_path(0))
        assert client.inventory(REQUEST).tables[0].buckets[0].state == "corrupt"
