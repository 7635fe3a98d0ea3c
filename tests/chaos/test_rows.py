"""The rows that the oracle makes are those that the session loads."""

import duckdb
import pytest

from .model import Branch, Write, apply
from .rows import (
    CONTENT,
    KEYS,
    PARTS,
    QUERIES,
    ROWS_PER_PART,
    TABLES_OF,
    Oracle,
    as_rows,
    cells,
    change_of_rows,
    rows_of,
)


def test_a_content_has_a_row_for_each_cell() -> None:
    """All rows of each batch, in each partition."""
    content = cells(range(PARTS), 3) | cells([1], 4)
    rows = Oracle().answer("content", (content,))
    assert {(part, batch) for part, batch, *_ in rows} == content
    assert {row[2] for row in rows} == {ROWS_PER_PART}


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_tells_contents_apart(query: str) -> None:
    """One batch more, one partition less, or no rows at all: another answer."""
    oracle, tables = Oracle(), TABLES_OF[query]
    contents = [cells([0, 1], 5), cells([0, 1], 5) | cells([2], 6), cells([0], 5), frozenset()]
    answers = [oracle.answer(query, (content,) * tables) for content in contents]
    assert len(set(answers)) == len(contents)


def test_rows_are_compared_without_order_and_width() -> None:
    """Decimal sums of one engine are integers of the other."""
    wide = duckdb.connect().execute("SELECT * FROM (VALUES (2, 'b', NULL), (1, 'a', CAST(7 AS HUGEINT)))")
    assert as_rows(wide.fetchall()) == as_rows([[1, "a", 7], [2, "b", None]])
    assert CONTENT.format("x").count("x") and KEYS > PARTS


@pytest.mark.parametrize("name", ["update", "delete", "merge"])
@pytest.mark.parametrize("batch", [7, 8])
def test_a_change_of_rows_leaves_what_the_model_has(name: str, batch: int) -> None:
    """DuckDB runs the statement that Spark is given."""
    before, parts = cells(range(PARTS), 3) | cells([1], 4), (1, 3)
    after = apply(Write(name, "t", parts, batch), Branch(content=before)).content
    assert after is not None
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE t AS {rows_of(before)}")
        database.execute(change_of_rows(name, parts, batch, rows_of(cells(parts, batch))).format(t="t"))
        found = database.execute(QUERIES["window"].format("t")).fetchall()
        assert as_rows(found) == Oracle().answer("window", (after,))
        assert as_rows(database.execute(CONTENT.format("t")).fetchall()) == Oracle().answer("content", (after,))
