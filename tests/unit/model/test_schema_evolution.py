"""Columns may be added, renamed and moved while files are there; nothing else."""

import pytest
from pydantic import ValidationError

from colocation.model.schema_check import refused_change
from colocation.model.table import ColocatedTableSpec, Column

KEY = Column(name="id", type="bigint", nullable=False)
PRICE = Column(name="price", type="decimal(10,2)")
STORED = (KEY, PRICE)


@pytest.mark.parametrize(
    ("wanted", "refusal"),
    [
        pytest.param((PRICE, KEY), None, id="moved"),
        pytest.param((*STORED, Column(name="note", type="string")), None, id="added"),
        pytest.param((KEY, Column(name="cost", type="decimal(10,2)", stored_as="price")), None, id="renamed"),
        pytest.param((KEY, Column(name="price", type="DECIMAL(10, 2)")), None, id="type-in-another-spelling"),
        pytest.param((KEY, Column(name="PRICE", type="decimal(10,2)", stored_as="price")), None, id="renamed-by-case"),
        pytest.param(
            (KEY, Column(name="PRICE", type="decimal(10,2)")),
            "column PRICE is called price in its files, and storedAs should say so", id="another-case",
        ),
        pytest.param((Column(name="id", type="bigint"), PRICE), None, id="null-is-allowed-now"),
        pytest.param(
            (KEY, Column(name="price", type="decimal(12,2)")),
            "column price has type decimal(10,2) and should be decimal(12,2)", id="widened",
        ),
        pytest.param((KEY,), "column price (decimal(10,2)) exists and is no longer in the spec", id="removed"),
        pytest.param(
            (KEY, Column(name="price", type="decimal(10,2)", nullable=False)),
            "column price may hold NULL and should not", id="null-is-forbidden-now",
        ),
        pytest.param(
            (*STORED, Column(name="note", type="string", nullable=False)),
            "column note (string) is new and would have to be nullable", id="added-without-null",
        ),
    ],
)  # fmt: skip
def test_changes_of_columns(wanted: tuple[Column, ...], refusal: str | None) -> None:
    """Both values are named."""
    assert refused_change(STORED, wanted) == refusal


def test_a_renamed_column_may_be_renamed_again() -> None:
    """What counts is the name in the files, which stays the first one."""
    once = (KEY, Column(name="cost", type="int", stored_as="price"))
    assert refused_change(once, (KEY, Column(name="total", type="int", stored_as="price"))) is None
    assert refused_change(once, (KEY, Column(name="price", type="int"))) is None


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([KEY, PRICE, Column(name="cost", type="int", stored_as="Price")], "columns stored under one name: price"),
        ([Column(name="id", type="bigint", stored_as="old"), PRICE], "bucketedBy column id has storedAs"),
    ],
)
def test_unsound_stored_names_are_refused(columns: list[Column], words: str) -> None:
    """Two columns cannot be one in the files, and what files are laid out by keeps its name."""
    with pytest.raises(ValidationError, match=words):
        ColocatedTableSpec(colocate_with="sales", columns=columns, bucketed_by=("id",))
