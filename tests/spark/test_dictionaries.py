"""Parquet dictionaries: a write tries none where an earlier file of the table gave it up and no values repeat."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.cluster_tables import CATALOG, ClusterTables, make_table
from tests.spark.loopback import LoopbackAgents

pytestmark = pytest.mark.spark

NAMESPACE = "dictionaries"
IN = f"{CATALOG}.{NAMESPACE}"
#: A bucket has 10,000 of them; a file of less than 4,096 shows nothing about its columns.
ROWS = 60_000


def files(agents: LoopbackAgents, name: str) -> set[Path]:
    return {path for root in agents.roots.values() for path in root.glob(f"{NAMESPACE}/{name}-*/data/*.parquet")}


def has_dictionary(file: Path, column: str) -> bool:
    group = pq.read_metadata(file).row_group(0)
    chunks = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    return bool(chunks[column].has_dictionary_page)


@pytest.mark.parametrize(
    ("value", "tried"),
    [
        pytest.param("id % 5", True, id="its first rows repeat"),
        pytest.param("IF(id < 30000, id, 5)", False, id="its first rows are distinct"),
    ],
)
def test_a_dictionary_that_was_given_up(
    session: SparkSession, tables: ClusterTables, agents: LoopbackAgents, value: str, tried: bool
) -> None:
    """The first rows of a later file decide whether it is tried again; rows are the same in any case."""
    session.conf.set("spark.sql.adaptive.enabled", "false")  # One task would write all, and one executor learn.
    name = "tried" if tried else "untried"
    table = make_table(session, f"{IN}.{name}", "k BIGINT, v BIGINT, few STRING, bytes BINARY")
    rows = "SELECT id AS k, {} AS v, STRING(id % 3), CAST(STRING(id) AS BINARY) FROM range({})"
    session.sql(f"INSERT INTO {table} {rows.format('id', ROWS)}")
    distinct = files(agents, name)
    assert distinct and not any(has_dictionary(file, "v") for file in distinct)
    later = rows.format(value, ROWS)
    session.sql(f"INSERT INTO {table} {later}")
    new = files(agents, name) - distinct
    assert new and all(has_dictionary(file, "few") for file in new)
    assert (all if tried else any)(has_dictionary(file, "v") == tried for file in new)
    both = f"SELECT * FROM ({rows.format('id', ROWS)}) UNION ALL SELECT * FROM ({later})"
    assert session.sql(f"SELECT * FROM {table} EXCEPT ALL ({both})").count() == 0
    assert session.table(table).count() == 2 * ROWS


@pytest.mark.parametrize("rows", [0, 1, 1023, 1024, 1025])
def test_files_of_few_rows(session: SparkSession, tables: ClusterTables, rows: int) -> None:
    """A file may end before its first rows have shown anything."""
    table = make_table(session, f"{IN}.few_{rows}", "k BIGINT, v STRING")
    session.sql(f"INSERT INTO {table} SELECT id, STRING(id) FROM range({ROWS})")
    session.sql(f"INSERT INTO {table} SELECT 7, STRING(id) FROM range({rows})")
    assert session.table(table).where("k = 7").count() == rows + 1
    assert session.table(table).select("v").distinct().count() == ROWS
