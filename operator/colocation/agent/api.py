"""The agents' API: who calls, what they ask for, whether they may, and then the work, in this order."""

import errno
import logging
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from colocation.model.conditions import Reason
from colocation.model.names import AGENT_NODE_HEADER, TOKEN_AUDIENCE, node_audience
from colocation.storage.paths import TablePath, table_path

from . import deletions, files, inventory_requests, tables
from .authorizer import Access, Authorizer, Identity
from .clone_scope import check_clone_read
from .damage import DamageChecks
from .errors import EXPECTED_ERRORS, Refusal, error_response, refusal_of
from .node import NodeState
from .targets import decoded_segments, file_target

Handler = Callable[[], Awaitable[web.StreamResponse]]

MAX_BODY_BYTES = 64 << 20
"""Of JSON bodies: an inventory request names every table of the cluster."""

CUT_OFF = 499
"""In the metrics: the caller went away, or the disk failed in the middle of an answer."""

RETRY_AFTER_SECONDS = 2
"""Callers that heed it come back when the next process may listen; the others have a back-off of their own."""

OPERATOR_VERBS = frozenset({"list", "delete"})
"""Rights over what many tenants have. Tokens for them name one node: what one agent sees is worth nothing elsewhere."""

_BEARER = "Bearer "
_log = logging.getLogger(__name__)


class AgentApi:
    """Dispatches requests. Everything but a valid token and right gets an answer that tells nothing else."""

    def __init__(self, node: NodeState, authorizer: Authorizer) -> None:
        self._node = node
        self._authorizer = authorizer
        self._damage = DamageChecks(node)

    def application(self) -> web.Application:
        """The aiohttp application of the HTTPS port."""
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_route("*", "/{anything:.*}", self._serve)
        return application

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if self._node.turns_away:
            return self._turn_away()
        with self._node.request():
            return await self._answer(request)

    def _turn_away(self) -> web.Response:
        """For callers to come back: by then the next process listens at the same address."""
        message = f"the agent of node {self._node.settings.node} is being stopped; ask again, or ask another replica"
        response = error_response(Refusal(503, "Stopping", message, {"Retry-After": str(RETRY_AFTER_SECONDS)}))
        response.force_close()
        self._node.metrics.requests.labels("none", "503").inc()
        return response

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        verb = "none"
        try:
            identity = await self._identity(request)
            access, handler = self._route(request, identity)
            verb = access.verb
            if not await self._authorizer.may(identity, access):
                raise Refusal(403, "Forbidden", _forbidden_message(identity, access))
            _refuse_general_token(identity, access, self._node.settings.node)
            _refuse_other_node(request, self._node.settings.node)
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
        self._node.metrics.requests.labels(verb, str(response.status)).inc()
        return response

    def _disk_refusal(self, request: web.Request, error: OSError) -> Refusal:
        if error.errno == errno.EROFS:
            message = f"the disk of node {self._node.settings.node} is read-only; use another node"
            return Refusal(507, Reason.DISK_READ_ONLY, message)
        _log.error("%s %s failed", request.method, request.path, exc_info=error)
        return Refusal(500, "StorageFailed", f"the node's disk failed: {error.strerror}")

    async def _identity(self, request: web.Request) -> Identity:
        header = request.headers.get("Authorization", "")
        identity = None
        if header.startswith(_BEARER):
            identity = await self._authorizer.identify(header.removeprefix(_BEARER).strip(), request.remote or "")
        if identity is None:
            raise Refusal(
                401,
                "Unauthorized",
                f"send Authorization: Bearer <ServiceAccount token with audience {TOKEN_AUDIENCE}, or for orders "
                f"{node_audience(self._node.settings.node)}, that has not ended>",
                {"WWW-Authenticate": 'Bearer realm="colocation.dev"'},
            )
        return identity

    def _route(self, request: web.Request, identity: Identity) -> tuple[Access, Handler]:
        """The right that a request needs, and what serves it to the caller.

        Raises:
            Refusal: no such request, or not by this method.
            InvalidPath: a name or path in it is not allowed.
        """
        node = self._node
        segments = decoded_segments(request.raw_path)
        match (request.method, *segments):
            case "GET", "v1", "status":
                return Access("list"), lambda: tables.status(node)
            case "POST", "v1", "inventory":
                return Access("list"), lambda: inventory_requests.inventory(node, request)
            case ("GET" | "HEAD" | "PUT") as method, "v1", "files", _, _, _, *_:
                target = file_target(segments[2:])
                verb = "create" if method == "PUT" else "get"
                self._check_clone(identity, target.table, (target.path,))
                serve = files.put_file if method == "PUT" else files.get_file
                return _on(target.table, verb), lambda: serve(node, request, target)
            case "GET", "v1", "recycled", namespace, directory, manifest:
                return Access("list"), lambda: tables.recycled_schema(node, table_path(namespace, directory), manifest)
            case _, "v1", "tables", namespace, directory, *action:
                return self._table_route(request, identity, table_path(namespace, directory), action)
        raise _no_such_request(request)

    def _check_clone(self, identity: Identity, table: TablePath, paths: Iterable[str]) -> None:
        """Refuse what a clone Job is not for, if it is one; see ``clone_scope``."""
        if identity.user == self._node.settings.clone_account:
            check_clone_read(identity, self._node.conversation.question, table, paths)

    def _table_route(
        self, request: web.Request, identity: Identity, table: TablePath, action: list[str]
    ) -> tuple[Access, Handler]:
        node, user = self._node, identity.user

        def check(paths: Iterable[str] = ()) -> None:
            self._check_clone(identity, table, paths)

        check()
        match (request.method, *action):
            case "GET", "manifests":
                return Access("list"), lambda: tables.manifests(node, table)
            case "POST", "files":
                return _on(table, "get"), lambda: files.get_files(node, request, table, check)
            case "POST", "verify":
                return _on(table, "get"), lambda: tables.verify(node, request, table)
            case "POST", "damage":
                return _on(table, "get"), lambda: self._damage.report(request, table)
            case "POST", "collect":
                return _on(table, "delete"), lambda: deletions.collect(node, request, user, table)
            case "POST", "recycle":
                return _on(table, "delete"), lambda: deletions.recycle(node, request, user, table)
            case "POST", "restore":
                return _on(table, "delete"), lambda: deletions.restore(node, request, user, table)
            case "POST", "buckets", bucket, "drop":
                return _on(table, "delete"), lambda: deletions.drop_bucket(node, request, user, table, bucket)
        raise _no_such_request(request)


