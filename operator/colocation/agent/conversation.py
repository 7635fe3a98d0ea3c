"""The agent's side of its conversation with the operator: the newest term and question, and deletions under way.

Safety: taking a question and beginning a deletion exclude each other. A deletion begins only while its proof agrees
with the newest question, and a question that changes something is answered only after the deletions that were decided
before it have ended: its answer never counts a file that an earlier order still takes away. A question of another
session or term waits for all deletions: whoever asks it does not know what was ordered before.
"""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import NamedTuple

from colocation.model.agent import InventoryRequest
from colocation.storage.paths import TablePath

from .orders import Here, Order, untrue_part
from .question import Question, next_question, tables_that_differ


class StaleTerm(Exception):
    """A question or an order of an operator that was replaced. ``term`` is the newest that was heard."""

    def __init__(self, given: int, term: int) -> None:
        super().__init__(f"it is of term {given}, and this agent has heard of term {term}; another operator leads")
        self.term = term


class StaleOrder(Exception):
    """A part of a deletion's proof is not true here; nothing was deleted."""


class Taken(NamedTuple):
    """A question that is now the newest: whether it asks something else than the one before, the deletions that
    have to end before it is answered, and the tables that it asks about otherwise than that one.
    """

    question: Question
    is_new: bool
    running: tuple["Future[None]", ...]
    differing: frozenset[str] = frozenset()


class Conversation:
    """Safe to share between threads; the lock is held for moments only.

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
        self._running: dict[Future[None], frozenset[str]] = {}

    @property
    def uptime_seconds(self) -> float:
        """How long this process has run, by its own clock."""
        return self._clock() - self._started

    def uptime_at(self, moment: float) -> float:
        """How long the process had run at a moment of its clock; 0 for one before its start."""
        return max(0.0, moment - self._started)

    @property
    def term(self) -> int:
        """The newest term that was heard; 0 = none."""
        return self._term

    @property
    def question(self) -> Question | None:
        """The newest question."""
        return self._question

    def is_asked_about(self, table: TablePath) -> bool:
        """Whether the newest question names a table: it is one that is wanted."""
        question = self._question
        return question is not None and str(table) in question.tables

    def take(self, request: InventoryRequest) -> Taken:
        """Make a request's question the newest one.

        Raises:
            StaleTerm: a newer term was heard.
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
            self._question = now
            return Taken(now, before is None or bool(differing), running, differing)

    @contextlib.contextmanager
    def deletion(self, order: Order) -> Iterator[None]:
        """Around a deletion, in the thread that carries it out.

        Raises:
            StaleTerm: a newer term was heard.
            StaleOrder: a part of the proof is not true here.
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
                untrue = untrue_part(order, Here(self.instance, self.uptime_seconds, self._question))
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
