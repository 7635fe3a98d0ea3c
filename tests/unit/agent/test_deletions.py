"""Orders to delete over HTTPS: carried out on proof, refused in words, and written to the log."""

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from colocation.agentclient import NotFound, StaleOrder, StaleTerm
from colocation.model.agent import DeletionProof, Removed
from colocation.storage import removal
from colocation.storage.table_inventory import TableInventory
from tests.support.agent_caller import AgentCaller
from tests.unit.storage.tables import data_path, make_table, on_disk

from .harness import AgentThread, Operator, until

TABLE = make_table({data_path(bucket): b"content" for bucket in (0, 1)})
LIVE = (TABLE.manifest,)
GRACE_SECONDS = 60


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
    """A bucket, garbage, the table: each says what it freed, and nothing the second time."""
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
    ("changes", "error", "says"),
    [
        pytest.param({"instance": "before"}, StaleOrder, "agent process 'before'", id="another process"),
        pytest.param({"not_after_seconds": 0.0}, StaleOrder, "until 0.0 s of uptime", id="too late"),
        pytest.param({"term": 0}, StaleTerm, "heard of term 1", id="older term"),
    ],
)
def test_a_proof_that_is_not_true_deletes_nothing(
    agent: AgentThread,
    operator: Operator,
    delete: Delete,
    changes: dict[str, object],
    error: type[Exception],
    says: str,
) -> None:
    """409 with the part that is not true; for recycling, where the question does not name the folder any more."""
    operator.ask()
    proof = operator.proof(TABLE.asked, **changes)
    if delete is not DELETIONS["recycle"]:
        operator.ask(TABLE.asked)
    with pytest.raises(error, match=says):
        delete(operator.client, proof)
    assert all(on_disk(agent.settings.data_root, TABLE.path, path).exists() for path in TABLE.contents)


@pytest.mark.parametrize("kind", DELETIONS)
def test_the_newest_question_decides(agent: AgentThread, operator: Operator, kind: str) -> None:
    """Nothing is deleted of a table that is not asked about, and no folder is recycled that is."""
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
def test_an_order_that_makes_no_sense_deletes_nothing(
    agent: AgentThread, operator: Operator, kind: str, manifests: str, grace_seconds: int, reason: str
) -> None:
    """400, whatever its proof says."""
    proof = operator.proof(TABLE.asked).model_dump_json(by_alias=True)
    action = "collect" if kind == "collect" else "buckets/0/drop"
    body = f'{{"manifests": {manifests}, "graceSeconds": {grace_seconds}, "proof": {proof}}}'.encode()
    response = agent.raw_request(
        "POST", f"/v1/tables/{TABLE.path}/{action}", {"Content-Length": str(len(body))}, body
    )
    assert (response.status, response.reason) == (400, reason)
    assert all(on_disk(agent.settings.data_root, TABLE.path, path).exists() for path in TABLE.contents)


def test_a_folder_is_not_kept_for_less_than_no_time(agent: AgentThread, operator: Operator) -> None:
    """400: it would go with the next purge."""
    operator.change(removed=(str(TABLE.path),))
    proof = operator.proof(TABLE.asked).model_dump_json(by_alias=True)
    body = f'{{"keepSeconds": -1, "proof": {proof}}}'.encode()
    headers = {"Content-Length": str(len(body))}
    response = agent.raw_request("POST", f"/v1/tables/{TABLE.path}/recycle", headers, body)
    assert (response.status, response.reason) == (400, "InvalidBody")



def test_a_question_of_a_newer_epoch_is_answered_from_after_the_deletion(
    agent: AgentThread, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket is being dropped when the map moves on: the answer does not count what still goes."""
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
    """A load commits what it has just verified: no collection takes its files, from before the look at them on."""
    root, steps = agent.running.node.root, []
    note_use, verify = root.note_use, TableInventory.verify
    monkeypatch.setattr(root, "note_use", lambda *manifest: (steps.append("in use"), note_use(*manifest)))
    monkeypatch.setattr(TableInventory, "verify", lambda *given: (steps.append("verified"), verify(*given))[1])
    client.verify(*TABLE.path, TABLE.manifest)
    assert steps == ["in use", "verified", "in use"]


def test_restoring_needs_the_newest_term(operator: Operator) -> None:
    """It deletes nothing, so that is all it needs."""
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
