"""Requests on whole tables over HTTPS: inventory, verification, and orders to delete, which need proof."""

import gc
import json
import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from colocation.agentclient import AgentError, NotFound, StaleOrder, StaleTerm
from colocation.model.agent import DeletionProof, InventoryRequest, Removed
from colocation.storage import removal
from colocation.storage.table_inventory import TableInventory
from tests.support.agent_caller import AgentCaller
from tests.support.waiting import until
from tests.unit.storage.tables import damage, data_path, on_disk

from .harness import TABLE, AgentThread, Operator

REQUEST = InventoryRequest(changed=(TABLE.asked,))

LIVE = (TABLE.manifest,)
GRACE_SECONDS = 60


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
    """A lost table can be re-created from them; none for a table that is not here."""
    with loaded.client() as client:
        [found] = client.manifests(*TABLE.path).manifests
        assert (found.sha256, found.files, found.table) == (TABLE.manifest, 2, "orders")
        assert client.manifests("shop", "orders-99999999").manifests == ()


def test_verify_needs_its_manifest(loaded: AgentThread) -> None:
    """Without the manifest the wanted files are unknown."""
    with loaded.client() as client:
        with pytest.raises(AgentError, match="ManifestMissing"):
            client.verify(*TABLE.path, "00" * 32)
        assert client.verify(*TABLE.path, TABLE.manifest).buckets[0].state == "complete"


def test_a_read_finds_a_damaged_file(loaded: AgentThread) -> None:
    """A reader of a file that was written in place gets none of it, and the next report shows the damage."""
    with loaded.client() as client:
        assert client.inventory(REQUEST).tables[0].buckets[0].state == "complete"
        damage(on_disk(loaded.settings.data_root, TABLE.path, data_path(0)))
        with pytest.raises(NotFound, match="ReplicaCorrupt"):
            client.get_file(*TABLE.path, data_path(0))
        assert client.inventory(REQUEST).tables[0].buckets[0].state == "corrupt"


def test_absent_tables_take_no_memory(loaded: AgentThread) -> None:
    """A reader of one table may ask about 2^32 folders with its name. A request may end after its answer."""
    with loaded.client() as client:
        for number in range(20):
            with pytest.raises(NotFound, match="ManifestMissing"):
                client.verify("shop", f"absent-{number:08x}", TABLE.manifest)
            body = json.dumps({"path": data_path(0)}).encode()
            target = f"/v1/tables/shop/absent-{number:08x}/damage"
            answer = loaded.raw_request("POST", target, {"Content-Length": str(len(body))}, body)
            assert answer.status == 200
    until(lambda: not tables_in_memory("absent-"))


def tables_in_memory(prefix: str) -> list[TableInventory]:
    """Those of any agent in this process whose folders' names begin so: no other test may use the prefix."""
    gc.collect()
    known = [one for one in gc.get_objects() if isinstance(one, TableInventory)]
    return [one for one in known if one.table.directory.startswith(prefix)]


@pytest.fixture
def client(agent: AgentThread) -> Iterator[AgentCaller]:
    """A client of an agent that holds ``TABLE``."""
    with agent.client() as opened:
        for path, content in TABLE.contents.items():
            opened.put_file(*TABLE.path, path, content)
        opened.put_manifest(*TABLE.path, TABLE.stored, TABLE.manifest)
        yield opened


@pytest.fixture
def operator(client: AgentCaller) -> Operator:
    """An operator that asked about ``TABLE``."""
    operator = Operator(client)
    operator.ask(TABLE.asked)
    return operator


Delete = Callable[[AgentCaller, DeletionProof], object]
DELETIONS = {
    "drop": lambda client, proof: client.drop_bucket(*TABLE.path, 0, LIVE, GRACE_SECONDS, proof),
    "collect": lambda client, proof: client.collect(*TABLE.path, LIVE, GRACE_SECONDS, proof),
    "recycle": lambda client, proof: client.recycle(*TABLE.path, 60, proof),
}


