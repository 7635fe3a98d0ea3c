"""Lists in pages: whole, in order, and begun again when the API server forgets their beginning."""

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio import client

from colocation.kube.api import PAGE_OBJECTS, TABLES, Api, ApiError, Expired, JsonObject, NotFound, _Collected

Query = list[tuple[str, str]]


class PagedApi(Api):
    """An API server of ``total`` objects; the first ``expiring`` requests for a second page come too late."""

    def __init__(self, total: int, expiring: int = 0) -> None:
        self.total, self.expiring = total, expiring
        self.requests: list[dict[str, str]] = []

    async def _request(
        self, method: str, path: str, body: JsonObject | None = None, content_type: str = "", query: Query | None = None
    ) -> JsonObject:
        asked = dict(query or [])
        self.requests.append(asked)
        start, limit = int(asked.get("continue", 0)), int(asked.get("limit", self.total))
        if start and self.expiring:
            self.expiring -= 1
            raise Expired(410, "the provided continue parameter is too old")
        end = min(start + limit, self.total)
        more = {"continue": str(end)} if end < self.total else {}
        return {"items": [{"n": n} for n in range(start, end)], "metadata": {"resourceVersion": "7", **more}}


@pytest.mark.parametrize("total", [0, 1, PAGE_OBJECTS, PAGE_OBJECTS + 1, 3 * PAGE_OBJECTS])
@pytest.mark.parametrize("expiring", [0, 1, 2, 3])
async def test_list_is_whole_however_many_pages_it_takes(total: int, expiring: int) -> None:
    """20,000 tables in one answer would hold up the API server and this process."""
    api = PagedApi(total, expiring)
    objects, version = await api.list_all(TABLES, labels="a=b")
    assert ([one["n"] for one in objects], version) == (list(range(total)), 7)
    assert all(asked["labelSelector"] == "a=b" for asked in api.requests)
    assert all("limit" in asked for asked in api.requests[:-1])


async def test_a_page_of_large_objects_leaves_room_for_others() -> None:
    """The Lease is renewed on the same loop: 500 tables of 2,000 columns held it up for 44 s."""
    turns = 0

    class Slow(_Collected):
        turns_before: list[int] = []

        def take(self, body: JsonObject) -> None:
            super().take(body)
            self.turns_before.append(turns)

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    waiting = asyncio.create_task(others())
    listing = Slow()
    await PagedApi(PAGE_OBJECTS).list_into(listing, TABLES)
    waiting.cancel()
    assert len(set(listing.turns_before)) == PAGE_OBJECTS


@pytest.mark.parametrize("answer", [{}, [], {"items": None}, {"items": [], "metadata": None}, {"items": 3}])
async def test_answer_that_is_no_list_is_an_error_of_the_cluster(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy in between may answer anything; the pass fails, and not the operator."""

    async def request(*_: Any, **__: Any) -> Any:
        return answer

    api = PagedApi(0)
    monkeypatch.setattr(api, "_request", request)
    with pytest.raises(ApiError, match="is not a list"):
        await api.list_all(TABLES)


@pytest.mark.parametrize(("status", "is_ready"), [(200, True), (403, False), (500, False)])
async def test_an_api_server_reports_whether_it_is_ready(status: int, is_ready: bool) -> None:
    """In plain text. It refuses to say so as long as it has not read the role for it."""

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text="ok", status=status)

    application = web.Application()
    application.router.add_get("/readyz", readyz)
    async with TestServer(application) as server:
        api = Api(client.ApiClient(client.Configuration(host=str(server.make_url("")).rstrip("/"))))
        with contextlib.nullcontext() if is_ready else pytest.raises(ApiError, match=f"{status} GET /readyz"):
            await api.check_ready()
        await api.close()


@pytest.mark.parametrize("status", [200, 500])
async def test_time_is_what_the_api_server_reports(status: int) -> None:
    """In any answer, a refusal included."""

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Date": "Sat, 21 Nov 2026 12:00:00 GMT"})

    application = web.Application()
    application.router.add_get("/readyz", readyz)
    async with TestServer(application) as server:
        api = Api(client.ApiClient(client.Configuration(host=str(server.make_url("")).rstrip("/"))))
        with contextlib.suppress(ApiError):
            await api.check_ready()
        await api.close()
    assert timedelta() <= api.clock.now() - datetime(2026, 11, 21, 12, tzinfo=UTC) < timedelta(minutes=1)


async def test_failed_requests_are_counted_by_verb_and_status() -> None:
    """0 is no answer."""
    async with TestServer(web.Application()) as server:
        api = Api(client.ApiClient(client.Configuration(host=str(server.make_url("")).rstrip("/"))))
        for _ in range(2):
            with pytest.raises(NotFound):
                await api.get(TABLES, "shop", "orders")
    with pytest.raises(ApiError, match="no answer from the API server: Cannot connect to host"):
        await api.patch(TABLES, "shop", "orders", {})
    await api.close()
    assert dict(api.failures) == {("GET", 404): 2, ("PATCH", 0): 1}
