"""Requests on whole tables and on the node: reports, verification, deletion."""

from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from colocation.model.agent import CollectRequest, InventoryRequest, RecycleRequest, RestoreRequest, VerifyRequest
from colocation.model.content_digest import is_sha256
from colocation.model.limits import MAX_BUCKETS
from colocation.storage import recycling, removal
from colocation.storage.paths import TablePath, table_path

from .errors import Refusal
from .node import NodeState

Body = TypeVar("Body", bound=BaseModel)


async def verify(node: NodeState, request: web.Request, table: TablePath) -> web.Response:
    """Report on one manifest of a table after hashing what was not hashed yet, or (deep) all of it."""
    body = await _body(request, VerifyRequest)
    _check_digests((body.manifest,))
    return _answer(await node.run(node.inventory.table(table).verify, body.manifest, body.deep))


async def delete_bucket(node: NodeState, request: web.Request, table: TablePath, bucket: str) -> web.Response:
    """Delete the files of one bucket of a table, but for what a load may yet commit."""
    if not (bucket.isascii() and bucket.isdigit() and int(bucket) < MAX_BUCKETS):
        raise Refusal(400, "InvalidBucket", f"bucket {bucket!r} is not allowed; allowed: 0 to {MAX_BUCKETS - 1}")
    body = await _body(request, CollectRequest)
    _check_digests(body.manifests)
    spared = removal.Spared(body.manifests, body.grace_seconds)
    return _answer(await node.run(removal.delete_bucket, node.root, node.inventory, table, int(bucket), spared))


async def collect(node: NodeState, request: web.Request, table: TablePath) -> web.Response:
    """Delete what no live manifest names."""
    body = await _body(request, CollectRequest)
    _check_digests(body.manifests)
    return _answer(
        await node.run(
            removal.collect_garbage, node.root, node.inventory, table, body.manifests, body.grace_seconds
        )
    )


async def recycle(node: NodeState, request: web.Request, table: TablePath) -> web.Response:
    """Move a dropped table's folder aside."""
    body = await _body(request, RecycleRequest)
    await node.run(recycling.recycle, node.root, node.inventory, table, body.keep_seconds)
    return web.json_response({})


async def restore(node: NodeState, request: web.Request, table: TablePath) -> web.Response:
    """Make a dropped table's folder that of the table that brings it back."""
    body = await _body(request, RestoreRequest)
    successor = table_path(table.namespace, body.directory)
    await node.run(recycling.restore, node.root, node.inventory, table, successor)
    return web.json_response({})


async def recycled_schema(node: NodeState, table: TablePath, manifest: str) -> web.Response:
    """The schema of a dropped table."""
    _check_digests((manifest,))
    return _answer(await node.run(recycling.recycled_schema, node.root, table, manifest))


async def inventory(node: NodeState, request: web.Request) -> web.Response:
    """The report on the wanted tables, or 304 when it is the one that the caller has."""
    body = await _body(request, InventoryRequest)
    for reference in body.tables:
        _check_digests([sha256 for sha256 in (reference.manifest, *reference.retained_manifests) if sha256])
    report = await node.run(node.report, body)
    tag = f'"{report.revision}"'
    if request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers={"ETag": tag})
    response = _answer(report)
    response.headers["ETag"] = tag
    return response


async def status(node: NodeState) -> web.Response:
    """Disk, transfers and clones."""
    return _answer(await node.run(node.status))


async def _body(request: web.Request, kind: type[Body]) -> Body:
    try:
        return kind.model_validate_json(await request.read())
    except web.HTTPRequestEntityTooLarge as error:
        raise Refusal(413, "BodyTooLarge", f"the body is too large: {error.text}; ask about fewer tables") from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise Refusal(400, "InvalidBody", f"the body is no {kind.__name__}: {problems}") from error


def _check_digests(digests: tuple[str, ...] | list[str]) -> None:
    for digest in digests:
        if not is_sha256(digest):
            message = f"manifest {digest!r} is not allowed; allowed: 64 lower-case hex digits"
            raise Refusal(400, "InvalidDigest", message)


def _answer(content: BaseModel) -> web.Response:
    return web.json_response(text=content.model_dump_json(by_alias=True))
