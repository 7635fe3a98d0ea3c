"""The agent's side of its conversation with the operator: the newest term and question, and deletions under way.

Safety: taking a question and beginning a deletion exclude each other. A deletion begins only while its proof agrees
with the newest question. A question that changes something is answered only after the deletions decided before it have
ended, so its answer never counts a file that an earlier order still deletes. A question of another session or term
waits for all deletions, since its asker does not know what was ordered before.

A deletion's proof is void if what it was decided from no longer holds: its deadline on this process's own clock has
passed; it comes from another process's report (``instance``), or from a replaced operator (``term``); or by the newest
question the table has moved, was re-created or has another snapshot.
"""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from colocation.model.agent import AskedTable, DeletionProof, InventoryRequest, SeenLease, TableReference
from colocation.storage.paths import TablePath


class UnknownQuestion(Exception):
    """The question is based on one that the agent does not remember; it has to be asked in full."""


@dataclass(frozen=True)
class Question:
    """The last question. ``tables`` by '<namespace>/<directory>'."""

    session: str
    number: int
    term: int
    tables: Mapping[str, AskedTable] = field(default_factory=dict)


def key_of(reference: TableReference) -> str:
    """A table's key in reports and questions."""
    return f"{reference.namespace}/{reference.directory}"


def next_question(before: Question | None, request: InventoryRequest) -> Question:
    """The question of a request, following the remembered one.

    A request may come twice (its answer was lost); the second time it changes nothing.

    Raises:
        UnknownQuestion: its base is not the remembered question, or it is older than that.
    """
    same_session = before is not None and before.session == request.session
    if before is not None and same_session and request.number < before.number:
        raise UnknownQuestion(f"question {request.number} is older than {before.number}, the newest; ask in full")
    if request.base is None:
        tables: Mapping[str, AskedTable] = {key_of(asked.reference): asked for asked in request.changed}
    else:
        if before is None or not same_session:
            raise UnknownQuestion(f"session {request.session!r} is not remembered; ask in full")
        tables = _changed(before.tables, request)
        if request.base != before.number and (request.number != before.number or tables != before.tables):
            raise UnknownQuestion(
                f"question {request.base} is not remembered, the newest is {before.number}; ask in full"
            )
    return Question(request.session, request.number, request.term, tables)


def tables_that_differ(before: Question | None, now: Question) -> frozenset[str]:
    """Tables that two questions describe differently, or that only one of them names."""
    known = before.tables if before is not None else {}
    if known is now.tables:
        return frozenset()
    return frozenset(key for key in known.keys() | now.tables.keys() if known.get(key) != now.tables.get(key))


def _changed(tables: Mapping[str, AskedTable], request: InventoryRequest) -> Mapping[str, AskedTable]:
    if not (request.changed or request.removed):
        return tables
    kept = {key: asked for key, asked in tables.items() if key not in request.removed}
    return kept | {key_of(asked.reference): asked for asked in request.changed}


@dataclass(frozen=True)
class Order:
    """A deletion: a bucket's files or garbage (``manifests`` are live), or a folder into the recycle bin."""

    kind: Literal["drop", "collect", "recycle"]
    table: TablePath
    proof: DeletionProof
    manifests: tuple[str, ...] = ()
    bucket: int | None = None


@dataclass(frozen=True)
class OrderContext:
    """What an order is checked against: this process, its clock, and the newest question (None: none yet)."""

    instance: str
    uptime_seconds: float
    question: Question | None


def untrue_part(order: Order, here: OrderContext) -> str | None:
    """The first part of the order's proof that does not hold here, in words; None if all of it holds. Pure."""
    proof = order.proof
    if proof.instance != here.instance:
        return f"it was decided from a report of agent process {proof.instance!r}, and this is {here.instance!r}"
    if here.uptime_seconds > proof.not_after_seconds:
        late = here.uptime_seconds - proof.not_after_seconds
        return f"it was to be carried out until {proof.not_after_seconds:.1f} s of uptime, {late:.1f} s ago"
    if here.question is None:
        return "this agent was not asked about any table yet"
    asked = here.question.tables.get(str(order.table))
    if order.kind == "recycle":
        return None if asked is None else f"the newest question names {order.table}: it is a table that is wanted"
    if asked is None:
        return f"the newest question does not name {order.table}"
    return _other_epoch(order, asked) or _other_manifests(order, asked)


def _other_epoch(order: Order, asked: AskedTable) -> str | None:
    proof = order.proof
    for what, ordered, newest in (
        ("table uid", proof.table_uid, asked.uid),
        ("group uid", proof.group_uid, asked.group_uid),
        ("map version", proof.map_version, asked.map_version),
    ):
        if ordered != newest:
            return f"it was decided for {what} {ordered!r}, and the newest question has {newest!r}"
    return None


