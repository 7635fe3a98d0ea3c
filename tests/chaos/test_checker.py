"""The checker lets a right history pass; each check fails on a history that breaks just its promise."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .checker import judge, timeline
from .history import History
from .judge_state import FALSE_STABLE_GRACE_SECONDS, MEMORY_GROWTH_BYTES, NO_CAUSE_GRACE_SECONDS
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
            self.history.note("faults", "ok", "heal", 0, fault=number)

    def look(self, seconds: float, stable: bool = True, missing: tuple[str, ...] = (), fresh: bool = True) -> None:
        """Looks at one group for so long."""
        end = self.now + seconds
        while self.now < end:
            group = {"stable": stable, "reason": "ReplicaMissing", "message": "", "missing": list(missing)}
            self.history.note("watch", "seen", "groups", 0, fresh=fresh, groups={"g": group})
            self.wait(3)

    def see(self, name: str, /, **detail: Any) -> None:
        self.history.note("watch", "seen", name, 0, **detail)

    def finish(self, well_after: float = 5.0, leftovers: tuple[str, ...] = ()) -> "Script":
        self.see("healed")
        self.wait(well_after)
        self.see("well")
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


def test_a_right_history_passes() -> None:
    """Loads, unknown outcomes that are seen later, a fault with its errors, a restored etcd, a drop and a recovery."""
    script = begun()
    script.query(ONE, manifest="m1")
    script.fault("partition", 30)
    script.failing_query("NoReplica: no replica of table demo.t could be read")
    script.write("append", TWO, "info", error="SessionLost: no answer")
    script.query(ONE, manifest="m1")
    script.query(ONE | TWO, manifest="m2")
    script.query(ONE, manifest="m1", older=True)
    script.write("create", table="u")
    script.query(ONE | TWO, frozenset(), query="join", manifest="m2")
    copy = script.history.invoke("faults", "save-etcd")
    script.history.note("faults", "ok", "save-etcd", copy)
    script.write("overwrite", cells([3], 3))
    script.query(cells([3], 3), manifest="m3")
    script.see("restored")
    script.query(ONE | TWO, manifest="m2")
    script.write("drop")
    script.failing_query("AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] t")
    script.write("recover")
    script.query(ONE | TWO, query="window", manifest="m2")
    script.look(100)
    script.look(FALSE_STABLE_GRACE_SECONDS / 2, missing=("bucket 1 on node-2",))
    script.finish()
    verdict = judge(script.history.events)
    assert verdict.violations == ()
    assert (verdict.queries, verdict.errors_allowed) == (8, {"NoReplica": 1, "SessionLost": 1, "TableNotFound": 1})


def test_a_table_younger_than_the_copy_cannot_be_recovered() -> None:
    """Neither can one without rows. For a table that was dropped with its rows the same words break the promise."""
    script = begun()
    copy = script.history.invoke("faults", "save-etcd")
    script.history.note("faults", "ok", "save-etcd", copy)
    script.write("create", table="u")
    script.write("append", TWO, table="u")
    script.see("restored")
    script.write("recover", outcome="fail", table="u", error="no dropped table 'u' of namespace 'chaos'")
    script.write("create", table="u")
    script.write("drop", table="u")
    script.write("recover", outcome="fail", table="u", error="table u was never loaded, so there is nothing to recover")
    script.finish()
    assert judge(script.history.events).violations == ()


def a_dropped_table_is_forgotten() -> Script:
    script = begun()
    script.write("drop")
    script.write("recover", outcome="fail", error="no dropped table 't' of namespace 'chaos'")
    return script.finish()


def rows_are_lost() -> Script:
    script = begun()
    script.write("append", TWO)
    script.query(ONE)
    return script.finish()


def rows_of_an_older_snapshot_are_read() -> Script:
    """The session itself says that it read the snapshot before."""
    script = begun()
    script.query(ONE, manifest="m1")
    script.write("append", TWO)
    script.query(ONE, query="group-by", manifest="m1")
    return script.finish()


def rows_vanish_that_were_seen() -> Script:
    """A write of unknown outcome was seen; then it is gone."""
    script = begun()
    script.fault("etcd-stopped")
    script.write("append", TWO, "info", error="CommitUnknown")
    script.query(ONE | TWO)
    script.query(ONE)
    return script


def a_failed_load_is_seen() -> Script:
    script = begun()
    script.fault("operator-killed")
    number = script.begin("append", TWO)
    script.query(ONE | TWO, manifest="m2")
    script.end(number, "append", "fail", error="NotReady")
    return script.finish()


def rows_come_from_nowhere() -> Script:
    """A load that was killed and is over for good lands all the same."""
    script = begun()
    script.fault("driver-killed")
    number = script.write("append", TWO, "info", error="SessionLost")
    script.query(ONE)
    script.see("settled", numbers=[number])
    script.query(ONE)
    script.query(ONE | TWO)
    return script.finish()


def half_a_load_is_read() -> Script:
    """A partition of the batch is there, the other is not."""
    script = begun()
    number = script.begin("append", TWO)
    script.query(ONE | cells([1], 2))
    script.end(number, "append")
    return script.finish()


def a_batch_has_too_few_rows() -> Script:
    script = begun()
    [first, second] = script.oracle.answer("content", (ONE,))
    script.query(ONE, rows=[first, (*second[:2], second[2] - 1, *second[3:])])
    return script.finish()


def a_join_is_wrong() -> Script:
    script = begun()
    script.write("create", table="u")
    script.write("append", TWO, table="u")
    script.query(ONE, TWO, query="join", rows=script.oracle.answer("join", (ONE, ONE)))
    return script.finish()


def a_snapshot_changes() -> Script:
    """The same manifest, other rows."""
    script = begun()
    script.query(ONE, manifest="m1")
    script.write("append", TWO)
    script.query(ONE | TWO, manifest="m1")
    return script.finish()


def an_error_comes_without_a_fault() -> Script:
    script = begun()
    script.failing_query("NoReplica: no replica of table demo.t could be read")
    return script.finish()


def an_error_comes_long_after_its_fault() -> Script:
    script = begun()
    script.fault("partition", 30)
    script.wait(500)
    script.failing_query("NoReplica: no replica of table demo.t could be read")
    return script.finish()


def an_error_is_not_of_the_fault() -> Script:
    script = begun()
    script.fault("slow-link", 30)
    script.failing_query("NoReplica: no replica of table demo.t could be read")
    return script.finish()


def the_session_hangs() -> Script:
    script = begun()
    script.failing_query("NoAnswerInTime: none after 240 s")
    return script.finish()


def a_group_is_called_stable_too_long() -> Script:
    script = begun()
    script.look(FALSE_STABLE_GRACE_SECONDS + 20, missing=("bucket 1 on node-2",))
    return script.finish()


def a_group_is_unstable_without_cause() -> Script:
    script = begun()
    script.look(100)
    script.look(NO_CAUSE_GRACE_SECONDS + 20, stable=False)
    return script.finish()


def too_many_clones_run() -> Script:
    script = begun()
    for _ in range(2):
        script.see("clones", nodes={"node-1": 3, "node-2": 1})
    return script.finish()


def memory_grows() -> Script:
    script = begun()
    for size in (*[1 << 26] * 7, (1 << 26) + MEMORY_GROWTH_BYTES + 1):
        script.see("memory", bytes={"operator": size})
    return script.finish()


def files_of_another_namespace_are_read() -> Script:
    script = begun()
    number = script.history.invoke("queries", "query", query="content", tables=["t"])
    script.history.note("queries", "ok", "query", number, rows=script.oracle.answer("content", (ONE,)), manifests={},
                        namespaces={"t": ["demo", "other"]}, namespace="demo")  # fmt: skip
    return script.finish()


def it_is_not_well_in_the_end() -> Script:
    script = begun()
    script.see("healed")
    script.wait(100)
    script.see("unwell", why=["group g is not stable"])
    return script


def it_is_well_too_late() -> Script:
    return begun().finish(well_after=5000)


def something_is_left_over() -> Script:
    return begun().finish(leftovers=("Job clone-1",))


def nothing_was_healed() -> Script:
    return begun()


BROKEN: dict[Callable[[], Script], str] = {
    rows_are_lost: "RowsLost",
    rows_of_an_older_snapshot_are_read: "RowsLost",
    rows_vanish_that_were_seen: "RowsLost",
    a_failed_load_is_seen: "FailedWriteHappened",
    rows_come_from_nowhere: "RowsFromNowhere",
    half_a_load_is_read: "WrongAnswer",
    a_batch_has_too_few_rows: "WrongAnswer",
    a_join_is_wrong: "WrongAnswer",
    a_snapshot_changes: "RowsLost",
    a_dropped_table_is_forgotten: "ErrorNotAllowed",
    an_error_comes_without_a_fault: "ErrorNotAllowed",
    an_error_comes_long_after_its_fault: "ErrorNotAllowed",
    an_error_is_not_of_the_fault: "ErrorNotAllowed",
    the_session_hangs: "ErrorNotAllowed",
    a_group_is_called_stable_too_long: "FalseStable",
    a_group_is_unstable_without_cause: "UnstableWithoutCause",
    too_many_clones_run: "LimitExceeded",
    memory_grows: "MemoryGrows",
    files_of_another_namespace_are_read: "ForeignFiles",
    it_is_not_well_in_the_end: "NotStableAgain",
    it_is_well_too_late: "NotStableAgain",
    something_is_left_over: "Leftovers",
    nothing_was_healed: "NotHealed",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_each_check_fails_on_its_own_broken_history(broken: Callable[[], Script]) -> None:
    """And first of all on nothing else."""
    assert broken().violations()[:1] == [BROKEN[broken]]


def lookalikes() -> Iterator[tuple[str, Script]]:
    """Histories that look broken and are not."""
    script = begun()
    number = script.begin("append", TWO)
    script.query(ONE | TWO, manifest="m2")
    script.end(number, "append")
    yield "seen before it was acknowledged", script.finish()
    script = begun()
    first, second = script.begin("overwrite", TWO), script.begin("append", cells([3], 3))
    script.end(second, "append")
    script.end(first, "overwrite", "fail", error="LoadConflict: overwrite lost")
    script.query(ONE | cells([3], 3))
    yield "an overwrite that another load overtook", script.finish()
    script = begun()
    script.fault("node-killed", 40)
    script.look(60, stable=False)
    yield "unstable while a node is away", script.finish()
    script = begun()
    script.look(200, missing=("bucket 1 on node-2",), fresh=False)
    yield "a verdict that has expired claims nothing", script.finish()
    script = begun()
    script.see("clones", nodes={"node-1": 3})
    script.see("clones", nodes={"node-1": 2})
    yield "a Job ended between two requests", script.finish()


@pytest.mark.parametrize("script", [pytest.param(script, id=name) for name, script in lookalikes()])
def test_what_only_looks_broken_passes(script: Script) -> None:
    """The checker does not cry wolf."""
    assert script.violations() == []


def test_the_timeline_is_about_the_violation() -> None:
    """Faults, what was done to the table, and the violation; nothing of other tables."""
    script = begun()
    script.write("create", table="other")
    script.fault("slow-link", 5)
    script.write("append", TWO)
    script.query(ONE)
    script.finish()
    [violation] = judge(script.history.events).violations
    lines = timeline(script.history.events, violation)
    assert [any(word in line for line in lines) for word in ("slow-link", "append", "other")] == [True, True, False]
    assert lines[-1].startswith("RowsLost")


def test_a_run_that_goes_on_has_no_end_to_judge() -> None:
    """While it runs only what has happened counts."""
    assert judge(nothing_was_healed().history.events, is_whole=False).violations == ()
