"""The model: what a table may hold after writes with known and unknown outcomes."""

import pytest

from .model import Branch, TableModel, Write
from .rows import SHIFT, Content, cells

ONE, TWO, THREE = cells([0, 1], 1), cells([1, 2], 2), cells([1], 3)


def table(*writes: Write) -> TableModel:
    """A table to which these writes happened, one after the other."""
    model = TableModel()
    for number, write in enumerate((Write("create", "t"), *writes), 1000):
        model.begin(number, write)
        model.happened(number)
    return model


def append(content: Content, batch: int) -> Write:
    return Write("append", "t", tuple(part for part, _ in content), batch)


@pytest.mark.parametrize(
    ("write", "content"),
    [
        pytest.param(append(TWO, 2), ONE | TWO, id="append"),
        pytest.param(Write("overwrite", "t", (1, 2), 2), TWO, id="overwrite"),
        pytest.param(Write("overwrite-partitions", "t", (1, 2), 2), cells([0], 1) | TWO, id="overwrite-partitions"),
        pytest.param(Write("drop-partitions", "t", (1,)), cells([0], 1), id="drop-partitions"),
        pytest.param(Write("update", "t", (1, 2), 3), cells([0], 1) | cells([1], 1 + SHIFT), id="update"),
        pytest.param(Write("update", "t", (1, 2), 2), ONE, id="update of no row"),
        pytest.param(Write("delete", "t", (1, 2), 3), cells([0], 1), id="delete"),
        pytest.param(Write("merge", "t", (1, 2), 3), cells([0], 1) | cells([1, 2], 3), id="merge"),
        pytest.param(Write("compact", "t"), ONE, id="compact"),
        pytest.param(Write("drop", "t"), None, id="drop"),
    ],
)
def test_a_write_changes_what_its_name_reports(write: Write, content: Content | None) -> None:
    """Each kind of write, on a table with two partitions of one batch."""
    assert table(append(ONE, 1), write).contents() == {content}


def test_a_dropped_table_comes_back_with_its_rows() -> None:
    """Recovered from the bin; a load into no table changes nothing."""
    model = table(append(ONE, 1), Write("drop", "t"), append(TWO, 2), Write("recover", "t"))
    assert model.contents() == {ONE}


def test_an_unknown_write_may_land_at_any_time_until_it_is_settled() -> None:
    """Both states are possible; after a read that shows the old one it may still land; settled, it may not."""
    model = table(append(ONE, 1))
    model.begin(1, append(TWO, 2))
    assert model.contents() == {ONE, ONE | TWO}
    model.narrow(ONE)
    assert model.contents() == {ONE, ONE | TWO}
    model.settle(1)
    model.narrow(ONE)
    assert model.contents() == {ONE}


def test_a_read_that_shows_an_unknown_write_settles_it() -> None:
    """Once seen, its rows may not go again."""
    model = table(append(ONE, 1))
    model.begin(1, append(TWO, 2))
    model.narrow(ONE | TWO)
    assert (model.contents(), model.open) == ({ONE | TWO}, {})


def test_two_open_writes_happen_in_any_order() -> None:
    """An overwrite and an append, both unknown: four states."""
    model = table(append(ONE, 1))
    model.begin(1, Write("overwrite", "t", (1, 2), 2))
    model.begin(2, append(THREE, 3))
    assert model.contents() == {ONE, TWO, ONE | THREE, TWO | THREE}
    model.happened(2)
    assert model.contents() == {ONE | THREE, TWO | THREE, TWO}
    model.did_not_happen(1)
    assert model.contents() == {ONE | THREE}


def test_a_read_sees_any_state_of_its_time() -> None:
    """Of before, of after, and it reports whether it can be taken for the present."""
    model = table(append(ONE, 1))
    model.begin_read(9)
    model.begin(1, append(TWO, 2))
    model.happened(1)
    model.begin_read(10)
    assert model.end_read(9) == ({ONE, ONE | TWO}, False)
    assert model.end_read(10) == ({ONE | TWO}, True)


def test_a_restored_cluster_has_the_states_of_its_copy() -> None:
    """Rows committed since are gone; a write that is still under way may land on top, or had landed before."""
    model = table(append(ONE, 1))
    model.begin_save()
    saved = model.end_save()
    model.begin(1, append(TWO, 2))
    model.happened(1)
    model.begin(2, append(THREE, 3))
    model.restore(saved)
    assert model.contents() == {ONE, ONE | THREE}
    model.happened(2)
    assert model.contents() == {ONE, ONE | THREE}


def test_a_copy_is_of_any_moment_while_it_is_taken() -> None:
    """What was committed meanwhile is in it or not."""
    model = table(append(ONE, 1))
    model.begin_save()
    model.begin(1, append(TWO, 2))
    model.happened(1)
    saved = model.end_save()
    model.restore(saved)
    assert model.contents() == {ONE, ONE | TWO}


def test_a_table_that_is_made_after_the_copy_is_gone() -> None:
    """A copy knows nothing of it."""
    model = table(append(ONE, 1))
    model.restore(())
    assert model.branches == {Branch()}


def test_an_adopted_table_is_as_at_any_moment_since_the_copy() -> None:
    """Or as it is now: it may have been changed since the restore."""
    model = table(append(ONE, 1))
    model.begin_save()
    saved = model.end_save()
    model.begin(1, append(TWO, 2))
    model.happened(1)
    model.begin(2, Write("drop", "t"))
    model.happened(2)
    model.restore(saved)
    model.begin(3, append(THREE, 3))
    model.happened(3)
    assert model.contents() == {ONE | THREE}
    model.begin_adopt()
    assert model.contents() == {ONE, ONE | TWO, None, ONE | THREE}


def test_a_read_that_runs_while_tables_are_adopted_may_see_either_state() -> None:
    """It proves nothing about the present."""
    model = table(append(ONE, 1))
    model.begin_save()
    saved = model.end_save()
    model.begin(1, append(TWO, 2))
    model.happened(1)
    model.restore(saved)
    model.begin_read(9)
    model.begin_adopt()
    assert model.end_read(9) == ({ONE, ONE | TWO}, False)
