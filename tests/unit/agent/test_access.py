"""Access: without a token, a right or the API server a request reveals and changes nothing."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from colocation.agent.authorizer import Access, CachedAuthorizer, Identity
from colocation.agentclient import AgentError, Forbidden, Unauthorized
from colocation.manifests.clone_job import clone_job_name
from colocation.model.agent import AskedTable, DeletionProof, InventoryRequest, TableReference
from tests.support.agent_caller import AgentCaller
from tests.unit.storage.tables import data_path, make_table, on_disk

from .harness import ADMIN, ADMIN_TOKEN, SHOP_READER_TOKEN, AgentThread, FakeAuthorizer, Pki

TABLE = make_table({data_path(0): b"content"})
PROOF = DeletionProof(instance="", not_after_seconds=0, term=0, table_uid="")
OTHER = make_table({data_path(0): b"content"}, namespace="bank")

Call = Callable[[AgentCaller], object]

CALLS: dict[str, Call] = {
    "get": lambda client: client.get_file(*TABLE.path, data_path(0)),
    "get missing": lambda client: client.get_file(*TABLE.path, data_path(1)),
    "put": lambda client: client.put_file(*TABLE.path, data_path(1), b"new"),
    "verify": lambda client: client.verify(*TABLE.path, TABLE.manifest),
    "inventory": lambda client: client.inventory(InventoryRequest()),
    "status": lambda client: client.status(),
    "manifests": lambda client: client.manifests(*TABLE.path),
    "delete": lambda client: client.drop_bucket(*TABLE.path, 0, (TABLE.manifest,), 0, PROOF),
    "collect": lambda client: client.collect(*TABLE.path, (TABLE.manifest,), 0, PROOF),
    "recycle": lambda client: client.recycle(*TABLE.path, 0, PROOF),
    "restore": lambda client: client.restore(*TABLE.path, "orders-99999999"),
    "recycled": lambda client: client.recycled_schema(*TABLE.path, TABLE.manifest),
    "files": lambda client: list(client.get_files(*TABLE.path, (data_path(0),))),
    "damage": lambda client: client.report_damage(*TABLE.path, data_path(0)),
}
ON_ALL, ON_TABLE = ("", ""), (TABLE.path.namespace, "orders")
RIGHTS = {
    "get": Access("get", *ON_TABLE),
    "get missing": Access("get", *ON_TABLE),
    "put": Access("create", *ON_TABLE),
    "verify": Access("get", *ON_TABLE),
    "inventory": Access("list", *ON_ALL),
    "status": Access("list", *ON_ALL),
    "manifests": Access("list", *ON_ALL),
    "delete": Access("delete", *ON_TABLE),
    "collect": Access("delete", *ON_TABLE),
    "recycle": Access("delete", *ON_TABLE),
    "restore": Access("delete", *ON_TABLE),
    "recycled": Access("list", *ON_ALL),
    "files": Access("get", *ON_TABLE),
    "damage": Access("get", *ON_TABLE),
}
"""What each request needs."""
RIGHTS_HERE = {**RIGHTS, "verify": Access("list", *ON_ALL)}
"""The same with a token that only this node's agent accepts, as the operator's are."""


@pytest.fixture
def loaded(agent: AgentThread) -> AgentThread:
    """An agent that holds a table in each of two namespaces."""
    with agent.client() as client:
        for table in (TABLE, OTHER):
            client.put_file(*table.path, data_path(0), b"content")
    return agent


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_an_unknown_token_gets_401(loaded: AgentThread, call: Call) -> None:
    """Every request gets the same answer, whether the file exists or not."""
    with loaded.client("forged") as client, pytest.raises(Unauthorized) as caught:
        call(client)
    assert caught.value.reason == "Unauthorized"
    assert TABLE.path.directory not in caught.value.message
    assert on_disk(loaded.settings.data_root, TABLE.path, data_path(0)).read_bytes() == b"content"


@pytest.mark.parametrize("header", [{}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer "}])
@pytest.mark.parametrize("target", ["/v1/status", "/nothing", "/v1/files/shop/orders-0a1b2c3d/../x"])
def test_no_token_gets_401(loaded: AgentThread, header: dict[str, str], target: str) -> None:
    """Without a token a caller does not learn which requests exist."""
    response = loaded.raw_request("GET", target, {"Authorization": ""} | header)
    assert (response.status, response.reason) == (401, "Unauthorized")
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_token_that_is_not_ascii_gets_401(
    loaded: AgentThread, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    """For reads and for other requests; the log is not filled with tracebacks."""
    monkeypatch.setattr(loaded.authorizer, "identify", CachedAuthorizer(FakeAuthorizer()).identify)
    target = f"/v1/files/{TABLE.path.namespace}/{TABLE.path.directory}/{data_path(0)}"
    response = loaded.raw_request(method, target, {"Authorization": "Bearer \xff", "Content-Length": "0"})
    assert (response.status, response.reason) == (401, "Unauthorized")
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("name", CALLS)
def test_each_request_needs_its_right(loaded: AgentThread, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """On that table, or on all tables where the answer reveals all, or dropped ones."""
    asked: list[Access] = []

    async def refuse(identity: Identity, access: Access) -> bool:
        assert identity == ADMIN
        asked.append(access)
        return False

    monkeypatch.setattr(loaded.authorizer, "may", refuse)
    with loaded.client() as client, pytest.raises(Forbidden):
        CALLS[name](client)
    assert asked == [RIGHTS_HERE[name]]


def test_the_operator_verifies_and_reads_nothing(loaded: AgentThread) -> None:
    """`colocation adopt` needs to know what a lost table's folder holds; the operator may list, and get no file."""
    loaded.authorizer.callers["token-of-operator"] = Identity("operator", is_for_this_node=True)
    loaded.authorizer.rights["operator"] = {("list", "")}
    with loaded.client() as loader:
        loader.put_manifest(*TABLE.path, TABLE.stored, TABLE.manifest)
    with loaded.client("token-of-operator") as client:
        assert client.verify(*TABLE.path, TABLE.manifest).buckets[0].state == "complete"
        with pytest.raises(Forbidden):
            client.get_file(*TABLE.path, data_path(0))
    loaded.authorizer.callers["token-of-operator"] = Identity("operator")
    with loaded.client("token-of-operator") as client, pytest.raises(Forbidden):
        client.verify(*TABLE.path, TABLE.manifest)


