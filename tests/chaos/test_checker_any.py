"""Of any run of a store that works, whatever is lost, late or restored, the checker finds nothing; of one that loses a
committed row, it finds that.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from .checker import judge
from .history import History
from .model import Branch, Write, apply
from .rows import Content, oracle

WRITES = (
    *["append"] * 5, *["overwrite-partitions"] * 2, "overwrite", "drop-partitions", "merge", "update", "delete",
    "compact", "drop", "recover",
    "recover",
)  # fmt: skip
SEEDS = range(60)
MOST_UNKNOWN, MOST_RUNNING = 2, 5
"""At a time: with each write that is open the states double."""


class Store:
    """Tables that work: each write happens at one moment between its beginning and its end, or later, or never."""

    def __init__(self, random: Random) -> None:
        self.random, self.now = random, 0.0
        self.history = History(clock=lambda: self.now)
        self.tables = {"t": Branch(), "u": Branch()}
        self.copy: dict[str, Branch] | None = None
        self.running: list[Callable[[], None]] = []
        self.versions: dict[tuple[str, Content | None], str] = {}
        self.batch = self.unknown = 0

    def tell(self, steps: int) -> History:
        """A run of so many steps."""
        for name in self.tables:
            self.write(Write("create", name))
            while self.running:
                self.go_on()
        for _ in range(steps):
            self.now += 1
            choice = self.random.random()
            if choice < 0.35 and len(self.running) < MOST_RUNNING:
                self.write(self.any_write())
            elif choice < 0.6:
                self.read()
            elif choice < 0.63:
                self.save_or_restore()
            else:
                self.go_on()
        while self.running:
            self.go_on()
        self.read()
        return self.history

    def go_on(self) -> None:
        """One of the things that are under way comes a step further."""
        if self.running:
            self.running.pop(self.random.randrange(len(self.running)))()

    def any_write(self) -> Write:
        self.batch += 1
        parts = tuple(sorted(self.random.sample(range(4), self.random.randint(1, 4))))
        return Write(self.random.choice(WRITES), self.random.choice(sorted(self.tables)), parts, self.batch)

    def write(self, write: Write) -> None:
        name = write.name
        number = self.history.invoke("work", name, table=write.table, parts=list(write.parts), batch=write.batch)
        outcomes = ["ok", "ok", "ok", "fail", *(["info", "info and never"] if self.unknown < MOST_UNKNOWN else [])]
        outcome = self.random.choice(outcomes) if name != "create" else "ok"
        self.unknown += outcome.startswith("info")

        def settle() -> None:
            self.unknown -= 1
            self.history.note("runner", "seen", "settled", 0, numbers=[number])

        def land() -> None:
            if outcome not in ("fail", "info and never"):
                self.tables[write.table] = apply(write, self.tables[write.table])
            if outcome in ("ok", "fail"):
                self.running.append(self.note("work", outcome, name, number))
            else:
                self.running.append(settle)

        self.running.append(land)
        if outcome.startswith("info"):
            self.note("work", "info", name, number)()

    def note(self, *words: Any, **detail: Any) -> Callable[[], None]:
        def noted() -> None:
            self.history.note(*words, error="LoadConflict", **detail)

        return noted

    def read(self) -> None:
        """Both tables at one moment, by two queries of one table or one query of both."""
        names = self.random.choice([["t"], ["u"], ["t", "u"], ["t", "t"]])
        query = "join" if len(names) > 1 else self.random.choice(["content", "content", "window"])
        number = self.history.invoke("queries", "query", query=query, tables=names)

        def look() -> None:
            contents = [self.tables[name].content for name in names]
            if None in contents:
                self.running.append(self.note("queries", "fail", "query", number))
                return
            answer = oracle().answer(query, tuple(content for content in contents if content is not None))
            manifests = {name: self.manifest(name, self.tables[name].content) for name in names}
            self.running.append(self.note("queries", "ok", "query", number, rows=answer, manifests=manifests))

        self.running.append(look)

    def manifest(self, name: str, content: Content | None) -> str | None:
        """One for each content; of an empty table the session names none."""
        return self.versions.setdefault((name, content), f"m{len(self.versions)}") if content else None

    def save_or_restore(self) -> None:
        if self.copy is None or self.random.random() < 0.5:
            number = self.history.invoke("faults", "save-etcd")
            self.copy = dict(self.tables)
            self.history.note("faults", "ok", "save-etcd", number)
        else:
            self.tables = dict(self.copy)
            self.history.note("faults", "seen", "restored")


def of_rows(history: History) -> list[str]:
    """What the checker reports of rows: errors are not this test's."""
    verdict = judge(history.events, is_whole=False)
    return [str(one) for one in verdict.violations if one.check != "ErrorNotAllowed"]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_found_in_a_store_that_works(seed: int) -> None:
    """Unknown outcomes, late landings, overlapping reads and writes, restored copies, dropped tables."""
    assert of_rows(Store(Random(seed)).tell(120)) == []


def test_a_lost_row_is_found() -> None:
    """After any story two more commits, and half of the second one is gone: seen wherever the table is there."""
    found = 0
    for seed in SEEDS:
        store = Store(Random(seed))
        store.tell(25)
        for name, parts, batch in (("overwrite", [0], 10**5), ("append", [1, 2], 10**6)):
            number = store.history.invoke("work", name, table="t", parts=parts, batch=batch)
            store.history.note("work", "ok", name, number)
        query = store.history.invoke("queries", "query", query="content", tables=["t"])
        answer = oracle().answer("content", (frozenset({(0, 10**5), (1, 10**6)}),))
        store.history.note("queries", "ok", "query", query, rows=answer, manifests={})
        found += bool(of_rows(store.history))
    assert found > 0.9 * len(SEEDS)
