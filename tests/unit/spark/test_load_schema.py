"""Rows that do not fit are refused with what was given and what is expected."""

import pytest

from colocation.spark.write.load_schema import Field, SchemaMismatch, matched_names

EXPECTED = [Field("id", "bigint"), Field("price", "decimal(15,2)"), Field("tags", "array<string>")]


def test_order_and_case_do_not_matter() -> None:
    """Columns are found by name, without case, and come in the table's order."""
    given = [Field("TAGS", "array<string>"), Field("Id", "bigint"), Field("price", "decimal(15,2)")]
    assert matched_names("shop.orders", EXPECTED, given) == ["Id", "price", "TAGS"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param([*EXPECTED[:2]], ["column tags (array<string>) is missing"], id="missing"),
        pytest.param([*EXPECTED, Field("x", "int")], ["column x (int) is not in the table"], id="unknown"),
        pytest.param(
            [Field("id", "int"), *EXPECTED[1:]], ["column id is int, expected bigint: cast it"], id="type"
        ),
        pytest.param(
            [Field("id", "bigint"), Field("price", "decimal(12,2)"), EXPECTED[2]],
            ["price is decimal(12,2), expected decimal(15,2)"],
            id="precision",
        ),
        pytest.param([*EXPECTED, Field("ID", "bigint")], ["column ID is given twice"], id="twice"),
        pytest.param(
            [Field("idd", "bigint"), *EXPECTED[1:]],
            ["column id (bigint) is missing", "column idd (bigint) is not in the table"],
            id="all-problems-at-once",
        ),
    ],
)
def test_refusals(given: list[Field], words: list[str]) -> None:
    """Every difference is named, in one error."""
    with pytest.raises(SchemaMismatch) as refused:
        matched_names("shop.orders", EXPECTED, given)
    assert "shop.orders" in str(refused.value)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize("name", ["interval", "void"])
def test_what_parquet_cannot_hold_is_refused(name: str) -> None:
    """Whatever the rows have: no file could be written."""
    with pytest.raises(SchemaMismatch, match=f"column i is {name}, which Parquet files cannot hold"):
        matched_names("shop.orders", [Field("i", name)], [Field("i", name)])
