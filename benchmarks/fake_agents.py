"""Node agents that hold all that they should, for benchmarks: HTTPS on loopback addresses, answers from memory."""

import hashlib
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from colocation.model.agent import AgentReport, BucketReport, InventoryRequest, TableReport
from colocation.model.names import AGENT_PORT

GIB = 1 << 30
FILES = 2000
"""Of a bucket, one per partition: of a table with as many partitions as the largest that are promised."""

Maps = dict[str, dict[str, set[int]]]
"""Directory of a table -> node -> the buckets that it holds."""


class FakeAgent:
    """One node's agent. ``requests`` counts its inventories, ``unchanged`` those that were answered by 304."""

    def __init__(self, node: str, maps: Maps) -> None:
        self.node = node
        self.requests = self.unchanged = 0
        self._maps = maps
        self._last: tuple[bytes, int, AgentReport] | None = None

    def inventory(self, body: bytes, known: str | None) -> AgentReport | None:
        """The report on the tables of a request; None when it is the one of the revision ``known``."""
        self.requests += 1
        version = len(self._maps)
        if self._last is None or self._last[:2] != (body, version):
            self._last = (body, version, self._report(body))
        report = self._last[2]
        if known == f'"{report.revision}"':
            self.unchanged += 1
            return None
        return report

    def _report(self, body: bytes) -> AgentReport:
        request = InventoryRequest.model_validate_json(body)
        tables = tuple(
            TableReport(
                namespace=table.namespace, directory=table.directory, manifest=table.manifest, manifest_present=True,
                buckets=self._buckets(table.directory) if table.manifest else {},
            )
            for table in request.tables
        )  # fmt: skip
        report = AgentReport(
            node=self.node, revision="", capacity_bytes=1000 * GIB, free_bytes=900 * GIB, tables=tables
        )
        revision = hashlib.sha256(report.model_dump_json().encode()).hexdigest()
        return report.model_copy(update={"revision": revision})

    def _buckets(self, directory: str) -> Mapping[int, BucketReport]:
        held = self._maps.get(directory, {})
        everywhere = sorted(set().union(*held.values()))
        whole = BucketReport(state="complete", files_wanted=FILES, files_held=FILES, bytes_wanted=GIB, bytes_held=GIB)
        none = whole.model_copy(update={"state": None, "files_held": 0, "bytes_held": 0})
        return {bucket: whole if bucket in held.get(self.node, ()) else none for bucket in everywhere}


def _handler(agent: FakeAgent) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # the standard library's name
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path != "/v1/inventory":
                self._answer(200, b'{"files": 0, "bytes": 0}')
                return
            report = agent.inventory(body, self.headers.get("If-None-Match"))
            if report is None:
                self._answer(304, b"")
            else:
                self._answer(200, json.dumps(report.to_json_dict()).encode())

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: there are thousands."""

    return Handler


@contextmanager
def running_agents(
    addresses: Mapping[str, str], maps: Maps, certificate: Path, key: Path
) -> Iterator[dict[str, FakeAgent]]:
    """An agent for each node, at its loopback address and the agents' port, until left."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    agents = {node: FakeAgent(node, maps) for node in addresses}
    servers = []
    try:
        for node, address in addresses.items():
            server = ThreadingHTTPServer((address, AGENT_PORT), _handler(agents[node]), bind_and_activate=True)
            server.daemon_threads = True
            server.socket = context.wrap_socket(server.socket, server_side=True)
            servers.append(server)
            threading.Thread(target=server.serve_forever, daemon=True, name=f"agent {node}").start()
        yield agents
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