def test_rights_in_one_namespace_end_there(loaded: AgentThread) -> None:
    """A reader of ``shop`` reads there, and gets the same 403 for existing and missing files in ``bank``."""
    with loaded.client(SHOP_READER_TOKEN) as client:
        with client.get_file(*TABLE.path, data_path(0)) as stream:
            assert stream.read() == b"content"
        messages = set()
        for path in (data_path(0), data_path(1)):
            with pytest.raises(Forbidden) as caught:
                client.get_file(*OTHER.path, path)
            messages.add(caught.value.message)
    assert len(messages) == 1


@pytest.mark.parametrize(
    "call", [pytest.param(CALLS[name], id=name) for name in CALLS if RIGHTS[name].verb != "get"]
)
def test_a_reader_changes_nothing_and_lists_nothing(loaded: AgentThread, call: Call) -> None:
    """The right to get files includes none to write, delete or list other tables."""
    with loaded.client(SHOP_READER_TOKEN) as client, pytest.raises(Forbidden):
        call(client)
    assert on_disk(loaded.settings.data_root, TABLE.path, data_path(0)).read_bytes() == b"content"
    assert not on_disk(loaded.settings.data_root, TABLE.path, data_path(1)).exists()


def test_without_the_api_server_all_requests_get_503(loaded: AgentThread) -> None:
    """With its reason; access is never granted, and never refused by a wrong 401."""
    loaded.authorizer.available = False
    with loaded.client() as client, pytest.raises(AgentError) as caught:
        client.status()
    assert (caught.value.status, caught.value.reason) == (503, "AuthenticationUnavailable")


def test_unknown_requests_get_404(loaded: AgentThread) -> None:
    """A caller with a token learns that the request is unknown."""
    for method, target in (("GET", "/v2/x"), ("POST", "/v1/status"), ("PUT", "/v1/tables/shop/orders-0a1b2c3d")):
        response = loaded.raw_request(method, target, {"Authorization": f"Bearer {ADMIN_TOKEN}"})
        assert (response.status, response.reason) == (404, "NoSuchRequest")