def _refuse_general_token(identity: Identity, access: Access, node: str) -> None:
    if access.verb in OPERATOR_VERBS and not identity.is_for_this_node:
        message = (
            f"{identity.user} may {access.verb}, but not by a token that other nodes' agents take, too; "
            f"ask the API server for one with the audience {node_audience(node)}"
        )
        raise Refusal(403, "WrongAudience", message)


def _refuse_other_node(request: web.Request, node: str) -> None:
    """A file for one node must not count as held there when it came to another one."""
    meant = request.headers.get(AGENT_NODE_HEADER)
    if meant not in (None, node):
        message = f"this is the agent of node {node}, not of {meant}; look up that node's address again"
        raise Refusal(421, "WrongNode", message)


def _cut_off(request: web.Request, error: ConnectionError) -> web.Response:
    """End a connection in the middle of a request: whoever is still there must not take it for complete."""
    _log.info("%s %s ended early: %s", request.method, request.path, error)
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=CUT_OFF)  # never sent; for the metrics


def _on(table: TablePath, verb: str) -> Access:
    return Access(verb, table.namespace, table.table)


def _forbidden_message(identity: Identity, access: Access) -> str:
    place = f"{access.namespace}/{access.table}" if access.namespace else "all namespaces"
    return (
        f"{identity.user} may not {access.verb} colocatedtables/data (group colocation.dev) of {place}; "
        "grant it by a Role and a RoleBinding"
    )


def _no_such_request(request: web.Request) -> Refusal:
    message = f"{request.method} {request.path} is no request of this API; see docs/reference/agent-api.md"
    return Refusal(404, "NoSuchRequest", message)
