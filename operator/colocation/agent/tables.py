"""Requests on whole tables and on the node that change nothing: verification, manifests, status."""

from aiohttp import web

from colocation.model.agent import TableReport, VerifyRequest
from colocation.storage import recycling
from colocation.storage.folder_manifests import folder_manifests
from colocation.storage.paths import TablePath
from colocation.storage.table_inventory import manifest_missing

from .http_messages import answer_of, check_digests, parsed_body
from .node_state import NodeState

ALL_ACCOUNTS = "all together"


async def verify(node: NodeState, request: web.Request, user: str, table: TablePath) -> web.Response:
    """Report on one manifest of a table after hashing what was not hashed yet, or (deep) all of it."""
    body = await parsed_body(request, VerifyRequest)
    check_digests((body.manifest,))

    def verified() -> TableReport:
        inventory = node.inventory.table_here(table)
        if inventory is None:
            raise manifest_missing(table, body.manifest)
        node.root.note_use(table, body.manifest)
        report = inventory.verify(body.manifest, body.deep)
        node.root.note_use(table, body.manifest)  # the caller may commit only now
        return report

    turn = node.deep_verifications.turn(ALL_ACCOUNTS) if body.deep else node.verifications.turn(user)
    async with turn:
        return answer_of(await node.run_verification(body.deep, verified))


async def recycled_schema(node: NodeState, table: TablePath, manifest: str) -> web.Response:
    """The schema of a dropped table."""
    check_digests((manifest,))
    return answer_of(await node.run_work(recycling.recycled_schema, node.root, table, manifest))


async def manifests(node: NodeState, table: TablePath) -> web.Response:
    """The readable manifests of a table's folder, in its place or in the recycle bin."""
    return answer_of(await node.run_work(folder_manifests, node.root, table))


async def status(node: NodeState) -> web.Response:
    """Disk, transfers and clones."""
    return answer_of(await node.run_report(node.status))
