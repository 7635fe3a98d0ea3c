"""Spark makes the rows that the oracle makes, and answers the queries alike."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from .rows import QUERIES, TABLES_OF, as_rows, cells, oracle, select_rows

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    yield session
    session.stop()


def test_every_query_has_the_same_answer(spark: SparkSession) -> None:
    """Over two tables of two batches each."""
    contents = (cells([0, 1, 3], 1) | cells([2], 7), cells([1, 2], 12) | cells([0, 1, 2, 3], 5))
    for name, batches in {"t": (([0, 1, 3], 1), ([2], 7)), "u": (([1, 2], 12), ([0, 1, 2, 3], 5))}.items():
        rows = [spark.sql(select_rows(parts, batch)) for parts, batch in batches]
        rows[0].unionByName(rows[1]).createOrReplaceTempView(name)
    for query, text in QUERIES.items():
        answer = spark.sql(text.format("t", "u")).collect()
        assert as_rows(answer) == oracle().answer(query, contents[: TABLES_OF[query]]), query


def test_the_columns_are_those_of_the_tables(spark: SparkSession) -> None:
    """By name and type, with a column that was added."""
    from .scene import table_spec

    columns = table_spec("g", added=1)["columns"]
    schema = spark.sql(select_rows([0], 1, ["added_1"])).schema
    assert [(field.name, field.dataType.simpleString()) for field in schema] == [
        (column["name"], column["type"]) for column in columns
    ]
