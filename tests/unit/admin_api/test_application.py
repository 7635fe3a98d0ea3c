"""The admin API's requests against a fake API server: order of checks, conflicts, limits, what is reported."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient

from colocation.admin_api import application as module
from colocation.admin_api.application import AdminApi
from colocation.admin_api.changes import MAX_ATTEMPTS, GroupChanges
from colocation.admin_api.last_pass import Passes
from colocation.common.review_bounds import PEER_BOUNDS
from colocation.model.base import MAX_MAP_BYTES
from colocation.reconcile.actions import PostEvent
from tests.unit.state.objects import NOW

from .scenes import FakeApi, group_body, last_pass

ID = "db_id=3f2a91bc&group_id=%2010008"
"""With the space that stands in Doris' example."""
NO_DATABASE = "is no id of a database: allowed: 8 hexadecimal digits"
HEADERS = {"Authorization": "bearer token"}
MARK = "alice, since 2026-11-21T12:00:00Z"
ANNOTATION = "colocation.dev/marked-unstable"


class Scene:
    """An admin API whose operator sees every change at once. ``events``: what was posted."""

    def __init__(self) -> None:
        self.api = FakeApi(group_body())
        self.passes = Passes()
        self.events: list[PostEvent] = []
        self.sees_changes = True
        self.client: TestClient[Any, Any]

    def application(self) -> web.Application:
        """The admin API."""
        changes = GroupChanges(self.api, self._post, lambda: NOW, self._take)  # type: ignore[arg-type]
        return AdminApi(self.api, self.passes, changes).application()  # type: ignore[arg-type]

    async def ask(self, method: str, path: str, data: bytes | None = None) -> tuple[int, Any]:
        """(status, JSON) of an admin's request."""
        async with self.client.request(method, path, headers=HEADERS, data=data) as answer:
            return answer.status, await answer.json()

    async def _post(self, event: PostEvent) -> None:
        self.events.append(event)

    def _take(self, body: dict[str, Any]) -> None:
        if self.sees_changes:
            self.passes.latest = last_pass(body)


@pytest.fixture
async def scene(aiohttp_client: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Scene:
    """One group, ``sales``."""
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.05)
    one = Scene()
    await one.passes.show(last_pass(group_body()))
    one.client = await aiohttp_client(one.application())
    return one


async def test_mark_names_who_and_since_when(scene: Scene) -> None:
    """By a patch with the object's version as precondition; a second mark changes nothing."""
    assert (await scene.ask("DELETE", f"/api/colocate/group_stable?{ID}"))[0] == 200
    assert (await scene.ask("DELETE", f"/api/colocate/group_stable?{ID}"))[0] == 200
    assert scene.api.patches == [{"metadata": {"annotations": {ANNOTATION: MARK}, "resourceVersion": "7"}}]
    [event] = scene.events
    assert (event.reason, event.message) == ("MarkedUnstable", "by alice; until POST /api/colocate/group_stable")


async def test_forged_tokens_cost_a_bounded_number_of_questions(scene: Scene) -> None:
    """Anyone who sends them is asked to come back later; so is, from that address, anyone who calls rightly."""
    scene.api.refuses_tokens = True
    statuses = [(await scene.ask("GET", "/api/colocate"))[0] for _ in range(100)]
    assert (statuses[0], statuses[-1]) == (401, 429)
    assert scene.api.token_reviews <= 4 * (PEER_BOUNDS.refusals + 2)  # each is asked about with two audiences, twice
    assert (await scene.ask("GET", "/api/colocate"))[1]["error"] == "TooManyReviews"


async def test_a_refusal_counts_once_the_api_server_has_read_the_roles(scene: Scene) -> None:
    """Right after its start it knows no rights: callers are asked to try again, not that they may not."""
    scene.api.starting = 3
    answers = [await scene.ask("GET", "/api/colocate") for _ in range(3)]
    assert [status for status, _ in answers] == [503, 503, 200]
    assert answers[0][1]["error"] == "ApiServerUnavailable"


async def test_mark_is_taken_back_once(scene: Scene) -> None:
    """POST on a group that no one marked writes nothing and is fine."""
    assert (await scene.ask("POST", f"/api/colocate/group_stable?{ID}"))[0] == 200
    assert scene.api.patches == []
    await scene.ask("DELETE", f"/api/colocate/group_stable?{ID}")
    assert (await scene.ask("POST", f"/api/colocate/group_stable?{ID}"))[0] == 200
    assert scene.api.patches[1]["metadata"]["annotations"] == {ANNOTATION: None}


@pytest.mark.parametrize(
    ("method", "path", "wrong"),
    [
        ("GET", "colocate?db_id=shop", f"db_id=shop {NO_DATABASE}"),
        ("GET", "colocate?db_id=3f2a91bc.10008", f"db_id=3f2a91bc.10008 {NO_DATABASE}"),
        ("DELETE", "colocate/group_stable?db_id=shop&group_id=10008", f"db_id=shop {NO_DATABASE}"),
        ("POST", "colocate/group_stable?db_id=3f2a91bc&group_id=sales",
         "group_id=sales is no id of a group: allowed: a number"),
    ],
)  # fmt: skip
async def test_names_are_no_ids(scene: Scene, method: str, path: str, wrong: str) -> None:
    """Rather than of groups that there are none, the answer is of what was given, and where ids are."""
    status, answer = await scene.ask(method, f"/api/{path}")
    where = "a group's status.groupId is <db_id>.<group_id>: kubectl get colocationgroup GROUP -n NAMESPACE -o yaml"
    assert (status, answer) == (400, {"status": "FAILED", "error": "InvalidParameter", "message": f"{wrong}; {where}"})
    assert scene.api.patches == []


