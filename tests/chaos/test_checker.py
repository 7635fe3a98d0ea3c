"""The checker lets a right history pass; each check fails on a history that breaks just its promise."""

from collections.abc import Callable, Iterator

import pytest

from .checker import judge, timeline
from .histories import ONE, TWO, Script, begun
from .judge_state import FALSE_STABLE_GRACE_SECONDS, MEMORY_GROWTH_BYTES, NO_CAUSE_GRACE_SECONDS
from .rows import cells

PATCH = "kubectl patch ct t -n chaos --request-timeout=30s exited with 1\n"


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
    assert (verdict.queries, verdict.unchecked) == (8, 0)
    assert verdict.errors_allowed == {"NoReplica": 1, "SessionLost": 1, "TableNotFound": 1}


def test_a_load_may_come_before_its_table() -> None:
    """Two users: one's load was asked for just before the other's table was there."""
    script = begun()
    create, append = script.begin("create", table="u"), script.begin("append", TWO, table="u")
    script.end(create, "create")
    script.end(append, "append", "fail", error="AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] u")
    script.finish()
    assert judge(script.history.events).violations == ()


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


def test_a_table_that_is_there_is_not_brought_back_over_itself() -> None:
    """Two users may see it in the recycle bin; the second one gets an error."""
    script = begun()
    script.write("drop")
    script.write("recover")
    script.write("recover", outcome="fail", error="table chaos/t exists; drop it before the one in the recycle bin can")
    script.finish()
    assert judge(script.history.events).violations == ()


@pytest.mark.parametrize("is_adopted", [True, False])
def test_commits_since_the_copy_come_back_only_when_they_are_adopted(is_adopted: bool) -> None:
    """An operator that did so by itself would overrule the administrator who restored etcd."""
    script = begun()
    copy = script.history.invoke("faults", "save-etcd")
    script.history.note("faults", "ok", "save-etcd", copy)
    script.write("append", TWO)
    script.see("restored")
    script.query(ONE)
    if is_adopted:
        number = script.history.invoke("administrator", "adopt", options=[])
        script.history.note("administrator", "ok", "adopt", number)
    script.query(ONE | TWO)
    script.finish()
    checks = {one.check for one in judge(script.history.events).violations}
    assert checks == (set() if is_adopted else {"RowsFromNowhere"})


def row_checks(script: Script) -> set[str]:
    return {one.check for one in judge(script.history.events).violations if one.check.startswith("Rows")}


def test_a_query_during_an_adopt_may_see_the_rows_of_before() -> None:
    """It takes seconds; a later query sees what was taken over, and then nothing else."""
    script = begun()
    copy = script.history.invoke("faults", "save-etcd")
    script.history.note("faults", "ok", "save-etcd", copy)
    script.write("append", TWO)
    script.see("restored")
    number = script.history.invoke("administrator", "adopt", options=[])
    script.query(ONE)
    script.history.note("administrator", "ok", "adopt", number)
    script.query(ONE | TWO)
    assert row_checks(script) == set()
    script.query(ONE)
    assert row_checks(script) == {"RowsLost"}


def a_dropped_table_is_forgotten() -> Script:
    script = begun()
    script.write("drop")
    script.write("recover", outcome="fail", error="no dropped table 't' of namespace 'chaos'")
    return script.finish()


def a_dropped_table_is_said_to_exist() -> Script:
    script = begun()
    script.write("drop")
    script.write("recover", outcome="fail", error="table chaos/t exists; drop it before the one in the recycle bin can")
    return script.finish()


def rows_are_lost() -> Script:
    script = begun()
    script.write("append", TWO)
    script.query(ONE)
    return script.finish()


def rows_of_an_older_snapshot_are_read() -> Script:
    """The session itself reports that it read the snapshot before."""
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


def another_snapshot_is_read_than_was_asked_for() -> Script:
    script = begun()
    script.query(ONE, manifest="m1")
    script.write("overwrite", TWO)
    script.query(TWO, manifest="m2")
    script.query(TWO, manifest="m2", older=1, wanted="m1", asked_at=3.0)
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


def a_group_stays_unstable_after_a_fault() -> Script:
    """Its aftermath excuses errors; of a group it has to be seen what it still lacks."""
    script = begun()
    script.look(100)
    script.fault("node-killed", 40)
    script.look(NO_CAUSE_GRACE_SECONDS + 20, stable=False)
    return script.finish()


def a_fault_that_was_not_made_excuses_an_error() -> Script:
    script = begun()
    number = script.history.invoke("faults", "partition")
    script.history.note("faults", "fail", "partition", number, why="too few nodes are up", untouched=True)
    script.failing_query("NoReplica: no replica of table demo.t could be read")
    return script.finish()


def a_fault_without_api_excuses_a_command_that_was_refused() -> Script:
    """Its own words hold a bound for its time."""
    script = begun()
    script.fault("api-server-stopped", 10)
    script.write("columns", outcome="info", error=f'{PATCH}The ColocatedTable "t" is invalid: spec.columns')
    return script.finish()


