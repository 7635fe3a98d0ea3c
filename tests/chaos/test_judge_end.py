"""What has to be seen at a run's end: each check fails on a history that breaks just its promise."""

from collections.abc import Callable, Iterator

import pytest

from .checker import judge
from .histories import ONE, TWO, Script, begun


def an_aftermath_excuses_the_last_words() -> Script:
    script = begun()
    script.fault("partition", 30)
    script.finish(tables="t")
    script.failing_query("NoReplica: no replica of table demo.t could be read")
    return script


def a_table_is_not_read_in_the_end() -> Script:
    return begun().finish(tables="t")


def a_table_is_gone_in_the_end() -> Script:
    script = begun()
    script.finish()
    script.failing_query("AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] t")
    return script


def no_look_for_leftovers() -> Script:
    script = begun()
    for name in ("healed", "well"):
        script.see(name)
    script.see("last-words", tables=[])
    script.see("last-look", missing=[])
    return script


def a_file_has_another_content_in_the_end() -> Script:
    return begun().finish(missing=("t bucket 1 on node-2: another content",))


def a_fault_could_not_be_healed() -> Script:
    script = begun()
    script.fault("partition", 30)
    script.history.note("faults", "fail", "heal", 0, fault=3, name="partition", why="ip failed")
    return script.finish()


def nothing_ever_succeeds() -> Script:
    script = begun()
    for _ in range(6):
        script.fault("operator-killed")
        script.write("overwrite", TWO, "fail", error="NotReady")
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
    an_aftermath_excuses_the_last_words: "ErrorNotAllowed",
    a_table_is_not_read_in_the_end: "NotProved",
    a_table_is_gone_in_the_end: "ErrorNotAllowed",
    no_look_for_leftovers: "NotProved",
    a_file_has_another_content_in_the_end: "FalseStable",
    a_fault_could_not_be_healed: "NotHealed",
    nothing_ever_succeeds: "NothingDone",
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
    script.finish(tables="t")
    script.query(ONE)
    yield "each table is read in the end", script
    script = begun()
    script.fault("partition", 30)
    script.history.note("faults", "fail", "heal", 0, fault=3, name="partition", why="ip failed")
    script.history.note("faults", "ok", "heal", 0, fault=3, name="partition")
    yield "a fault that was healed at last", script.finish()


@pytest.mark.parametrize("script", [pytest.param(script, id=name) for name, script in lookalikes()])
def test_what_only_looks_broken_passes(script: Script) -> None:
    """The checker does not cry wolf."""
    assert script.violations() == []


def test_a_run_that_goes_on_has_no_end_to_judge() -> None:
    """While it runs only what has happened counts."""
    assert judge(nothing_was_healed().history.events, is_whole=False).violations == ()
