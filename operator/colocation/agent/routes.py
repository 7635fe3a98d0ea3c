"""Routes of the agents' API, without reads of single files: authenticate, find the handler, authorize, run it."""

import errno
import logging
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from colocation.model.conditions import Reason
from colocation.model.names import AGENT_NODE_HEADER
from colocation.storage.paths import TablePath, table_path

from . import file_requests, inventory_requests, table_requests
from .access import Gate
from .authorizer import Access, Identity
from .damage import DamageChecks
from .front_configuration import PEER_HEADER
from .http_messages import (
    EXPECTED_ERRORS,
    Refusal,
    decoded_segments,
    error_response,
    file_target,
    refusal_of,
    skip_body,
)
from .node_state import NodeState, TableRequest

Handler = Callable[[], Awaitable[web.StreamResponse]]

CUT_OFF = 499
"""In the metrics: the caller left, or the disk failed in the middle of an answer."""

_log = logging.getLogger(__name__)


class AgentApi:
    """Dispatches requests. Without a valid token and right, an answer reveals nothing else."""

    def __init__(self, node: NodeState, gate: Gate) -> None:
        self._node = node
        self._gate = gate
        self.damage = DamageChecks(node)

    def application(self) -> web.Application:
        """The aiohttp application of the HTTPS port."""
        application = web.Application()
        application.router.add_route("*", "/{anything:.*}", self._serve)
        return application

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if self._node.turns_away:
            return self._turn_away()
        with self._node.request():
            return await self._answer(request)

    def _turn_away(self) -> web.Response:
        response = error_response(self._gate.stopping())
        response.force_close()
        self._node.metrics.requests.labels("none", "503").inc()
        return response

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        verb = "none"
        try:
            identity = await self._gate.identity(
                request.headers.get("Authorization", ""), request.headers.get(PEER_HEADER, "")
            )
            access, handler = self._route(request, identity)
            verb = access.verb
            await self._gate.check_access(identity, access)
            self._gate.check_node(request.headers.get(AGENT_NODE_HEADER))
            response = await handler()
        except Refusal as refusal:
            response = error_response(refusal)
        except EXPECTED_ERRORS as error:
            response = error_response(refusal_of(error))
            if response.status >= 500:
                _log.warning("%s %s: %s", request.method, request.path, error)
        except ConnectionError as error:
            response = _cut_off(request, error)
        except OSError as error:
            response = error_response(self._disk_refusal(request, error))
        if response.status >= 400:
            await skip_body(request)
        self._node.metrics.requests.labels(verb, str(response.status)).inc()
        return response

    def _disk_refusal(self, request: web.Request, error: OSError) -> Refusal:
        if error.errno == errno.EROFS:
            message = f"the disk of node {self._node.settings.node} is read-only; use another node"
            return Refusal(507, Reason.DISK_READ_ONLY, message)
        _log.error("%s %s failed", request.method, request.path, exc_info=error)
        return Refusal(500, "StorageFailed", f"the node's disk failed: {error.strerror}")

    def _route(self, request: web.Request, identity: Identity) -> tuple[Access, Handler]:
        """The right that a request needs, and its handler.

        Raises:
            Refusal: no such request, or not by this method.
            InvalidPath: a name or path in it is not allowed.
        """
        node = self._node
        segments = decoded_segments(request.raw_path)
        match (request.method, *segments):
            case "GET", "v1", "status":
                return Access("list"), lambda: table_requests.status(node)
            case "POST", "v1", "inventory":
                return Access("list"), lambda: inventory_requests.inventory(node, request)
            case "PUT", "v1", "files", _, _, _, *_:
                target = file_target(segments[2:])
                self._gate.check_clone(identity, target.table, (target.path,))
                upload = TableRequest(node, request, identity.user, target.table)
                return _on(target.table, "create"), lambda: file_requests.put_file(upload, target.path)
            case "GET", "v1", "recycled", namespace, directory, manifest:
                return Access("list"), (
                    lambda: table_requests.recycled_schema(node, table_path(namespace, directory), manifest)
                )
            case _, "v1", "tables", namespace, directory, *action:
                return self._table_route(request, identity, table_path(namespace, directory), action)
        raise _no_such_request(request)

    def _table_route(
        self, request: web.Request, identity: Identity, table: TablePath, action: list[str]
    ) -> tuple[Access, Handler]:
        node = self._node
        asked = TableRequest(node, request, identity.user, table)

        def check(paths: Iterable[str] = ()) -> None:
            self._gate.check_clone(identity, table, paths)

        check()
        pace = node.clone_pace.wait if self._gate.is_clone(identity) else None
        match (request.method, *action):
            case "GET", "manifests":
                return Access("list"), lambda: table_requests.manifests(node, table)
            case "POST", "files":
                return _on(table, "get"), lambda: file_requests.get_files(asked, check, pace)
            case "POST", "verify":
                # The operator may list what is held, and reads no table: its token is the only kind for one node.
                access = Access("list") if identity.is_for_this_node else _on(table, "get")
                return access, lambda: table_requests.verify(asked)
            case "POST", "damage":
                return _on(table, "get"), lambda: self.damage.report(request, table)
            case "POST", "collect":
                return _on(table, "delete"), lambda: table_requests.collect(asked)
            case "POST", "recycle":
                return _on(table, "delete"), lambda: table_requests.recycle(asked)
            case "POST", "restore":
                return _on(table, "delete"), lambda: table_requests.restore(asked)
            case "POST", "buckets", bucket, "drop":
                return _on(table, "delete"), lambda: table_requests.drop_bucket(asked, bucket)
        raise _no_such_request(request)


def _cut_off(request: web.Request, error: ConnectionError) -> web.Response:
    """Abort a request that failed midway, so that its client does not take the answer for complete."""
    _log.info("%s %s ended early: %s", request.method, request.path, error)
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=CUT_OFF)  # never sent; for the metrics


def _on(table: TablePath, verb: str) -> Access:
    return Access(verb, table.namespace, table.table)


def _no_such_request(request: web.Request) -> Refusal:
    message = f"{request.method} {request.path} is not a request of this API; see docs/reference/agent-api.md"
    return Refusal(404, "NoSuchRequest", message)