def test_a_refused_upload_of_a_large_file_gets_its_answer(loaded: AgentThread) -> None:
    """A caller who still sends when the answer comes gets the answer, not a broken connection."""
    with loaded.client(SHOP_READER_TOKEN) as client, pytest.raises(Forbidden):
        client.put_file(*TABLE.path, data_path(1), bytes(64 << 20))


GENERAL_TOKEN, CLONE_TOKEN = "token-of-old-operator", "token-of-clone"
OPERATORS_CALLS = [name for name in CALLS if RIGHTS[name].verb in ("list", "delete")]


@pytest.mark.parametrize("call", [pytest.param(CALLS[name], id=name) for name in OPERATORS_CALLS])
def test_operator_requests_need_a_token_for_this_node(loaded: AgentThread, call: Call) -> None:
    """A general token could be replayed at every node, so even all rights do not help."""
    loaded.authorizer.callers[GENERAL_TOKEN] = Identity("admin")
    with loaded.client(GENERAL_TOKEN) as client, pytest.raises(Forbidden) as caught:
        call(client)
    assert caught.value.reason == "WrongAudience"
    assert "colocation.dev/node-1" in caught.value.message
    assert on_disk(loaded.settings.data_root, TABLE.path, data_path(0)).read_bytes() == b"content"


@pytest.mark.parametrize("right", [True, False], ids=["with the right", "without"])
def test_tenants_use_general_tokens(loaded: AgentThread, right: bool) -> None:
    """Spark reads and loads on all nodes with one token."""
    loaded.authorizer.callers[GENERAL_TOKEN] = Identity("admin" if right else "shop-reader")
    with loaded.client(GENERAL_TOKEN) as client:
        with client.get_file(*TABLE.path, data_path(0)) as stream:
            assert stream.read() == b"content"
        if right:
            assert client.put_file(*TABLE.path, data_path(1), b"new").bytes == 3


@pytest.fixture
def unasked(tmp_path: Path, pki: Pki) -> Iterator[AgentThread]:
    """An agent that knows the account of clone Jobs, and that no operator has asked yet."""
    agent = AgentThread(tmp_path / "root", pki, FakeAuthorizer()).start(clone_account="clone")
    agent.authorizer.rights["clone"] = {("get", "shop"), ("get", "bank")}
    yield agent
    agent.stop()


@pytest.fixture
def clones(unasked: AgentThread) -> AgentThread:
    """An agent that was asked about a table of a group, and has files of two of its buckets and of another table."""
    agent = unasked
    with agent.client() as client:
        for table in (TABLE, OTHER):
            for bucket in (0, 1):
                client.put_file(*table.path, data_path(bucket), b"content")
        asked = AskedTable(reference=TableReference(namespace="shop", directory=TABLE.path.directory),
                           uid="0a1b2c3d-table", group_uid="77777777-group")  # fmt: skip
        client.inventory(InventoryRequest(session="one", number=1, changed=(asked,)))
    return agent


def clone_of(name: str) -> Identity:
    """The clones' account, with a token bound to the pod of this name."""
    return Identity("clone", extra=(("authentication.kubernetes.io/pod-name", (name,)),))


@pytest.mark.parametrize("uid", ["77777777", "0a1b2c3d"], ids=["of its group", "on its way to another group"])
def test_a_clone_reads_the_files_of_its_job(clones: AgentThread, uid: str) -> None:
    """Its bucket, alone or with others, as its pod is named: by the Job's name and the Job controller's suffix."""
    clones.authorizer.callers[CLONE_TOKEN] = clone_of(f"{clone_job_name(f'{uid}-aaaa', 1, 'node-2')}-x7k2p")
    with clones.client(CLONE_TOKEN) as client:
        with client.get_file(*TABLE.path, data_path(1)) as stream:
            assert stream.read() == b"content"
        assert [frame.content for frame in client.get_files(*TABLE.path, (data_path(1),))] == [b"content"]


