"""Inventory, verification and deletion over HTTPS."""

import gc
import json

import pytest

from colocation.agentclient import AgentError, NotFound
from colocation.model.agent import InventoryRequest
from colocation.storage.table_inventory import TableInventory
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
            "POST", "/v1/tables/shop/orders-0a1b2c3d/collect", b'{"manifests": ["00"], "graceSeconds": -1}',
            "InvalidBody", id="negative grace, no proof",
        ),
        pytest.param(
            "POST", "/v1/tables/shop/orders-0a1b2c3d/collect", b'{"manifests": []}', "NoLiveManifests", id="collect all"
        ),
        pytest.param(
            "POST", "/v1/tables/shop/orders-0a1b2c3d/buckets/0/drop", b'{"manifests": []}', "NoLiveManifests",
            id="drop all",
        ),
        pytest.param("POST", "/v1/tables/shop/orders-0a1b2c3d/buckets/-1/drop", b"", "InvalidBucket", id="bucket"),
        pytest.param("POST", "/v1/tables/shop/orders-0a1b2c3d/buckets/65536/drop", b"", "InvalidBucket", id="above"),
    ],
)
def test_wrong_requests(agent: AgentThread, method: str, target: str, body: bytes, reason: str) -> None:
    """Bad input gets 400, its reason and what is allowed."""
    response = agent.raw_request(method, target, {"Content-Length": str(len(body))}, body)
    assert (response.status, response.reason) == (400, reason)


def test_manifests_of_a_folder(loaded: AgentThread) -> None:
    """What a lost table can be made from again; nothing of a table that is not here."""
    with loaded.client() as client:
        [found] = client.manifests(*TABLE.path).manifests
        assert (found.sha256, found.files, found.table) == (TABLE.manifest, 2, "orders")
        assert client.manifests("shop", "orders-99999999").manifests == ()


def test_verify_needs_its_manifest(loaded: AgentThread) -> None:
    """Without the manifest it is not known what is wanted."""
    with loaded.client() as client:
        with pytest.raises(AgentError, match="ManifestMissing"):
            client.verify(*TABLE.path, "00" * 32)
        assert client.verify(*TABLE.path, TABLE.manifest).buckets[0].state == "complete"


def test_reading_a_damaged_file_is_enough_to_find_it(loaded: AgentThread) -> None:
    """Whoever reads a file that was written in place gets none of it, and the next report has the damage."""
    with loaded.client() as client:
        assert client.inventory(REQUEST).tables[0].buckets[0].state == "complete"
        damage(on_disk(loaded.settings.data_root, TABLE.path, data_path(0)))
        with pytest.raises(NotFound, match="ReplicaCorrupt"):
            client.get_file(*TABLE.path, data_path(0))
        assert client.inventory(REQUEST).tables[0].buckets[0].state == "corrupt"


def test_tables_that_are_not_here_leave_nothing_behind(loaded: AgentThread) -> None:
    """Whoever may read one table may ask about 2^32 folders by its name."""
    with loaded.client() as client:
        for number in range(20):
            with pytest.raises(NotFound, match="ManifestMissing"):
                client.verify("shop", f"orders-{number:08x}", TABLE.manifest)
            body = json.dumps({"path": data_path(0)}).encode()
            target = f"/v1/tables/shop/orders-{number:08x}/damage"
            answer = loaded.raw_request("POST", target, {"Content-Length": str(len(body))}, body)
            assert answer.status == 200
    known = [one.table for one in gc.get_objects() if isinstance(one, TableInventory)]
    assert [table for table in known if table.directory.startswith("orders-000000")] == []
