"""The rows of chaos' tables: which there are follows from a few numbers, in any SQL dialect and without any file.

Each write brings one *batch*: ``ROWS_PER_PART`` rows in each partition that it touches, all made of the batch's number
by plain arithmetic. So a table's content is a set of (partition, batch), and its rows can be made again by DuckDB.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

import duckdb

PARTS = 4
"""Partitions of each table."""
KEYS = 97
"""Different values of the bucket key, so that joins of two batches find partners."""
ROWS_PER_PART = 60

Cell = tuple[int, int]
"""(partition, batch)."""
Content = frozenset[Cell]

COLUMNS = (("key", "bigint"), ("part", "int"), ("batch", "bigint"), ("value", "bigint"), ("note", "string"))
"""Of each table, (name, type). ``key`` is the bucket key, ``part`` the partition column."""


def cells(parts: Iterable[int], batch: int) -> Content:
    """What a write of this batch brings."""
    return frozenset((part, batch) for part in parts)


def select_rows(parts: Iterable[int], batch: int, more_columns: Iterable[str] = ()) -> str:
    """Spark's SELECT of a batch's rows. ``more_columns``: strings that were added to the table; they are NULL."""
    more = "".join(f", CAST(NULL AS STRING) AS `{name}`" for name in more_columns)
    numbers = ", ".join(map(str, sorted(set(parts))))
    return f"SELECT {_expressions('STRING')}{more} FROM {_cells_in_spark(numbers, batch)}"


SHIFT = KEYS * 1000
"""What an update adds to a batch: keys and values stay as they are."""


def is_changed(cell: Cell, parts: Iterable[int], batch: int) -> bool:
    """Whether an update, delete or merge of this batch changes or removes a cell's rows: half of those of its parts."""
    return cell[0] in parts and cell[1] % 2 == batch % 2


def change_of_rows(name: str, parts: Iterable[int], batch: int, source: str = "") -> str:
    """SQL of an ``update``, ``delete`` or ``merge``, in which ``{t}`` stands for the table. ``source``: of a merge, the
    batch's rows.
    """
    numbers = ", ".join(map(str, sorted(set(parts))))
    changed = f"t.part IN ({numbers}) AND t.batch % 2 = {batch % 2}"
    names = [column for column, _ in COLUMNS]
    return {
        "update": f"UPDATE {{t}} AS t SET batch = batch + {SHIFT}, "
        f"note = concat('b', CAST(batch + {SHIFT} AS STRING), substring(note, instr(note, '-'))) WHERE {changed}",
        "delete": f"DELETE FROM {{t}} AS t WHERE {changed}",
        "merge": f"MERGE INTO {{t}} AS t USING ({source}) AS s "
        "ON t.key = s.key AND t.part = s.part AND t.batch = s.batch "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{one}' for one in names)}) "
        f"WHEN NOT MATCHED BY SOURCE AND {changed} THEN DELETE",
    }[name]


def _cells_in_spark(parts: str, batch: int) -> str:
    ids = f"SELECT id AS i, CAST({batch} AS BIGINT) AS batch FROM range({ROWS_PER_PART})"
    return f"({ids}) LATERAL VIEW explode(array({parts})) p AS part"


def _expressions(text: str) -> str:
    return (
        f"CAST((i * 7 + batch * 13 + part * 5) % {KEYS} AS BIGINT) AS key, CAST(part AS INT) AS part, batch, "
        "CAST((i * 31 + batch * 17) % 1000 AS BIGINT) AS value, "
        f"concat('b', CAST(batch AS {text}), '-', CAST(i % 10 AS {text})) AS note"
    )


CONTENT = """SELECT part, batch, count(*) AS n, sum(key) AS k, sum(value) AS v, sum(length(note)) AS l
             FROM {0} GROUP BY part, batch"""
"""All of a table, a row for each cell: a torn batch shows in the counts."""
JOIN = """SELECT a.part AS part, count(*) AS n, sum(a.value - b.value) AS v, max(b.note) AS m
          FROM {0} a JOIN {1} b ON a.key = b.key GROUP BY a.part"""
GROUPED = "SELECT key, count(*) AS n, sum(value) AS v, min(note) AS m FROM {0} GROUP BY key"
WINDOW = """SELECT key, sum(r * value) AS v FROM (
              SELECT key, value, row_number() OVER (PARTITION BY key ORDER BY value, batch, part, note) AS r FROM {0}) t
            WHERE r <= 3 GROUP BY key"""
QUERIES = {"content": CONTENT, "join": JOIN, "group-by": GROUPED, "window": WINDOW}
"""Name -> SQL that Spark and DuckDB understand alike; ``{0}`` and ``{1}`` are tables. All columns have names, and the
order of rows does not count."""
TABLES_OF = {name: 1 + ("{1}" in text) for name, text in QUERIES.items()}

Row = tuple[Any, ...]


class Oracle:
    """DuckDB's answers over contents."""

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        self._known: dict[tuple[str, tuple[Content, ...]], tuple[Row, ...]] = {}

    def answer(self, query: str, contents: tuple[Content, ...]) -> tuple[Row, ...]:
        """The query's rows, sorted, over tables with these contents."""
        key = (query, contents)
        if key not in self._known:
            sources = [f"({rows_of(content)})" for content in contents]
            self._known[key] = as_rows(self._connection.execute(QUERIES[query].format(*sources)).fetchall())
        return self._known[key]


@cache
def oracle() -> Oracle:
    """One for all that judge in this process: it remembers its answers."""
    return Oracle()


def as_rows(rows: Iterable[Iterable[Any]]) -> tuple[Row, ...]:
    """Rows in one order, with numbers of one type (DuckDB's sums are wider than Spark's)."""
    plain = (tuple(one if one is None or isinstance(one, str) else int(one) for one in row) for row in rows)
    return tuple(sorted(plain, key=repr))


def rows_of(content: Content) -> str:
    """DuckDB's SELECT of a content's rows; an empty one has the columns all the same."""
    values = ", ".join(f"({part}, {batch})" for part, batch in sorted(content)) or "(0, 0)"
    only = "" if content else " WHERE false"
    source = f"(SELECT range AS i FROM range({ROWS_PER_PART})) CROSS JOIN (VALUES {values}) c(part, batch)"
    return f"SELECT {_expressions('VARCHAR')} FROM {source}{only}"
