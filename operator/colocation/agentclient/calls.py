"""The agents' API as requests and answers, without a connection: for ``AgentClient`` and the operator's own client.

The sender of a ``Call`` adds ``Authorization: Bearer <Credentials.token()>``, connects with
``Credentials.tls_context()`` and verifies the name ``AGENT_TLS_SERVER_NAME``. An answer with a status outside
``Call.accepted`` becomes ``error_of_response(status, body)``.
"""

from typing import NamedTuple, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter, ValidationError

from colocation.model.agent import (
    CollectRequest,
    DeletionProof,
    FilesRequest,
    InventoryRequest,
    OldInventoryRequest,
    RecycleRequest,
    RestoreRequest,
    TableReference,
    VerifyRequest,
)

from .errors import AgentError

NOT_MODIFIED = 304

Answer = TypeVar("Answer")


class Call(NamedTuple):
    """A request that can be sent, and sent again."""

    method: str
    target: str
    headers: dict[str, str] = {}
    body: bytes = b""
    accepted: frozenset[int] = frozenset({200})


def inventory_call(request: InventoryRequest, revision: str | None) -> Call:
    """Ask what the agent holds; 304 = nothing has changed since ``revision``."""
    return _inventory(request, revision)


def old_inventory_call(tables: tuple[TableReference, ...], revision: str | None) -> Call:
    """The same question for an agent of the release before sessions, which answers ``inventory_call`` with 400.

    Its reports name no instance, so no deletion can be ordered there.
    """
    return _inventory(OldInventoryRequest(tables=tables), revision)


def status_call() -> Call:
    """Disk, transfers and clones."""
    return Call("GET", "/v1/status")


def files_call(namespace: str, directory: str, paths: tuple[str, ...]) -> Call:
    """The contents of several small files of a table."""
    return _post(table_target(namespace, directory, "files"), FilesRequest(paths=paths))


def verify_call(namespace: str, directory: str, manifest: str, deep: bool) -> Call:
    """What the agent holds of a manifest."""
    return _post(table_target(namespace, directory, "verify"), VerifyRequest(manifest=manifest, deep=deep))


def drop_bucket_call(
    namespace: str, directory: str, bucket: int, manifests: tuple[str, ...], grace_seconds: int, proof: DeletionProof
) -> Call:
    """Delete a table's files of one bucket."""
    content = CollectRequest(manifests=manifests, grace_seconds=grace_seconds, proof=proof)
    return _post(table_target(namespace, directory, f"buckets/{bucket}/drop"), content)


def collect_call(
    namespace: str, directory: str, manifests: tuple[str, ...], grace_seconds: int, proof: DeletionProof
) -> Call:
    """Delete what no live manifest names."""
    content = CollectRequest(manifests=manifests, grace_seconds=grace_seconds, proof=proof)
    return _post(table_target(namespace, directory, "collect"), content)


def recycle_call(namespace: str, directory: str, keep_seconds: int, proof: DeletionProof) -> Call:
    """Move a table's folder into the recycle bin."""
    return _post(table_target(namespace, directory, "recycle"), RecycleRequest(keep_seconds=keep_seconds, proof=proof))


def restore_call(namespace: str, directory: str, successor: str, term: int) -> Call:
    """Make a dropped table's folder that of its successor."""
    return _post(table_target(namespace, directory, "restore"), RestoreRequest(directory=successor, term=term))


def manifests_call(namespace: str, directory: str) -> Call:
    """The readable manifests of a table's folder, in its place or in the recycle bin."""
    return Call("GET", table_target(namespace, directory, "manifests"))


def recycled_schema_call(namespace: str, directory: str, manifest: str) -> Call:
    """The schema of a dropped table."""
    return Call("GET", f"/v1/recycled/{quote(namespace, safe='')}/{quote(directory, safe='')}/{manifest}")


def file_target(namespace: str, directory: str, path: str) -> str:
    """The target of a file of a table."""
    segments = [namespace, directory, *path.split("/")]
    return "/v1/files/" + "/".join(quote(segment, safe="") for segment in segments)


def table_target(namespace: str, directory: str, action: str) -> str:
    """The target of a request on a table."""
    return f"/v1/tables/{quote(namespace, safe='')}/{quote(directory, safe='')}/{action}"


def parsed(kind: type[Answer], body: bytes) -> Answer:
    """The content of a 200's body.

    Raises:
        AgentError: ``UnexpectedAnswer``, it is no ``kind``.
    """
    try:
        return TypeAdapter(kind).validate_json(body)
    except ValidationError as error:
        raise AgentError(200, "UnexpectedAnswer", f"the agent's answer is not a {kind.__name__}: {error}") from error


def _inventory(content: BaseModel, revision: str | None) -> Call:
    call = _post("/v1/inventory", content)
    matching = {} if revision is None else {"If-None-Match": f'"{revision}"'}
    return call._replace(headers=call.headers | matching, accepted=frozenset({200, NOT_MODIFIED}))


def _post(target: str, content: BaseModel) -> Call:
    body = content.model_dump_json(by_alias=True)
    return Call("POST", target, {"Content-Type": "application/json"}, body.encode())
