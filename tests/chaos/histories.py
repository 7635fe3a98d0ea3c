"""Histories as tests write them."""

from typing import Any

from .checker import judge
from .history import History
from .rows import Content, cells, oracle

ONE, TWO = cells([0, 1], 1), cells([1, 2], 2)


class Script:
    """Writes a history, on a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.history = History(clock=lambda: self.now)
        self.oracle = oracle()

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def write(
        self, name: str, content: Content = frozenset(), outcome: str = "ok", table: str = "t", **end: Any
    ) -> int:
        """A write from beginning to end."""
        number = self.begin(name, content, table)
        self.end(number, name, outcome, **end)
        return number

    def begin(self, name: str, content: Content = frozenset(), table: str = "t") -> int:
        batch = next(iter(content))[1] if content else 0
        return self.history.invoke("work", name, table=table, parts=sorted(part for part, _ in content), batch=batch)

    def end(self, number: int, name: str, outcome: str = "ok", **detail: Any) -> None:
        self.wait(1)
        self.history.note("work", outcome, name, number, **detail)  # type: ignore[arg-type]

    def query(self, *contents: Content, query: str = "content", manifest: str = "", **more: Any) -> None:
        """An answer of tables with these contents, with ``manifest`` for the first one."""
        rows = more.pop("rows", self.oracle.answer(query, contents))
        tables = ["t", "u"][: len(contents)]
        number = self.history.invoke("queries", "query", query=query, tables=tables, **more)
        self.wait(1)
        self.history.note("queries", "ok", "query", number, rows=rows, manifests={"t": manifest or None},
                          namespaces={"t": ["demo"]}, namespace="demo")  # fmt: skip

    def failing_query(self, error: str) -> None:
        number = self.history.invoke("queries", "query", query="content", tables=["t"])
        self.wait(1)
        self.history.note("queries", "fail", "query", number, error=error)

    def fault(self, name: str, seconds: float = 0.0) -> None:
        """A fault that is healed after some time, if it is one that holds."""
        number = self.history.invoke("faults", name)
        self.history.note("faults", "ok", name, number, holds=bool(seconds))
        if seconds:
            self.wait(seconds)
            self.history.note("faults", "ok", "heal", 0, fault=number, name=name)

    def look(
        self, seconds: float, stable: bool = True, missing: tuple[str, ...] = (), fresh: bool = True, trouble: str = "",
        unplaced: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """Looks at one group for so long."""
        end = self.now + seconds
        while self.now < end:
            group = {"stable": stable, "reason": "ReplicaMissing", "message": "", "missing": list(missing),
                     "unplaced": list(unplaced)}  # fmt: skip
            troubles = [trouble] if trouble else []
            self.history.note("watch", "seen", "groups", 0, fresh=fresh, trouble=troubles, groups={"g": group})
            self.wait(3)

    def see(self, name: str, /, **detail: Any) -> None:
        self.history.note("watch", "seen", name, 0, **detail)

    def finish(
        self, well_after: float = 5.0, leftovers: tuple[str, ...] = (), missing: tuple[str, ...] = (), tables: str = ""
    ) -> "Script":
        """All is well; ``tables``: those that are there and whose rows are not read any more."""
        self.see("healed")
        self.wait(well_after)
        self.see("well")
        self.see("last-words", tables=list(tables))
        self.see("last-look", missing=list(missing))
        self.see("leftovers", found=list(leftovers))
        return self

    def violations(self) -> list[str]:
        return [one.check for one in judge(self.history.events).violations]


def begun() -> Script:
    """A table with one batch."""
    script = Script()
    script.write("create")
    script.write("append", ONE)
    return script