def _other_manifests(order: Order, asked: AskedTable) -> str | None:
    live = asked.reference.live_manifests
    if not live:
        return f"the newest question calls no manifest of {order.table} live, so nothing is known to be garbage"
    unnamed = [sha256 for sha256 in live if sha256 not in order.manifests]
    return f"the newest question calls manifest {unnamed[0]} live, which the order does not name" if unnamed else None


class StaleTerm(Exception):
    """A question or an order of a replaced operator. ``term`` is the newest that the agent has heard."""

    def __init__(self, given: int, term: int) -> None:
        super().__init__(f"it is of term {given}, and this agent has heard of term {term}; another operator leads")
        self.term = term


class StaleOrder(Exception):
    """A part of a deletion's proof does not hold here; nothing was deleted."""


class TakenQuestion(NamedTuple):
    """A question that is now the newest.

    ``is_new``: it differs from the one before. ``running``: deletions that have to end before it is answered.
    ``differing``: tables that it describes differently.
    """

    question: Question
    is_new: bool
    running: tuple["Future[None]", ...]
    differing: frozenset[str] = frozenset()


class Conversation:
    """Safe to share between threads; the lock is held only for moments.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.instance = secrets.token_hex(8)
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()
        self._term = 0
        self._question: Question | None = None
        self._lease: SeenLease | None = None
        self._is_frozen = False
        self._running: dict[Future[None], frozenset[str]] = {}

    @property
    def uptime_seconds(self) -> float:
        """How long this process has run, by its own clock."""
        return self._clock() - self._started

    def uptime_at(self, moment: float) -> float:
        """The uptime at a moment of the process's clock; 0 before its start."""
        return max(0.0, moment - self._started)

    @property
    def term(self) -> int:
        """The newest term that the agent has heard; 0 = none."""
        return self._term

    @property
    def question(self) -> Question | None:
        """The newest question."""
        return self._question

    @property
    def lease(self) -> SeenLease | None:
        """What an operator asked to remember last."""
        return self._lease

    def is_asked_about(self, table: TablePath) -> bool:
        """Whether the newest question names the table: it is wanted."""
        question = self._question
        return question is not None and str(table) in question.tables

    def keeps_recycled(self, table: TablePath) -> bool:
        """Whether the table's folder has to stay in the recycle bin, whatever its age.

        It is wanted, or the operator found the cluster's state restored, or has not asked this process anything yet.
        """
        return self._question is None or self._is_frozen or self.is_asked_about(table)

    def take(self, request: InventoryRequest) -> TakenQuestion:
        """Make a request's question the newest one.

        Raises:
            StaleTerm: the agent has heard a newer term.
            UnknownQuestion: its base is not the newest question.
        """
        with self._lock:
            self._hear(request.term)
            before, now = self._question, next_question(self._question, request)
            differing = tables_that_differ(before, now)
            known_orders = before is not None and (before.session, before.term) == (now.session, now.term)
            running = tuple(
                ended for ended, tables in self._running.items() if not known_orders or tables & differing
            )
            self._question, self._lease = now, request.lease or self._lease
            self._is_frozen = request.frozen
            return TakenQuestion(now, before is None or bool(differing), running, differing)

    @contextlib.contextmanager
    def deletion(self, order: Order) -> Iterator[None]:
        """Around a deletion, in the thread that performs it.

        Raises:
            StaleTerm: the agent has heard a newer term.
            StaleOrder: a part of the proof does not hold here.
        """
        with self._under_way(order.proof.term, frozenset({str(order.table)}), order):
            yield

    @contextlib.contextmanager
    def restoring(self, term: int, tables: frozenset[str]) -> Iterator[None]:
        """Around a change of folders that deletes nothing.

        Raises:
            StaleTerm: a newer term was heard.
        """
        with self._under_way(term, tables, None):
            yield

    @contextlib.contextmanager
    def _under_way(self, term: int, tables: frozenset[str], order: Order | None) -> Iterator[None]:
        ended: Future[None] = Future()
        with self._lock:
            self._hear(term)
            if order is not None:
                untrue = untrue_part(order, OrderContext(self.instance, self.uptime_seconds, self._question))
                if untrue is not None:
                    raise StaleOrder(f"nothing was deleted: {untrue}; decide from a new report")
            self._running[ended] = tables
        try:
            yield
        finally:
            with self._lock:
                del self._running[ended]
            ended.set_result(None)

    def _hear(self, term: int) -> None:
        if term < self._term:
            raise StaleTerm(term, self._term)
        self._term = term
