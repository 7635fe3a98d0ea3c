"""What is found out for one question is used for the next ones, and changes no answer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.admission import known as module
from colocation.admission.known import Known
from colocation.state.parse import parse_group, parse_table

from .reviews import group, known, table

NAMES = st.sampled_from(["orders", "lines", "new"])
SPECS = st.fixed_dictionaries(
    {"colocateWith": st.sampled_from(["sales", "stock", ""]), "buckets": st.sampled_from([None, 2, 4])}
)


def fresh(one: Known) -> Known:
    """The same knowledge, of which nothing was found out yet."""
    return Known(one.now, one.groups, one.tables, one.snapshot, one.data_root)


@given(st.lists(st.tuples(NAMES, SPECS), max_size=4), st.integers(1, 4))
def test_answers_do_not_depend_on_earlier_questions(changes: list[tuple[str, dict[str, Any]]], buckets: int) -> None:
    """Each question is about what is there and one change, not about the changes of others."""
    now = known([group(), group("stock")], [table(), table("lines", colocateWith="stock")])
    for name, spec in changes:
        asked = now.with_table(parse_table(table(name, **spec)))
        assert asked.membership == fresh(asked).membership
        asked = now.with_group(parse_group(group(buckets=buckets)))
        assert asked.membership == fresh(asked).membership
    assert now.membership == fresh(now).membership


def test_what_is_known_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And of a change only what is different."""
    now = known()
    _ = now.membership
    taken: list[str] = []
    of = module.Memo.of
    monkeypatch.setattr(module.Memo, "of", lambda memo, name, view, find, *rest: of(
        memo, name, view, lambda view: (taken.append(name[1]), find(view))[1], *rest
    ))  # fmt: skip
    _ = now.with_table(parse_table(table("new"))).membership
    assert set(taken) == {"uid-of-new"}