def a_drop_that_was_cut_off_excuses_errors_for_ever() -> Script:
    """It cannot happen any more, and rows were read since."""
    script = begun()
    script.fault("api-server-stopped", 10)
    number = script.write("drop", outcome="info", error="connection refused")
    script.wait(500)
    script.query(ONE)
    script.see("settled", numbers=[number])
    script.query(ONE)
    script.failing_query("AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] t")
    return script.finish()


def a_container_takes_too_much_memory() -> Script:
    script = begun()
    for _ in range(2):
        script.see("memory", bytes={}, killed=["chaos/session-1: driver"])
    return script.finish()


def too_many_clones_run() -> Script:
    script = begun()
    for _ in range(2):
        script.see("clones", nodes={"node-1": 3, "node-2": 1})
    return script.finish()


def a_drain_ends_while_a_map_names_the_node() -> Script:
    script = begun()
    script.see("drained", node="node-1", groups=[])
    script.see("drained", node="node-2", groups=["base"])
    return script.finish()


def memory_grows() -> Script:
    script = begun()
    for size in (*[1 << 26] * 3, (1 << 26) + MEMORY_GROWTH_BYTES + 1):
        script.see("memory", bytes={"operator": size})
    return script.finish()


def files_of_another_namespace_are_read() -> Script:
    script = begun()
    number = script.history.invoke("queries", "query", query="content", tables=["t"])
    script.history.note("queries", "ok", "query", number, rows=script.oracle.answer("content", (ONE,)), manifests={},
                        namespaces={"t": ["demo", "other"]}, namespace="demo")  # fmt: skip
    return script.finish()


def a_query_of_another_namespace_is_answered() -> Script:
    script = begun()
    number = script.history.invoke("queries", "trespass", namespace="foreign", tables=["t"])
    script.history.note("queries", "ok", "trespass", number, rows=[[0]])
    return script.finish()


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
    a_dropped_table_is_said_to_exist: "ErrorNotAllowed",
    another_snapshot_is_read_than_was_asked_for: "WrongAnswer",
    an_error_comes_without_a_fault: "ErrorNotAllowed",
    an_error_comes_long_after_its_fault: "ErrorNotAllowed",
    an_error_is_not_of_the_fault: "ErrorNotAllowed",
    the_session_hangs: "ErrorNotAllowed",
    a_group_is_called_stable_too_long: "FalseStable",
    a_group_is_unstable_without_cause: "UnstableWithoutCause",
    a_group_stays_unstable_after_a_fault: "UnstableWithoutCause",
    a_fault_that_was_not_made_excuses_an_error: "ErrorNotAllowed",
    a_fault_without_api_excuses_a_command_that_was_refused: "ErrorNotAllowed",
    a_drop_that_was_cut_off_excuses_errors_for_ever: "ErrorNotAllowed",
    a_container_takes_too_much_memory: "OutOfMemory",
    too_many_clones_run: "LimitExceeded",
    a_drain_ends_while_a_map_names_the_node: "DrainedTooEarly",
    memory_grows: "MemoryGrows",
    files_of_another_namespace_are_read: "ForeignFiles",
    a_query_of_another_namespace_is_answered: "ForeignFiles",
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
    script.write("move")
    script.write("append", TWO, "fail", error="LoadConflict: its group was a and is b")
    yield "a load that began before its table had moved", script.finish()
    script = begun()
    script.fault("node-killed", 40)
    script.look(60, stable=False)
    yield "unstable while a node is away", script.finish()
    script = begun()
    script.look(100)
    script.look(200, stable=False, trouble="node node-2 is not Ready")
    yield "unstable while a node is seen to be away", script.finish()
    script = begun()
    script.look(200, unplaced=("bucket 1 is on 2 of 3 nodes",))
    yield "stable while replicas are added after spec.replicas was raised", script.finish()
    script = begun()
    script.look(200, stable=False, unplaced=("bucket 1 is on 2 of 3 nodes",))
    yield "unstable while the map lacks a replica", script.finish()
    script = begun()
    script.look(200, missing=("bucket 1 on node-2",), fresh=False)
    yield "a verdict that has expired claims nothing", script.finish()
    script = begun()
    number = script.history.invoke("queries", "trespass", namespace="foreign", tables=["t"])
    script.history.note("queries", "fail", "trespass", number, error="this account may not see or change it")
    yield "a query of another namespace is refused", script.finish()
    script = begun()
    script.fault("api-server-stopped", 10)
    script.write("columns", outcome="info", error=f"{PATCH}The connection to the server 10.0.0.1:6443 was refused")
    yield "a command without an API server", script.finish()
    script = begun()
    number = script.history.invoke("work", "replicas", group="group-3", replicas=3)
    said = 'Error from server (NotFound): colocationgroups.colocation.dev "group-3" not found'
    script.end(number, "replicas", "fail", error=PATCH + said)
    yield "replicas of a group that went with its last table", script.finish()
    script = begun()
    script.write("overwrite", TWO)
    script.query(ONE, manifest="m1", older=1, wanted="m1", asked_at=2.5)
    yield "the older snapshot that was asked for", script.finish()
    script = begun()
    script.see("restored")
    script.query(ONE, manifest="m2", older=1, wanted="m1", asked_at=1.5)
    yield "an id that another snapshot has since etcd was restored", script.finish()
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
