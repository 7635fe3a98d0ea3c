"""Who may do what: no token, no right and no API server tell nothing and change nothing."""

from collections.abc import Callable

import pytest

from colocation.agent.authorizer import Access, Identity
from colocation.agentclient import AgentClient, AgentError, Forbidden, Unauthorized
from colocation.model.agent import DeletionProof, InventoryRequest
from tests.unit.storage.tables import data_path, make_table, on_disk

from .harness import ADMIN_TOKEN, SHOP_READER_TOKEN, AgentThread

TABLE = make_table({data_path(0): b"content"})
PROOF = DeletionProof(instance="", not_after_seconds=0, term=0, table_uid="")
OTHER = make_table({data_path(0): b"content"}, namespace="bank")

Call = Callable[[AgentClient], object]

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


@pytest.fixture
def loaded(agent: AgentThread) -> AgentThread:
    """An agent that holds a table in each of two namespaces."""
    with agent.client() as client:
        for table in (TABLE, OTHER):
            client.put_file(*table.path, data_path(0), b"content")
    return agent


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_an_unknown_token_gets_401(loaded: AgentThread, call: Call) -> None:
    """Every request, and one answer for all, whether the file exists or not."""
    with loaded.client("forged") as client, pytest.raises(Unauthorized) as caught:
        call(client)
    assert caught.value.reason == "Unauthorized"
    assert TABLE.path.directory not in caught.value.message
    assert on_disk(loaded.settings.data_root, TABLE.path, data_path(0)).read_bytes() == b"content"


@pytest.mark.parametrize("header", [{}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer "}])
@pytest.mark.parametrize("target", ["/v1/status", "/nothing", "/v1/files/shop/orders-0a1b2c3d/../x"])
def test_no_token_gets_401(loaded: AgentThread, header: dict[str, str], target: str) -> None:
    """Without a token nobody learns even which requests there are."""
    response = loaded.raw_request("GET", target, {"Authorization": ""} | header)
    assert (response.status, response.reason) == (401, "Unauthorized")
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("name", CALLS)
def test_each_request_needs_its_right(loaded: AgentThread, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """On that table, or on all of them where the answer tells of all, or of ones that are gone."""
    asked: list[Access] = []

    async def refuse(identity: Identity, access: Access) -> bool:
        assert identity == Identity("admin")
        asked.append(access)
        return False

    monkeypatch.setattr(loaded.authorizer, "may", refuse)
    with loaded.client() as client, pytest.raises(Forbidden):
        CALLS[name](client)
    assert asked == [RIGHTS[name]]


def test_rights_in_one_namespace_end_there(loaded: AgentThread) -> None:
    """A reader of ``shop`` reads there, and gets the same 403 for what exists in ``bank`` and what does not."""
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
    """The right to get files is none to write, delete or see what other tables there are."""
    with loaded.client(SHOP_READER_TOKEN) as client, pytest.raises(Forbidden):
        call(client)
    assert on_disk(loaded.settings.data_root, TABLE.path, data_path(0)).read_bytes() == b"content"
    assert not on_disk(loaded.settings.data_root, TABLE.path, data_path(1)).exists()


def test_without_the_api_server_nobody_is_let_in(loaded: AgentThread) -> None:
    """503 with its reason; never an open door, and never a wrong 401."""
    loaded.authorizer.available = False
    with loaded.client() as client, pytest.raises(AgentError) as caught:
        client.status()
    assert (caught.value.status, caught.value.reason) == (503, "AuthenticationUnavailable")


def test_requests_that_do_not_exist(loaded: AgentThread) -> None:
    """A caller with a token learns that the request is unknown."""
    for method, target in (("GET", "/v2/x"), ("POST", "/v1/status"), ("DELETE", "/v1/tables/shop/orders-0a1b2c3d")):
        response = loaded.raw_request(method, target, {"Authorization": f"Bearer {ADMIN_TOKEN}"})
        assert (response.status, response.reason) == (404, "NoSuchRequest")


def test_a_refused_upload_of_a_large_file_says_why(loaded: AgentThread) -> None:
    """The caller who still sends when the answer comes gets the answer, not a broken connection."""
    with loaded.client(SHOP_READER_TOKEN) as client, pytest.raises(Forbidden):
        client.put_file(*TABLE.path, data_path(1), bytes(64 << 20))
