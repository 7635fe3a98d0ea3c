"""The requests of the admin API: who calls, what they ask for, whether they may, and then the work, in this order."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from ..common.review_bounds import PEER_BOUNDS, Askers, TooManyReviews
from ..kube.api import Api, ApiError
from ..kube.reviews import Caller
from ..model.base import MAX_MAP_BYTES
from ..state.objects import ObservedGroup
from .access import caller_of, require
from .answers import answer, refused
from .changes import GroupChanges
from .errors import Refusal, refusal_of
from .ids import check_ids
from .last_pass import LastPass, Passes
from .meta import colocate_meta
from .openapi import document
from .sequence import check_sequence, parsed_sequence

WAIT_SECONDS = 5.0
"""How long an answer waits for the pass that sees the change; it is made in any case."""

MAX_REVIEWS_AT_ONCE = 8
RETRY_AFTER_SECONDS = 2

Handler = Callable[[web.Request, Caller], Awaitable[web.Response]]

logger = logging.getLogger(__name__)


class AdminApi:
    """Serves Doris' and StarRocks' paths.

    Args:
        api: the API server, asked about callers.
        passes: what the operator's passes saw.
        changes: writes the groups.
    """

    def __init__(self, api: Api, passes: Passes, changes: GroupChanges) -> None:
        self._api = api
        self._passes = passes
        self._changes = changes
        self._peers = Askers("address", PEER_BOUNDS, asyncio.Semaphore(MAX_REVIEWS_AT_ONCE), time.monotonic)
        self._document = document()
        self._handlers: dict[str, dict[str, Handler]] = {
            "/api/colocate": {"GET": self._show},
            "/api/colocate/group_stable": {"POST": self._mark_stable, "DELETE": self._mark_unstable},
            "/api/colocate/bucketseq": {"POST": self._set_sequence},
        }

    def application(self) -> web.Application:
        """The aiohttp application."""
        application = web.Application(client_max_size=MAX_MAP_BYTES)
        application.router.add_get("/api/openapi.json", self._describe)
        application.router.add_route("*", "/{anything:.*}", self._serve)
        return application

    async def _describe(self, request: web.Request) -> web.Response:
        """Without a token: it tells of the API, not of the cluster."""
        return answer(self._document)

    async def _serve(self, request: web.Request) -> web.Response:
        try:
            caller = await self._caller(request)
            return await self._handler(request)(request, caller)
        except Refusal as refusal:
            return refused(refusal)
        except ApiError as error:
            logger.warning("%s %s: %s", request.method, request.path, error)
            return refused(refusal_of(error))

    async def _caller(self, request: web.Request) -> Caller:
        """Who calls; forged tokens cost the API server a bounded number of questions."""
        try:
            async with self._peers.turn(request.remote or "") as peer:
                try:
                    return await caller_of(self._api, request.headers.get("Authorization", ""))
                except Refusal:
                    peer.refused += 1
                    raise
        except TooManyReviews as error:
            raise Refusal(429, "TooManyReviews", str(error), {"Retry-After": str(RETRY_AFTER_SECONDS)}) from error

    def _handler(self, request: web.Request) -> Handler:
        methods = self._handlers.get(request.path)
        if methods is None:
            paths = ", ".join(self._handlers)
            raise Refusal(404, "NoSuchRequest", f"{request.path} is not a path of this API; its paths: {paths}")
        handler = methods.get(request.method)
        if handler is None:
            allowed = ", ".join(methods)
            message = f"{request.method} {request.path} is not allowed; allowed: {allowed}"
            raise Refusal(405, "MethodNotAllowed", message, {"Allow": allowed})
        return handler

    async def _show(self, request: web.Request, caller: Caller) -> web.Response:
        """All groups, for those who may see all; those of one database with ``db_id``."""
        last_pass = self._last_pass()
        db_id = request.query.get("db_id", "").strip()
        if db_id:
            check_ids(db_id)
        namespaces = {
            group.identity.namespace
            for group in last_pass.observation.groups
            if db_id and (group.status.group_id or "").startswith(f"{db_id}.")
        }
        for namespace in sorted(namespaces) or [""]:
            await require(self._api, caller, "get", namespace)
        if db_id and not namespaces:
            message = f"no group has the db_id {db_id}; GET /api/colocate lists the groups that there are"
            raise Refusal(404, "NoSuchGroup", message)
        meta = colocate_meta(last_pass, namespaces if db_id else None)
        return answer({"colocate_meta": meta, "status": "OK"})

    async def _mark_unstable(self, request: web.Request, caller: Caller) -> web.Response:
        group = await self._group(request, caller)
        version = await self._changes.mark_unstable(group.identity, caller.user)
        return await self._done(group, version)

    async def _mark_stable(self, request: web.Request, caller: Caller) -> web.Response:
        group = await self._group(request, caller)
        version = await self._changes.remove_mark(group.identity, caller.user)
        return await self._done(group, version)

    async def _set_sequence(self, request: web.Request, caller: Caller) -> web.Response:
        group = await self._group(request, caller)
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            message = f"the body is larger than the {MAX_MAP_BYTES} bytes that a group's map may have"
            raise Refusal(413, "BodyTooLarge", message) from error
        sequence = parsed_sequence(body)
        check_sequence(self._last_pass(), *group.key, sequence)
        version = await self._changes.set_sequence(group.identity, sequence, caller.user)
        return await self._done(group, version)

    async def _group(self, request: web.Request, caller: Caller) -> ObservedGroup:
        """The group that a request names, for those who may change it.

        For a group that does not exist the right on all groups is needed to learn that it does not exist.
        """
        given = {name: request.query.get(name, "").strip() for name in ("db_id", "group_id")}
        missing = [name for name, value in given.items() if not value]
        if missing:
            message = f"{' and '.join(missing)} missing: give both parts of the group's status.groupId, "
            raise Refusal(400, "MissingParameter", message + "<db_id>.<group_id>, as ?db_id=…&group_id=…")
        check_ids(**given)
        group_id = f"{given['db_id']}.{given['group_id']}"
        group = self._last_pass().group_of_id(group_id)
        await require(self._api, caller, "update", *(group.key if group else ("", "")))
        if group is None:
            message = f"the group {group_id} does not exist; GET /api/colocate lists those that do"
            raise Refusal(404, "NoSuchGroup", message)
        return group

    def _last_pass(self) -> LastPass:
        if self._passes.latest is None:
            raise Refusal(503, "NotReady", "the operator has not made its first pass yet; try again")
        return self._passes.latest

    async def _done(self, group: ObservedGroup, version: int) -> web.Response:
        """The answer to a change: with the group's state, when a pass has seen the change in time."""

        def shows_change(last_pass: LastPass) -> bool:
            found = last_pass.group_of_uid(group.identity.uid)
            return found is None or int(found.identity.resource_version) >= version

        last_pass = await self._passes.wait_for(shows_change, WAIT_SECONDS)
        return answer({"status": "OK", **(_state(last_pass, group) if last_pass else {})})


def _state(last_pass: LastPass, group: ObservedGroup) -> dict[str, Any]:
    """What the operator judges; nothing for a group that is being deleted or whose spec is not valid."""
    found = last_pass.group_of_uid(group.identity.uid)
    plan = last_pass.plan_of(found) if found else None
    return {"stable": plan.stable, "reason": plan.reason, "message": plan.message} if plan else {}
