"""Tables of Iceberg and Delta are changed by rows of ours, and ours by rows of theirs; their rows are as in DuckDB."""

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.integration.control_plane import ControlPlane
from tests.spark.cluster_tables import CATALOG, ClusterTables
from tests.spark.loopback import LoopbackAgents
from tests.spark.sql_clients import client_conf

pytestmark = pytest.mark.spark

NAMESPACE = "formats"
OURS = "CLUSTERED BY (k) INTO 6 BUCKETS TBLPROPERTIES ('colocate_with'='sales')"
MERGE_ON_READ = ", ".join(f"'write.{command}.mode'='merge-on-read'" for command in ("merge", "update", "delete"))
MADE_AS = {
    f"{CATALOG}.{NAMESPACE}": OURS,
    "ice.copied": "USING iceberg",
    "ice.merged": f"USING iceberg PARTITIONED BY (bucket(4, k)) TBLPROPERTIES ({MERGE_ON_READ})",
    "spark_catalog.plain": "USING delta",
    "spark_catalog.vectors": "USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
}
"""How tables are made, by their namespace."""
QUICK = "ice.copied"
OTHERS = [pytest.param(namespace, marks=() if namespace == QUICK else pytest.mark.deep)
          for namespace, made in MADE_AS.items() if made != OURS]  # fmt: skip
FILLED = [
    "INSERT INTO {t} SELECT id AS k, id * 2 AS v FROM {ids} WHERE id % 3 < 2",
    "INSERT INTO {s} SELECT id AS k, id * 2 AS v FROM {ids} WHERE id % 3 < 1",
]
CHANGES = [
    "MERGE INTO {t} t USING {s} s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v + 1 "
    "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)",
    "MERGE INTO {t} t USING (SELECT k, max(v) AS v FROM {s} GROUP BY k) s ON t.k = s.k AND s.v > 60 "
    "WHEN MATCHED AND s.v % 4 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 0",
    "MERGE INTO {t} t USING {s} s ON t.k = s.k + 1 WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED BY SOURCE AND t.k > 90 THEN UPDATE SET v = -1",
    "INSERT INTO {t} SELECT k + 1000, v FROM {s}",
]
WITH_SUBQUERIES = [
    "UPDATE {t} SET v = 7 WHERE k IN (SELECT k FROM {s} WHERE v < 50)",
    "DELETE FROM {t} WHERE EXISTS (SELECT 1 FROM {s} s WHERE s.k = {t}.k AND s.v > 100)",
]
"""Delta refuses them of its tables."""


@pytest.mark.parametrize("other", OTHERS)
def test_row_changes_between_formats(
    other: str, agents: LoopbackAgents, plane: ControlPlane, tables: ClusterTables, tmp_path: Path
) -> None:
    """Of the other format's table by ours, and of ours by the other; Spark asks some of the sources twice."""
    statements: list[tuple[str, str]] = [(f"CREATE NAMESPACE {other}", "")]
    wanted: list[list[list[int]]] = []
    ours, suffix = next(iter(MADE_AS)), other.replace(".", "_")
    for target, source in ((f"{other}.t", f"{ours}.s_{suffix}"), (f"{ours}.t_{suffix}", f"{other}.s")):
        for table in (target, source):
            made_as = MADE_AS[table.rpartition(".")[0]]
            statements.append((f"CREATE TABLE {table} (k BIGINT, v BIGINT) {made_as}", ""))
        changes = CHANGES if target.startswith("spark_catalog") else CHANGES + WITH_SUBQUERIES
        for statement in FILLED + changes:
            statements.append((statement.format(t=target, s=source, ids="range(0, 120, 1, 2)"), target))
        wanted += rows_of_duckdb(FILLED + changes)
    conf = client_conf(agents, plane) | {
        "spark.sql.catalog.ice.warehouse": str(tmp_path / "ice"), "spark.sql.warehouse.dir": str(tmp_path / "delta"),
    }  # fmt: skip
    changed = [statement for statement, target in statements if target]
    for statement, found, rows in zip(changed, run({"conf": conf, "statements": statements}), wanted, strict=True):
        assert found == rows, statement


def run(asked: dict[str, object]) -> list[list[list[int]]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.other_formats_program"],
        input=json.dumps(asked), capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    error = [line for line in done.stderr.splitlines() if not line.lstrip().startswith("at ")]
    assert done.returncode == 0, "\n".join(error)[-6000:]
    found: list[list[list[int]]] = json.loads(done.stdout.splitlines()[-1])
    return found


def rows_of_duckdb(statements: list[str]) -> list[list[list[int]]]:
    """The target's rows after each statement."""
    found = []
    with duckdb.connect() as database:
        database.execute("CREATE TABLE t (k BIGINT, v BIGINT); CREATE TABLE s (k BIGINT, v BIGINT)")
        for statement in statements:
            database.execute(statement.format(t="t", s="s", ids="(SELECT range AS id FROM range(120))"))
            found.append([list(row) for row in database.execute("SELECT k, v FROM t ORDER BY k, v").fetchall()])
    return found
