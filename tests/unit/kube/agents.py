"""Agents that answer questions as real ones do, without a network: a stand-in for ``AgentChannel``."""

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from colocation.agentclient import AgentError, Unreachable, error_of_response
from colocation.agentclient.calls import NOT_MODIFIED, Call
from colocation.model.agent import (
    AgentReport,
    AskedTable,
    BucketReport,
    InventoryRequest,
    OldInventoryRequest,
    SeenLease,
    TableReference,
    TableReport,
)
from colocation.state.agent_view import TableKey, key_of

Answer = tuple[int, bytes]


async def until(condition: Callable[[], object]) -> None:
    """Let everything else run until this is so; fails when it never is."""
    async with asyncio.timeout(5):
        for _ in itertools.count():
            if condition():
                return
            await asyncio.sleep(0)


def asked_about(name: str, manifest: str | None = "a" * 64, map_version: int = 1) -> AskedTable:
    reference = TableReference(namespace="shop", directory=f"{name}-00000001", manifest=manifest)
    return AskedTable(reference=reference, uid=name, group_uid="group", map_version=map_version)


def question(*tables: AskedTable) -> dict[TableKey, AskedTable]:
    return {key_of(one.reference): one for one in tables}


def bucket_of(size: int) -> BucketReport:
    return BucketReport(state="complete", files_wanted=1, files_held=1, bytes_wanted=size, bytes_held=size)


@dataclass
class FakeAgent:
    """One agent's process. ``sizes``: bytes of bucket 0 of each table's folder that is there.

    ``answers`` replaces what it would answer, ``silent`` lets it hang, ``is_old`` makes it one of the release before.
    """

    node: str = "node-1"
    instance: str = "one"
    sizes: dict[str, int] = field(default_factory=dict)
    term: int = 0
    lease: SeenLease | None = None
    is_old: bool = False
    reachable: bool = True
    hangs: bool = False
    answers: Callable[[Call], Answer] | None = None
    requests: list[InventoryRequest | OldInventoryRequest] = field(default_factory=list)
    revisions: list[str | None] = field(default_factory=list)
    held: int = 0
    _session: str = ""
    _number: int = 0
    _counter: int = 1
    _asked: dict[str, AskedTable] = field(default_factory=dict)
    _sent: dict[str, tuple[TableReport, int]] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, name: str, size: int = 10) -> None:
        """A folder appears, or another one's size changes; held questions are answered."""
        self.sizes[f"{name}-00000001"] = size
        self.ring()

    def ring(self) -> None:
        self._counter += 1
        self._changed.set()

    def restart(self) -> None:
        """Another process on the same disk: it remembers no question."""
        self.instance += "'"
        self._session, self._asked, self._sent, self._counter = "", {}, {}, 1
        self.ring()

    async def answer(self, call: Call, wait_seconds: float) -> Answer:
        if not self.reachable:
            raise Unreachable("connection refused")
        if self.hangs:
            await asyncio.Event().wait()
        if self.answers is not None:
            return self.answers(call)
        revision = call.headers.get("If-None-Match")
        self.revisions.append(revision.strip('"') if revision else None)
        if self.is_old:
            return self._answer_old(call)
        request = InventoryRequest.model_validate_json(call.body)
        self.requests.append(request)
        if request.term < self.term:
            return 409, b'{"error": "StaleTerm", "message": "another operator leads", "term": %d}' % self.term
        self.term, self.lease = request.term, request.lease or self.lease
        if not self._take(request):
            return 409, b'{"error": "UnknownQuestion", "message": "ask in full"}'
        if revision == f'"{self.instance}-{self._counter}"' and wait_seconds:
            await self._hold(wait_seconds)
        if revision == f'"{self.instance}-{self._counter}"':
            return NOT_MODIFIED, b""
        return 200, self._report(revision).model_dump_json(by_alias=True).encode()

    async def _hold(self, wait_seconds: float) -> None:
        self._changed.clear()
        self.held += 1
        try:
            async with asyncio.timeout(wait_seconds):
                await self._changed.wait()
        except TimeoutError:
            return
        finally:
            self.held -= 1

    def _take(self, request: InventoryRequest) -> bool:
        before = dict(self._asked)
        if request.base is None:
            self._asked = {}
        elif (request.session, request.base) != (self._session, self._number):
            return False
        for path in request.removed:
            self._asked.pop(path)
            self._sent.pop(path, None)
        self._asked |= {"/".join(key_of(one.reference)): one for one in request.changed}
        self._session, self._number = request.session, request.number
        self._counter += self._asked.keys() != before.keys()
        return True

    def _report(self, revision: str | None) -> AgentReport:
        known = revision.strip('"').rpartition("-") if revision else ("", "", "0")
        is_full = known[0] != self.instance
        for path, asked in self._asked.items():
            report = self._report_on(asked.reference)
            if path not in self._sent or self._sent[path][0] != report:
                self._sent[path] = (report, self._counter)
        tables = [report for report, at in self._sent.values() if is_full or at > int(known[2])]
        return self._header(tuple(tables), is_full, f"{self.instance}-{self._counter}", set(self._asked))

    def _report_on(self, reference: TableReference) -> TableReport:
        size = self.sizes.get(reference.directory)
        buckets = {} if size is None else {0: bucket_of(size)}
        return TableReport(
            namespace=reference.namespace, directory=reference.directory, manifest=reference.manifest,
            manifest_present=size is not None, buckets=buckets,
        )  # fmt: skip

    def _header(self, tables: tuple[TableReport, ...], is_full: bool, revision: str, asked: set[str]) -> AgentReport:
        unknown = tuple(path for one in self.sizes if (path := f"shop/{one}") not in asked)
        return AgentReport(
            node=self.node, revision=revision, instance=self.instance, term=self.term, lease=self.lease,
            capacity_bytes=1, free_bytes=1,
            is_full=is_full, tables=tables, unknown_directories=unknown,
        )  # fmt: skip

    def _answer_old(self, call: Call) -> Answer:
        try:
            request = OldInventoryRequest.model_validate_json(call.body)
        except ValueError:
            return 400, b'{"error": "InvalidBody", "message": "extra inputs are not permitted"}'
        self.requests.append(request)
        tables = tuple(self._report_on(reference) for reference in request.tables)
        report = self._header(tables, True, "", {"/".join(key_of(one)) for one in request.tables})
        content = report.model_dump(mode="json", by_alias=True, exclude={"instance", "is_full", "uptime_seconds"})
        revision = str(hash(str(content)))
        if call.headers.get("If-None-Match") == f'"{revision}"':
            return NOT_MODIFIED, b""
        return 200, json.dumps({**content, "revision": revision}).encode()


@dataclass
class FakeChannel:
    """Agents by URL."""

    agents: Mapping[str, FakeAgent]
    closed: bool = False

    async def send(self, url: str, call: Call, wait_seconds: float) -> Answer:
        await asyncio.sleep(0)
        status, body = await self.agents[url].answer(call, wait_seconds)
        if status not in call.accepted:
            raise error_of_response(status, body)
        return status, body

    async def close(self) -> None:
        self.closed = True


def malformed(body: bytes) -> Callable[[Call], Answer]:
    return lambda call: (200, body)


def refused(error: AgentError) -> Callable[[Call], Answer]:
    def refuse(call: Call) -> Answer:
        raise error

    return refuse
