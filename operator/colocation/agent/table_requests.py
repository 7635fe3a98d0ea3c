"""Requests on whole tables and on the node: verification, manifests, status; and orders to delete or restore.

An order to delete is checked where and when it is performed (``conversation``).
"""

import logging
import re
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from aiohttp import web
from pydantic import ValidationError

from colocation.common.logs import audit
from colocation.model.agent import CollectRequest, RecycleRequest, Removed, RestoreRequest, TableReport, VerifyRequest
from colocation.model.base import MAX_BUCKETS
from colocation.storage import folder_manifests, recycling, removal
from colocation.storage.paths import TablePath, table_path
from colocation.storage.table_inventory import manifest_missing

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
from .node_state import NodeState, TableRequest

ALL_ACCOUNTS = "all together"

NO_LIVE_MANIFESTS = "NoLiveManifests"

Outcome = TypeVar("Outcome")

_log = logging.getLogger(__name__)


async def verify(request: TableRequest) -> web.Response:
    """Report on one manifest of a table after hashing files that were not hashed yet, or (deep) all of them."""
    node, table = request.node, request.table
    body = await parsed_body(request.http, VerifyRequest)
    check_digests((body.manifest,))

    def verified() -> TableReport:
        inventory = node.inventory.table_here(table)
        if inventory is None:
            raise manifest_missing(table, body.manifest)
        node.root.note_use(table, body.manifest)
        report = inventory.verify(body.manifest, body.deep)
        node.root.note_use(table, body.manifest)  # the caller may commit only now
        return report

    turn = node.deep_verifications.turn(ALL_ACCOUNTS) if body.deep else node.verifications.turn(request.user)
    threads = node.verifying_deeply if body.deep else node.verifying
    async with turn:
        return answer_of(await threads.run(verified))


async def recycled_schema(node: NodeState, table: TablePath, manifest: str) -> web.Response:
    """The schema of a dropped table."""
    check_digests((manifest,))
    return answer_of(await node.working.run(folder_manifests.recycled_schema, node.root, table, manifest))


async def manifests(node: NodeState, table: TablePath) -> web.Response:
    """The readable manifests of a table's folder, in its place or in the recycle bin."""
    return answer_of(await node.working.run(folder_manifests.folder_manifests, node.root, table))


async def status(node: NodeState) -> web.Response:
    """Disk, transfers and clones."""
    return answer_of(await node.reporting.run(node.status))


async def drop_bucket(request: TableRequest, bucket: str) -> web.Response:
    """Delete the files of one bucket of a table, without those that a load may yet commit."""
    if not (re.fullmatch(r"[0-9]{1,9}", bucket) and int(bucket) < MAX_BUCKETS):
        raise Refusal(400, "InvalidBucket", f"bucket {bucket!r} is not allowed; allowed: 0 to {MAX_BUCKETS - 1}")
    node, table = request.node, request.table
    body = await _collect_request(request.http)
    order = Order("drop", table, body.proof, body.manifests, int(bucket))
    live = removal.LiveManifests(body.manifests, body.grace_seconds)
    delete = partial(removal.delete_bucket, node.inventory, table, int(bucket), live)
    return answer_of(await _perform(request, order, delete))


async def collect(request: TableRequest) -> web.Response:
    """Delete files that no live manifest names."""
    node, table = request.node, request.table
    body = await _collect_request(request.http)
    order = Order("collect", table, body.proof, body.manifests)
    live = removal.LiveManifests(body.manifests, body.grace_seconds)
    delete = partial(removal.collect_garbage, node.inventory, table, live)
    return answer_of(await _perform(request, order, delete))


async def recycle(request: TableRequest) -> web.Response:
    """Move a dropped table's folder into the recycle bin."""
    node, table = request.node, request.table
    body = await parsed_body(request.http, RecycleRequest)
    order = Order("recycle", table, body.proof)
    await _perform(request, order, lambda: recycling.recycle(node.inventory, table, body.keep_seconds))
    return web.json_response({})


async def restore(request: TableRequest) -> web.Response:
    """Give a dropped table's folder to the table that brings it back."""
    node, table = request.node, request.table
    body = await parsed_body(request.http, RestoreRequest)
    successor = table_path(table.namespace, body.directory)

    def restored() -> None:
        with node.conversation.restoring(body.term, frozenset({str(table), str(successor)})):
            recycling.restore(node.inventory, table, successor)

    await node.working.run(restored)
    node.bell.ring()
    audit(_log, "restore", namespace=table.namespace, directory=table.directory, successor=successor.directory,
          user=request.user, term=body.term)  # fmt: skip
    return web.json_response({})


async def _perform(request: TableRequest, order: Order, delete: Callable[[], Outcome]) -> Outcome:
    """Check an order and perform it, in one thread, even if the caller leaves; log the outcome."""
    return await request.node.working.run(_performed, request, order, delete)


def _performed(request: TableRequest, order: Order, delete: Callable[[], Outcome]) -> Outcome:
    try:
        with request.node.conversation.deletion(order):
            outcome = delete()
    except EXPECTED_ERRORS as error:
        refused = isinstance(error, StaleOrder | StaleTerm)
        reason = refusal_of(error).reason
        _audit(order, request.user, outcome="refused" if refused else "failed", reason=reason, message=str(error))
        raise
    except OSError as error:
        _audit(order, request.user, outcome="failed", reason="StorageFailed", message=str(error))
        raise
    finally:
        request.node.bell.ring()
    removed = outcome if isinstance(outcome, Removed) else None
    _audit(order, request.user, outcome="done", files=removed and removed.files, bytes=removed and removed.bytes)
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
        Refusal: 400 ``NoLiveManifests`` for an empty list of live manifests, with which everything would be garbage.
    """
    content = await body_of(request)
    try:
        body = CollectRequest.model_validate_json(content)
    except ValidationError as error:
        if any(item["loc"] == ("manifests",) and item["type"] == "too_short" for item in error.errors()):
            message = "no live manifest is named, so nothing is known to be garbage; name every live manifest"
            raise Refusal(400, NO_LIVE_MANIFESTS, message) from error
        body = validated(CollectRequest, content)  # refuses, naming what is wrong
    check_digests(body.manifests)
    return body
