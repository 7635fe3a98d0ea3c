"""Orders that delete: a bucket's files, garbage, a table's folder. Each is checked where and when it is carried out."""

import logging
import re
from collections.abc import Callable
from typing import TypeVar

from aiohttp import web
from pydantic import ValidationError

from colocation.common.logs import audit
from colocation.model.agent import CollectRequest, RecycleRequest, Removed, RestoreRequest
from colocation.model.base import MAX_BUCKETS
from colocation.storage import recycling, removal
from colocation.storage.paths import TablePath, table_path

from .conversation import Order, StaleOrder, StaleTerm
from .http_messages import (
    EXPECTED_ERRORS,
    Refusal,
    answer_of,
    body_of,
    check_digests,
    parsed_body,
    refusal_of,
    validated,
)
from .node_state import NodeState

NO_LIVE_MANIFESTS = "NoLiveManifests"

Outcome = TypeVar("Outcome")

_log = logging.getLogger(__name__)


async def drop_bucket(node: NodeState, request: web.Request, user: str, table: TablePath, bucket: str) -> web.Response:
    """Delete the files of one bucket of a table, but for what a load may yet commit."""
    if not (re.fullmatch(r"[0-9]{1,9}", bucket) and int(bucket) < MAX_BUCKETS):
        raise Refusal(400, "InvalidBucket", f"bucket {bucket!r} is not allowed; allowed: 0 to {MAX_BUCKETS - 1}")
    body = await _collect_request(request)
    order = Order("drop", table, body.proof, body.manifests, int(bucket))
    live = removal.Live(body.manifests, body.grace_seconds)
    return answer_of(
        await node.run_work(
            _carried_out, node, order, user,
            lambda: removal.delete_bucket(node.root, node.inventory, table, int(bucket), live),
        )
    )  # fmt: skip


async def collect(node: NodeState, request: web.Request, user: str, table: TablePath) -> web.Response:
    """Delete what no live manifest names."""
    body = await _collect_request(request)
    order = Order("collect", table, body.proof, body.manifests)
    live = removal.Live(body.manifests, body.grace_seconds)
    return answer_of(
        await node.run_work(
            _carried_out, node, order, user,
            lambda: removal.collect_garbage(node.root, node.inventory, table, live),
        )
    )  # fmt: skip


async def recycle(node: NodeState, request: web.Request, user: str, table: TablePath) -> web.Response:
    """Move a dropped table's folder aside."""
    body = await parsed_body(request, RecycleRequest)
    order = Order("recycle", table, body.proof)
    await node.run_work(
        _carried_out, node, order, user,
        lambda: recycling.recycle(node.root, node.inventory, table, body.keep_seconds),
    )  # fmt: skip
    return web.json_response({})


async def restore(node: NodeState, request: web.Request, user: str, table: TablePath) -> web.Response:
    """Make a dropped table's folder that of the table that brings it back."""
    body = await parsed_body(request, RestoreRequest)
    successor = table_path(table.namespace, body.directory)

    def restored() -> None:
        with node.conversation.restoring(body.term, frozenset({str(table), str(successor)})):
            recycling.restore(node.root, node.inventory, table, successor)

    await node.run_work(restored)
    node.bell.ring()
    audit(_log, "restore", namespace=table.namespace, directory=table.directory, successor=successor.directory,
          user=user, term=body.term)  # fmt: skip
    return web.json_response({})


def _carried_out(node: NodeState, order: Order, user: str, delete: Callable[[], Outcome]) -> Outcome:
    """Check an order and carry it out, in one thread, whatever becomes of the caller; say so in the log."""
    try:
        with node.conversation.deletion(order):
            outcome = delete()
    except EXPECTED_ERRORS as error:
        refused = isinstance(error, StaleOrder | StaleTerm)
        reason = refusal_of(error).reason
        _audit(order, user, outcome="refused" if refused else "failed", reason=reason, message=str(error))
        raise
    except OSError as error:
        _audit(order, user, outcome="failed", reason="StorageFailed", message=str(error))
        raise
    finally:
        node.bell.ring()
    removed = outcome if isinstance(outcome, Removed) else None
    _audit(order, user, outcome="done", files=removed and removed.files, bytes=removed and removed.bytes)
    return outcome


def _audit(order: Order, user: str, **outcome: object) -> None:
    proof = order.proof
    audit(
        _log, order.kind, namespace=order.table.namespace, directory=order.table.directory, bucket=order.bucket,
        **outcome, user=user, term=proof.term, map_version=proof.map_version, table_uid=proof.table_uid,
        group_uid=proof.group_uid, manifests=list(order.manifests) or None,
    )  # fmt: skip


async def _collect_request(request: web.Request) -> CollectRequest:
    """The body of a drop or a collect.

    Raises:
        Refusal: 400 ``NoLiveManifests``: the list of live manifests is empty, and everything would be garbage.
    """
    content = await body_of(request)
    try:
        body = CollectRequest.model_validate_json(content)
    except ValidationError as error:
        if any(item["loc"] == ("manifests",) and item["type"] == "too_short" for item in error.errors()):
            message = "no live manifest is named, so nothing is known to be garbage; name every live manifest"
            raise Refusal(400, NO_LIVE_MANIFESTS, message) from error
        body = validated(CollectRequest, content)  # refuses, saying what is wrong
    check_digests(body.manifests)
    return body