async def test_a_database_without_groups_is_not_an_empty_one(scene: Scene) -> None:
    """An id that was mistyped."""
    status, answer = await scene.ask("GET", "/api/colocate?db_id=3f2a91bd")
    assert (status, answer["error"]) == (404, "NoSuchGroup")
    assert "GET /api/colocate lists" in answer["message"]
    assert (await scene.ask("GET", "/api/colocate?db_id=3f2a91bc"))[0] == 200


async def test_a_token_that_is_not_ascii_is_none(scene: Scene) -> None:
    """401, and the API server is not asked."""
    async with scene.client.get("/api/colocate", headers={"Authorization": "Bearer tokän"}) as answer:
        assert (answer.status, scene.api.token_reviews) == (401, 0)


async def test_sequence_becomes_the_groups(scene: Scene) -> None:
    """Written to spec.bucketSequence, once."""
    rows = b'[["node-1", "node-3"], ["node-2", "node-3"]]'
    for _ in range(2):
        status, answer = await scene.ask("POST", f"/api/colocate/bucketseq?{ID}", rows)
        assert (status, answer) == (200, {"status": "OK", "stable": True, "reason": "Reason", "message": ""})
    [patch] = scene.api.patches
    assert patch["spec"] == {"bucketSequence": (("node-1", "node-3"), ("node-2", "node-3"))}


@pytest.mark.parametrize(("conflicts", "status"), [(MAX_ATTEMPTS - 1, 200), (MAX_ATTEMPTS, 409)])
async def test_others_write_at_the_same_time(scene: Scene, conflicts: int, status: int) -> None:
    """The group is read again and the change is tried again, some times."""
    scene.api.conflicts = conflicts
    assert (await scene.ask("DELETE", f"/api/colocate/group_stable?{ID}"))[0] == status


async def test_group_that_has_just_gone(scene: Scene) -> None:
    """Deleted, or made again under its name: 404, and the new one is left alone."""
    assert scene.api.body is not None
    scene.api.body["metadata"]["uid"] = "another"
    status, answer = await scene.ask("DELETE", f"/api/colocate/group_stable?{ID}")
    assert (status, answer["error"], scene.api.patches) == (404, "NoSuchGroup", [])
    scene.api.body = None
    assert (await scene.ask("DELETE", f"/api/colocate/group_stable?{ID}"))[0] == 404


async def test_change_that_no_pass_has_seen_yet_is_done_all_the_same(scene: Scene) -> None:
    """The answer does not tell a state that may be old."""
    scene.sees_changes = False
    assert await scene.ask("DELETE", f"/api/colocate/group_stable?{ID}") == (200, {"status": "OK"})
    assert len(scene.api.patches) == 1


async def test_body_that_no_object_could_hold(scene: Scene) -> None:
    """413, before it is parsed."""
    status, answer = await scene.ask("POST", f"/api/colocate/bucketseq?{ID}", b" " * (MAX_MAP_BYTES + 1))
    assert (status, answer["error"]) == (413, "BodyTooLarge")


async def test_before_the_first_pass(scene: Scene) -> None:
    """503: nothing is known yet."""
    scene.passes.latest = None
    for method, path in (("GET", "/api/colocate"), ("POST", f"/api/colocate/group_stable?{ID}")):
        status, answer = await scene.ask(method, path)
        assert (status, answer["error"]) == (503, "NotReady")


async def test_description_needs_no_token(scene: Scene) -> None:
    """It tells of the API alone."""
    async with scene.client.get("/api/openapi.json") as answer:
        assert (await answer.json())["openapi"] == "3.1.0"


async def test_any_request_is_answered(scene: Scene) -> None:
    """No failure of ours."""
    methods = ("GET", "POST", "DELETE", "PUT", "HEAD", "BREW")
    paths = ("colocate", "colocate/group_stable", "colocate/bucketseq", "", "%2e%2e", "%ff")
    queries = ("", ID, "db_id=%ff&group_id=%00", "db_id=3f2a91bc&db_id=x&group_id=10008", "&&=&")
    for method, path, query in itertools.product(methods, paths, queries):
        async with scene.client.request(method, f"/api/{path}?{query}", headers=HEADERS) as answer:
            assert answer.status < 500, (method, path, query, await answer.text())


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"[" * 200_000, b"1" * 5000, b"[[" + b"1" * 5000 + b"]]", b"NaN", b"[[NaN]]", b'[["\\ud800"]]',
     b'[["node-1", null]]', b'[["node-1", "node-2"], {}]', b"{}", b'"x"', b"[]", b"[[], []]", b"[[[]]]", b"[[true]]"],
    ids=lambda body: repr(body[:12]),
)  # fmt: skip
async def test_any_sequence_is_answered(scene: Scene, body: bytes) -> None:
    """With what is wrong with it; nothing is written."""
    status, answer = await scene.ask("POST", f"/api/colocate/bucketseq?{ID}", body)
    assert (status, bool(answer["error"] and answer["message"])) == (400, True), answer
    assert not scene.api.patches