def test_deletions_on_proof(client: AgentCaller, operator: Operator) -> None:
    """A bucket, garbage, the table: each answer counts what was freed, and nothing the second time."""
    proof = operator.proof(TABLE.asked)
    assert client.drop_bucket(*TABLE.path, 0, LIVE, GRACE_SECONDS, proof) == Removed(files=1, bytes=7)
    assert client.drop_bucket(*TABLE.path, 0, LIVE, GRACE_SECONDS, proof) == Removed(files=0, bytes=0)
    assert client.collect(*TABLE.path, LIVE, 0, proof) == Removed(files=0, bytes=0)
    operator.change(removed=(str(TABLE.path),))
    client.recycle(*TABLE.path, 60, proof)
    client.recycle(*TABLE.path, 60, proof)
    with pytest.raises(NotFound):
        client.head_file(*TABLE.path, data_path(1))
    report = operator.ask()
    assert (report.unknown_directories, report.recycled_directories) == ((), (str(TABLE.path),))


@pytest.mark.parametrize("delete", DELETIONS.values(), ids=DELETIONS.keys())
@pytest.mark.parametrize(
    ("changes", "error", "problem"),
    [
        pytest.param({"instance": "before"}, StaleOrder, "agent process 'before'", id="another process"),
        pytest.param({"not_after_seconds": 0.0}, StaleOrder, "until 0.0 s of uptime", id="too late"),
        pytest.param({"term": 0}, StaleTerm, "heard of term 1", id="older term"),
    ],
)
def test_a_proof_that_does_not_hold_deletes_nothing(
    agent: AgentThread,
    operator: Operator,
    delete: Delete,
    changes: dict[str, object],
    error: type[Exception],
    problem: str,
) -> None:
    """409 with the part that does not hold; recycling, too, once the question does not name the folder."""
    operator.ask()
    proof = operator.proof(TABLE.asked, **changes)
    if delete is not DELETIONS["recycle"]:
        operator.ask(TABLE.asked)
    with pytest.raises(error, match=problem):
        delete(operator.client, proof)
    assert all(on_disk(agent.settings.data_root, TABLE.path, path).exists() for path in TABLE.contents)


@pytest.mark.parametrize("kind", DELETIONS)
def test_the_newest_question_decides(agent: AgentThread, operator: Operator, kind: str) -> None:
    """Nothing is deleted of tables that it does not name, and no folder is recycled that it names."""
    if kind != "recycle":
        operator.change(removed=(str(TABLE.path),))
    with pytest.raises(StaleOrder, match="the newest question"):
        DELETIONS[kind](operator.client, operator.proof(TABLE.asked))
    assert all(on_disk(agent.settings.data_root, TABLE.path, path).exists() for path in TABLE.contents)


@pytest.mark.parametrize("kind", ["drop", "collect"])
@pytest.mark.parametrize(
    ("manifests", "grace_seconds", "reason"),
    [
        pytest.param("[]", 0, "NoLiveManifests", id="none: everything would be garbage"),
        pytest.param('["../../x"]', 0, "InvalidDigest", id="no digest"),
        pytest.param(f'["{TABLE.manifest}", "{TABLE.manifest.upper()}"]', 0, "InvalidDigest", id="one is no digest"),
        pytest.param(f'["{TABLE.manifest}"]', -1, "InvalidBody", id="a grace that is over before it begins"),
    ],
)
def test_a_malformed_order_deletes_nothing(
    agent: AgentThread, operator: Operator, kind: str, manifests: str, grace_seconds: int, reason: str
) -> None:
    """400, whatever its proof."""
    proof = operator.proof(TABLE.asked).model_dump_json(by_alias=True)
    action = "collect" if kind == "collect" else "buckets/0/drop"
    body = f'{{"manifests": {manifests}, "graceSeconds": {grace_seconds}, "proof": {proof}}}'.encode()
    response = agent.raw_request(
        "POST", f"/v1/tables/{TABLE.path}/{action}", {"Content-Length": str(len(body))}, body
    )
    assert (response.status, response.reason) == (400, reason)
    assert all(on_disk(agent.settings.data_root, TABLE.path, path).exists() for path in TABLE.contents)