def test_earlier_reads_grant_a_clone_nothing(clones: AgentThread) -> None:
    """Neither its own reads of the table nor others' grant another bucket."""
    clones.authorizer.callers[CLONE_TOKEN] = clone_of("clone-77777777-b00001-deadbeef-x7k2p")
    with clones.client() as admin, clones.client(CLONE_TOKEN) as client:
        admin.get_file(*TABLE.path, data_path(0)).read()
        client.get_file(*TABLE.path, data_path(1)).read()
        with pytest.raises(Forbidden):
            client.get_file(*TABLE.path, data_path(0))


@pytest.mark.parametrize(
    ("pod", "call"),
    [
        pytest.param("clone-77777777-b00001-deadbeef-x7k2p", lambda one: one.get_file(*TABLE.path, data_path(0)),
                     id="another bucket"),
        pytest.param("clone-77777777-b00001-deadbeef-x7k2p",
                     lambda one: list(one.get_files(*TABLE.path, (data_path(1), data_path(0)))), id="among others"),
        pytest.param("clone-77777777-b00001-deadbeef-x7k2p", lambda one: one.head_file(*TABLE.path, data_path(0)),
                     id="its size"),
        pytest.param("clone-77777777-b00001-deadbeef-x7k2p", lambda one: one.get_file(*OTHER.path, data_path(1)),
                     id="a table of another group"),
        pytest.param("clone-77777777-b00001-deadbeef-x7k2p",
                     lambda one: one.verify(*OTHER.path, OTHER.manifest), id="verification of it"),
        pytest.param("clone-88888888-b00001-deadbeef-x7k2p", lambda one: one.get_file(*TABLE.path, data_path(1)),
                     id="another group's Job"),
        pytest.param("other-77777777-b00001-deadbeef-x7k2p", lambda one: one.get_file(*TABLE.path, data_path(1)),
                     id="no Job's pod"),
    ],
)  # fmt: skip
def test_a_clone_reads_nothing_else(clones: AgentThread, pod: str, call: Call) -> None:
    """Its account may get all tables; the agent limits each token to its Job."""
    clones.authorizer.callers[CLONE_TOKEN] = clone_of(pod)
    with clones.client(CLONE_TOKEN) as client, pytest.raises(Forbidden):
        call(client)


def test_a_clone_token_without_a_pod_reads_nothing(clones: AgentThread) -> None:
    """Kubelets get only tokens bound to their own pods."""
    clones.authorizer.callers[CLONE_TOKEN] = Identity("clone")
    with clones.client(CLONE_TOKEN) as client, pytest.raises(Forbidden, match="bound to a clone Job's pod"):
        client.get_file(*TABLE.path, data_path(1))


def test_a_clone_waits_for_an_agent_that_was_not_asked_yet(unasked: AgentThread) -> None:
    """A new agent does not know the tables' groups: 503, to be retried."""
    unasked.authorizer.callers[CLONE_TOKEN] = clone_of("clone-77777777-b00001-deadbeef-x7k2p")
    with unasked.client(CLONE_TOKEN) as client, pytest.raises(AgentError) as caught:
        client.get_file(*TABLE.path, data_path(1))
    assert (caught.value.status, caught.value.reason, caught.value.may_pass) == (503, "NotAskedYet", True)


@pytest.mark.parametrize("target", ["/v1/status", f"/v1/files/{TABLE.path}/{data_path(0)}"])
def test_the_peer_is_the_address_of_the_connection(loaded: AgentThread, target: str) -> None:
    """Forged tokens are counted for it; headers of the caller are ignored."""
    loaded.authorizer.peers.clear()
    headers = dict.fromkeys(("Colocation-Front-Peer", "X-Forwarded-For", "X-Real-IP", "Forwarded"), "192.0.2.7")
    assert loaded.raw_request("GET", target, headers).status == 200
    assert loaded.authorizer.peers == {"127.0.0.1"}


def test_too_many_reviews_get_429_with_retry_after(loaded: AgentThread) -> None:
    """Clients treat 429 as temporary."""
    loaded.authorizer.too_many = True
    answer = loaded.raw_request("GET", "/v1/status")
    assert (answer.status, answer.reason) == (429, "TooManyReviews")
    assert int(answer.headers["Retry-After"]) > 0
