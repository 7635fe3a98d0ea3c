"""Requests on whole tables and on the node: reports, verification, deletion."""

from aiohttp import web

from colocation.model.agent import CollectRequest, RecycleRequest, RestoreRequest, VerifyRequest
from colocation.model.limits import MAX_BUCKETS
from colocation.storage import recycling, removal
from colocation.storage.paths import TablePath, table_path

from .bodies import answer_of, check_digests, parsed_body
from .errors import Refusal
from .node import NodeState


async def verify(node: NodeState, request: web.Request, table: TablePath) -> web.Response:
    """Report on one manifest of a table after hashing what was not hashed yet, or (deep) all of it."""
    body = await parsed_body(request, VerifyRequest)
    check_digests((body.manifest,))
    return answer_of(await node.run(node.inventory.table(table).verify, body.manifest, body.deep))


async def delete_bucket(node: NodeState, request: web.Request, table: TablePath, bucket: str) -> web.Response:
    """Delete the files of one bucket of a table, but for what a load may yet commit."""
    if not (bucket.isascii() and bucket.isdigit() and int(bucket) < MAX_BUCKETS):
        raise Refusal(400, "InvalidBucket", f"bucket {bucket!r} is not allowed; allowed: 0 to {MAX_BUCKETS - 1}")
    body = await parsed_body(request, CollectRequest)
    check_digests(body.manifests)
    spared = removal.Spared(body.manifests, body.grace_seconds)
    return answer_of(await node.run(removal.delete_bucket, node.root, node.inventory, table, int(bucket), spared))


async def collect(node: NodeState, request: web.Request, table: TablePath) -> web.Response:
    """Delete what no live manifest names."""
    body = await parsed_body(request, CollectRequest)
    check_digests(body.manifests)
    return answer_of(
        await node.run(
            removal.collect_garbage, node.root, node.inventory, table, body.manifests, body.grace_seconds
        )
    )


async def recycle(node: NodeState, request: web.Request, table: TablePath) -> web.Response:
    """Move a dropped table's folder aside."""
    body = await parsed_body(request, RecycleRequest)
    await node.run(recycling.recycle, node.root, node.inventory, table, body.keep_seconds)
    return web.json_response({})


async def restore(node: NodeState, request: web.Request, table: TablePath) -> web.Response:
    """Make a dropped table's folder that of the table that brings it back."""
    body = await parsed_body(request, RestoreRequest)
    successor = table_path(table.namespace, body.directory)
    await node.run(recycling.restore, node.root, node.inventory, table, successor)
    return web.json_response({})


async def recycled_schema(node: NodeState, table: TablePath, manifest: str) -> web.Response:
    """The schema of a dropped table."""
    check_digests((manifest,))
    return answer_of(await node.run(recycling.recycled_schema, node.root, table, manifest))


async def status(node: NodeState) -> web.Response:
    """Disk, transfers and clones."""
    return answer_of(await node.run_report(node.status))