def test_a_negative_retention_is_refused(agent: AgentThread, operator: Operator) -> None:
    """400: the folder would be deleted by the next purge."""
    operator.change(removed=(str(TABLE.path),))
    proof = operator.proof(TABLE.asked).model_dump_json(by_alias=True)
    body = f'{{"keepSeconds": -1, "proof": {proof}}}'.encode()
    headers = {"Content-Length": str(len(body))}
    response = agent.raw_request("POST", f"/v1/tables/{TABLE.path}/recycle", headers, body)
    assert (response.status, response.reason) == (400, "InvalidBody")


def test_a_question_of_a_newer_epoch_waits_for_the_deletion(
    agent: AgentThread, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map changes while a bucket is dropped: the answer does not count files still being deleted."""
    begun, goes_on = threading.Event(), threading.Event()
    original = removal.delete_bucket

    def slow(*arguments: object) -> Removed:
        begun.set()
        assert goes_on.wait(60)
        return original(*arguments)

    monkeypatch.setattr(removal, "delete_bucket", slow)
    with agent.client() as other:
        dropping = threading.Thread(target=DELETIONS["drop"], args=(other, operator.proof(TABLE.asked)))
        dropping.start()
        assert begun.wait(60)
        moved = TABLE.asked.model_copy(update={"map_version": 8})
        asking = threading.Thread(target=operator.change, args=(moved,))
        asking.start()
        until(lambda: agent.running.node.conversation.question.number == 2)
        asking.join(0.2)
        assert asking.is_alive()
        goes_on.set()
        dropping.join(60)
        asking.join(60)
    assert operator.report.tables[0].buckets[0].state is None


def test_a_verified_manifest_is_in_use(
    agent: AgentThread, client: AgentCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load commits what it has just verified: no collection takes its files, from before they were checked."""
    root, steps = agent.running.node.root, []
    note_use, verify = root.note_use, TableInventory.verify
    monkeypatch.setattr(root, "note_use", lambda *manifest: (steps.append("in use"), note_use(*manifest)))
    monkeypatch.setattr(TableInventory, "verify", lambda *given: (steps.append("verified"), verify(*given))[1])
    client.verify(*TABLE.path, TABLE.manifest)
    assert steps == ["in use", "verified", "in use"]


def test_restoring_needs_only_the_newest_term(operator: Operator) -> None:
    """It deletes nothing, so it needs no proof."""
    with pytest.raises(StaleTerm):
        operator.client.restore(*TABLE.path, "orders-99999999", term=0)
    operator.client.restore(*TABLE.path, "orders-99999999", term=1)
    assert operator.ask().unknown_directories == ("shop/orders-99999999",)


def test_deletions_are_audited(operator: Operator, caplog: pytest.LogCaptureFixture) -> None:
    """One line per order: what it deleted or why it was refused, for whom, and what it was decided from."""
    caplog.set_level(logging.INFO)
    DELETIONS["drop"](operator.client, operator.proof(TABLE.asked))
    with pytest.raises(StaleOrder):
        DELETIONS["collect"](operator.client, operator.proof(TABLE.asked, map_version=6))
    lines = [record.audit_fields for record in caplog.records if hasattr(record, "audit_fields")]
    done, refused = lines
    assert done == {
        "event": "drop", "namespace": "shop", "directory": TABLE.path.directory, "bucket": 0, "outcome": "done",
        "files": 1, "bytes": 7, "user": "admin", "term": 1, "map_version": 7, "table_uid": TABLE.asked.uid,
        "group_uid": "group-1", "manifests": [TABLE.manifest],
    }  # fmt: skip
    assert (refused["event"], refused["outcome"], refused["reason"]) == ("collect", "refused", "StaleOrder")
    assert "map version" in refused["message"]
