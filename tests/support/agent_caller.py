"""A client of an agent that also sends what only Java sends, for tests of the agent's answers."""

from typing import NamedTuple

from colocation.agentclient import AgentClient
from colocation.agentclient.calls import file_target, parsed, table_target
from colocation.agentclient.transport import Request
from colocation.model.agent import DamageAnswer, DamageRequest, FilePublished
from colocation.model.file_transfer import sha256_of_content_digest
from colocation.model.table_manifest import manifest_path


class FileHead(NamedTuple):
    """``sha256`` is 64 hex digits."""

    bytes: int
    sha256: str | None


class AgentCaller(AgentClient):
    """Arguments and errors as of ``AgentClient``."""

    def __enter__(self) -> "AgentCaller":
        return self

    def head_file(self, namespace: str, directory: str, path: str) -> FileHead:
        """Size and digest of a file; NotFound when the agent does not hold it."""
        request = Request("HEAD", file_target(namespace, directory, path), {})
        _, headers, _ = self._transport.send_for_body(request, {200})
        digest = headers.get("Content-Digest")
        return FileHead(int(headers["Content-Length"]), sha256_of_content_digest(digest) if digest else None)

    def put_manifest(self, namespace: str, directory: str, stored: bytes, sha256: str) -> FilePublished:
        """Publish a manifest as ``encode_manifest`` gave it."""
        return self.put_file(namespace, directory, manifest_path(sha256), stored, sha256)

    def report_damage(self, namespace: str, directory: str, path: str) -> bool:
        """Say that a file was met damaged; whether the agent finds so too, and has moved it out of the readers' way."""
        body = DamageRequest(path=path).model_dump_json(by_alias=True).encode()
        target = table_target(namespace, directory, "damage")
        request = Request("POST", target, {"Content-Type": "application/json"}, lambda: body)
        _, _, answer = self._transport.send_for_body(request, {200})
        return parsed(DamageAnswer, answer).damaged
