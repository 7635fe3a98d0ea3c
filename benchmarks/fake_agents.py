"""Node agents that hold all that they should, for benchmarks: one process, HTTPS on a loopback address per node.

`python -m benchmarks.fake_agents` reads commands from its standard input, a JSON object a line, answers each by a line,
and ends with its input.
"""

import asyncio
import json
import signal
import ssl
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.fake_node import FakeNode, HeldTable, Json, Refused, buckets_json
from colocation.model.names import AGENT_PORT
from tests.integration.control_plane import dying_with_us

START_SECONDS = 60.0
BACKLOG = 16


class FakeAgents:
    """The agents' process, to the benchmark."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def hold(self, tables: Iterable[tuple[str, str, list[list[str]]]]) -> None:
        """Put the files of tables, each (namespace, directory, map), on the nodes of its map."""
        self._tell({"hold": list(tables)})

    def stage(self, namespace: str, directory: str, nodes: list[str], size_bytes: int) -> None:
        """What a load does before it commits: new files lie on the table's nodes."""
        self._tell({"stage": [f"{namespace}/{directory}", nodes, size_bytes]})

    def lose(self, node: str) -> None:
        """The node's agent is not heard of any more; its connections hang, as those to a dead machine do."""
        self._tell({"lose": node})

    def counts(self) -> tuple[int, int]:
        """(inventories, those answered by 304) of all agents so far."""
        requests, unchanged = self._tell({"counts": None})
        return requests, unchanged

    def _tell(self, command: Json) -> list[int]:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the fake agents' process died")
        found: list[int] = json.loads(line)
        return found


@contextmanager
def running_agents(addresses: Mapping[str, str], certificate: Path, key: Path, log: Path) -> Iterator[FakeAgents]:
    """An agent for each node, at its loopback address and the agents' port, until left."""
    command = dying_with_us([sys.executable, "-m", "benchmarks.fake_agents"])
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1
        )
    try:
        agents = FakeAgents(process)
        agents._tell({"serve": dict(addresses), "certificate": str(certificate), "key": str(key)})
        yield agents
    finally:
        process.kill()
        process.wait()


class _Server:
    """All agents of the process."""

    def __init__(self) -> None:
        self._nodes: dict[str, FakeNode] = {}
        self._by_address: dict[str, FakeNode] = {}

    async def obey(self, command: Json) -> list[int]:
        """Carry out a command of ``FakeAgents``."""
        match command:
            case {"serve": addresses, "certificate": certificate, "key": key}:
                await self._serve(addresses, certificate, key)
            case {"hold": tables}:
                self._hold(tables)
            case {"stage": [key, nodes, size_bytes]}:
                for node in nodes:
                    self._nodes[node].stage(key, size_bytes)
            case {"lose": node}:
                self._nodes[node].is_silent = True
            case {"counts": _}:
                nodes = self._nodes.values()
                return [sum(one.requests for one in nodes), sum(one.unchanged for one in nodes)]
        return []

    async def _serve(self, addresses: Mapping[str, str], certificate: str, key: str) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        for name, address in addresses.items():
            self._nodes[name] = self._by_address[address] = FakeNode(name, uuid.uuid4().hex[:8])
            await asyncio.start_server(self._converse, address, AGENT_PORT, ssl=context, backlog=BACKLOG)

    def _hold(self, tables: list[tuple[str, str, list[list[str]]]]) -> None:
        for namespace, directory, rows in tables:
            held: dict[str, list[int]] = {}
            for bucket, nodes in enumerate(rows):
                for node in nodes:
                    held.setdefault(node, []).append(bucket)
            for node, buckets in held.items():
                key = f"{namespace}/{directory}"
                self._nodes[node].hold(key, HeldTable(namespace, directory, buckets_json(tuple(buckets))))

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests of one connection, one after the other."""
        node = self._by_address[writer.get_extra_info("sockname")[0]]
        with suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                status, content = await _answer(node, head[0], headers, body)
                if node.is_silent:
                    await asyncio.Event().wait()
                writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n".encode())
                writer.write(f"Content-Length: {len(content)}\r\n\r\n".encode() + content)
                await writer.drain()
        writer.close()


async def _answer(node: FakeNode, line: str, headers: Mapping[str, str], body: bytes) -> tuple[str, bytes]:
    if line.startswith("GET /v1/status"):
        return "200 OK", node.status()
    if not line.startswith("POST /v1/inventory"):
        return "200 OK", b'{"files":0,"bytes":0}'
    try:
        content = await node.inventory(json.loads(body), headers.get("if-none-match"))
    except Refused as refused:
        return "409 Conflict", refused.body
    return ("304 Not Modified", b"") if content is None else ("200 OK", content)


async def _run() -> None:
    server, lines = _Server(), asyncio.StreamReader(limit=1 << 28)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        print(json.dumps(await server.obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_run())
