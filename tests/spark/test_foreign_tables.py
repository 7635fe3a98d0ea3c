"""What registration finds in Spark's catalog and did not make: it stays as it is, with its rows and files."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlparse

import pytest
from pyspark.sql import SparkSession

from colocation.spark import RegisteredTable, load, read_snapshot, refresh, register
from colocation.spark.read.registrar import REGISTERED_PREFIX
from colocation.spark.read.session_catalog import ForeignTable, SessionCatalog
from tests.spark.conftest import add_table
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

ROWS = 42
FOREIGN_ROWS = f"SELECT id AS k, id AS theirs FROM range({ROWS})"


@pytest.fixture
def session(spark: SparkSession, catalog: FakeCatalog) -> SparkSession:
    """ColocatedTables ``orders`` of 100 rows and ``lines`` of 120; a database ``shop`` that somebody else made."""
    add_table(catalog, "orders", spark.sql("SELECT id AS k, id AS v FROM range(100)"), ["k"])
    add_table(catalog, "lines", spark.sql("SELECT id AS k FROM range(120)"), ["k"])
    spark.sql("CREATE DATABASE shop COMMENT 'production'")
    return spark


def count(session: SparkSession, table: str) -> int:
    return session.table(f"shop.{table}").count()


def by_table(registered: list[RegisteredTable]) -> dict[str, RegisteredTable]:
    return {table.table: table for table in registered}


def make_managed(session: SparkSession, folder: Path) -> None:
    session.sql(f"CREATE TABLE shop.orders USING parquet AS {FOREIGN_ROWS}")


def make_external(session: SparkSession, folder: Path) -> None:
    session.sql(f"CREATE TABLE shop.orders USING parquet LOCATION '{folder}' AS {FOREIGN_ROWS}")


def make_external_with_our_mark(session: SparkSession, folder: Path) -> None:
    session.sql(
        f"CREATE TABLE shop.orders USING parquet LOCATION '{folder}' "
        f"TBLPROPERTIES ('colocation.dev/table'='shop/orders-1') AS {FOREIGN_ROWS}"
    )


def make_of_another_format(session: SparkSession, folder: Path) -> None:
    session.sql(f"CREATE TABLE shop.orders USING csv AS {FOREIGN_ROWS}")


def make_view(session: SparkSession, folder: Path) -> None:
    session.sql(f"CREATE VIEW shop.orders COMMENT 'snapshot 1, theirs' AS {FOREIGN_ROWS}")


def statements_of(session: SparkSession, table: str) -> list[str]:
    """Those that registered the table in this session."""
    noted = [json.loads(value) for key, value in session.conf.getAll.items() if key.startswith(REGISTERED_PREFIX)]
    return next(one["statements"] for one in noted if one["table"] == table)


def rename_column(catalog: FakeCatalog, table: str, stored: str) -> None:
    """Give a column another name, which makes a view above the registered table."""
    found = catalog.tables[table]
    columns = tuple(
        column.model_copy(update={"name": "renamed", "stored_as": stored}) if column.name == stored else column
        for column in found.spec.columns
    )
    catalog.tables[table] = replace(found, spec=found.spec.model_copy(update={"columns": columns}))


@pytest.mark.parametrize(
    ("make", "found"),
    [
        pytest.param(make_managed, "MANAGED, provider parquet, location file:", id="managed"),
        pytest.param(make_external, "EXTERNAL, provider parquet, location file:", id="external"),
        pytest.param(make_external_with_our_mark, "EXTERNAL, provider parquet, location file:", id="marked"),
        pytest.param(make_of_another_format, "MANAGED, provider csv", id="csv"),
        pytest.param(make_view, "VIEW", id="view"),
    ],
)
def test_a_foreign_table_keeps_its_name_and_rows(
    session: SparkSession, catalog: FakeCatalog, make: Callable[..., None], found: str, tmp_path: Path
) -> None:
    """The ColocatedTable of that name is not registered, and says what was found and what to do; the other one is."""
    make(session, tmp_path / "theirs")
    for registered in (by_table(register(session, catalog=catalog)), by_table(refresh(session, catalog))):
        assert (registered["orders"].registered, registered["lines"].registered) == (False, True)
        reason = registered["orders"].reason
        assert "spark_catalog.shop.orders exists and is not a table that register made" in reason
        assert f"database shop, {found}" in reason
        assert 'register(spark, database="shop_colocation")' in reason
    assert (count(session, "orders"), count(session, "lines")) == (ROWS, 120)
    assert session.table("shop.orders").columns == ["k", "theirs"]
    with pytest.raises(ForeignTable, match=r"spark_catalog\.shop\.orders exists"):
        register(session, tables=["orders"], catalog=catalog)
    assert count(session, "orders") == ROWS


def test_a_table_of_another_namespace_keeps_its_name(session: SparkSession, catalog: FakeCatalog) -> None:
    """Two namespaces in one database do not replace each other's tables."""
    register(session, catalog=catalog)
    [statement] = statements_of(session, "orders")
    session.sql("DROP TABLE shop.orders")
    session.sql(statement.replace("'colocation.dev/table'='shop/", "'colocation.dev/table'='accounts/"))
    assert "colocation.dev/table=accounts/orders" in by_table(refresh(session, catalog))["orders"].reason
    assert session.catalog.tableExists("shop.orders")


def test_files_of_a_managed_table_stay(session: SparkSession, catalog: FakeCatalog) -> None:
    """Also when it takes the name of a table that registration made, or of one that no longer exists."""
    register(session, catalog=catalog)
    for name in ("orders", "lines"):
        session.sql(f"DROP TABLE shop.{name}")
        session.sql(f"CREATE TABLE shop.{name} USING parquet AS {FOREIGN_ROWS}")
    del catalog.tables["lines"]
    folders = [
        Path(urlparse(SessionCatalog(session, "shop", "shop").find(name).location).path) for name in ("orders", "lines")
    ]
    files = [sorted(path.name for path in folder.iterdir()) for folder in folders]
    assert [table.registered for table in refresh(session, catalog)] == [False]
    assert [sorted(path.name for path in folder.iterdir()) for folder in folders] == files
    assert (count(session, "orders"), count(session, "lines")) == (ROWS, ROWS)


def test_a_foreign_table_below_a_view_stays(session: SparkSession, catalog: FakeCatalog) -> None:
    """A renamed column makes a view and a table below it, whose name may be taken too; then nothing is changed."""
    register(session, catalog=catalog)
    session.sql(f"CREATE TABLE shop.orders__stored USING parquet AS {FOREIGN_ROWS}")
    rename_column(catalog, "orders", "v")
    assert "spark_catalog.shop.orders__stored exists" in by_table(refresh(session, catalog))["orders"].reason
    assert count(session, "orders__stored") == ROWS
    session.sql("DROP TABLE shop.orders__stored")
    assert by_table(refresh(session, catalog))["orders"].registered
    assert session.table("shop.orders").columns == ["k", "renamed"]


def test_an_older_snapshot_takes_no_foreign_name(session: SparkSession, catalog: FakeCatalog) -> None:
    """Nor does a table that is read at an older snapshot."""
    session.sql(f"CREATE TABLE shop.orders__snapshot_1 USING parquet AS {FOREIGN_ROWS}")
    with pytest.raises(ForeignTable):
        read_snapshot(session, "orders", 1, catalog=catalog)
    assert count(session, "orders__snapshot_1") == ROWS


def test_another_database(session: SparkSession, catalog: FakeCatalog) -> None:
    """Registered elsewhere, a namespace's tables are all there, and leave the database where they were before."""
    register(session, tables=["lines"], catalog=catalog)
    make_managed(session, Path())
    try:
        names = [table.name for table in register(session, catalog=catalog, database="shop_colocation")]
        assert names == ["shop_colocation.lines", "shop_colocation.orders"]
        assert session.table("shop_colocation.orders").count() == 100
        assert (count(session, "orders"), session.catalog.tableExists("shop.lines")) == (ROWS, False)
        assert [table.name for table in refresh(session, catalog)] == names
        assert read_snapshot(session, "orders", 1, catalog=catalog).count() == 100
        assert session.catalog.tableExists("shop_colocation.orders__snapshot_1")
    finally:
        session.sql("DROP DATABASE shop_colocation CASCADE")
    with pytest.raises(ValueError, match="letters, digits and _"):
        register(session, catalog=catalog, database="shop.colocation")


def test_a_table_that_appears_between_look_and_creation_stays(
    session: SparkSession, catalog: FakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody takes the name just after ours was dropped: theirs stays."""
    register(session, catalog=catalog)
    catalog.groups["sales"] = replace(
        catalog.groups["sales"], status=catalog.groups["sales"].status.model_copy(update={"stable": False})
    )
    run = SparkSession.sql

    def run_and_take(self: SparkSession, statement: str) -> object:
        done = run(self, statement)
        if statement.startswith("DROP TABLE") and "`orders`" in statement:
            make_managed(self, Path())
        return done

    monkeypatch.setattr(SparkSession, "sql", run_and_take)
    assert not by_table(refresh(session, catalog))["orders"].registered
    assert count(session, "orders") == ROWS


def test_tables_of_earlier_releases_are_ours(session: SparkSession, catalog: FakeCatalog) -> None:
    """They have no mark, but lie at a ``coloc://`` location; views above them say of which snapshot they are."""
    rename_column(catalog, "orders", "v")
    register(session, catalog=catalog)
    before = [text for table in ("orders", "lines") for text in statements_of(session, table)]
    session.sql("DROP DATABASE shop CASCADE")
    session.sql("CREATE DATABASE shop")
    for statement in before:
        earlier, found = re.subn(r" TBLPROPERTIES \(.*?\)", "", statement)
        session.sql(earlier)
        assert found == 1
    load(session.sql("SELECT id AS k, id AS renamed FROM range(5)"), "orders", catalog=catalog)
    load(session.sql("SELECT id AS k FROM range(5)"), "lines", catalog=catalog)
    assert [table.registered for table in refresh(session, catalog)] == [True, True]
    assert (count(session, "orders"), count(session, "lines")) == (105, 125)
    assert SessionCatalog(session, "shop", "shop").find("orders").mark.startswith("shop/orders-")


def test_the_default_catalog_is_not_touched(
    session: SparkSession, catalog: FakeCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the session's default catalog is, tables are looked for, dropped and made in ``spark_catalog`` only."""
    statements: list[str] = []
    run = SparkSession.sql
    monkeypatch.setattr(SparkSession, "sql", lambda self, text: (statements.append(text), run(self, text))[1])
    session.conf.set("spark.sql.catalog.elsewhere", "org.apache.spark.sql.no.such.Catalog")
    session.conf.set("spark.sql.defaultCatalog", "elsewhere")
    try:
        register(session, catalog=catalog)
        table = replace(catalog.tables["lines"], uid="ffffffff-0000")
        catalog.tables["lines"] = replace(table, status=table.status.model_copy(update={"snapshot": None}))
        assert [table.registered for table in refresh(session, catalog)] == [True, True]
    finally:
        session.conf.unset("spark.sql.defaultCatalog")
        session.conf.unset("spark.sql.catalog.elsewhere")
    assert any(text.startswith("DROP TABLE") for text in statements)
    assert all("`spark_catalog`." in text and "PURGE" not in text for text in statements)
    assert (count(session, "orders"), count(session, "lines")) == (100, 0)


def test_a_new_database_lies_in_the_warehouse(session: SparkSession, catalog: FakeCatalog) -> None:
    """What users make in it must not go with the driver's temporary files; one that is there stays as it is."""
    register(session, catalog=catalog)
    assert session.catalog.getDatabase("shop").description == "production"
    session.sql("DROP DATABASE shop CASCADE")
    register(session, catalog=catalog)
    warehouse = session.conf.get("spark.sql.warehouse.dir").removeprefix("file:")
    assert session.catalog.getDatabase("shop").locationUri.removeprefix("file:").startswith(warehouse)


def test_a_warehouse_that_takes_no_folder_hinders_nothing(
    session: SparkSession, catalog: FakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver's own catalog lives as long as the driver: there the database lies among its temporary files."""
    session.sql("DROP DATABASE shop")
    run = SparkSession.sql

    def in_no_folder(self: SparkSession, statement: str) -> object:
        made_in_warehouse = statement.startswith("CREATE DATABASE") and "LOCATION" not in statement
        return run(self, f"{statement} LOCATION '/dev/null/warehouse'" if made_in_warehouse else statement)

    monkeypatch.setattr(SparkSession, "sql", in_no_folder)
    assert [table.registered for table in register(session, catalog=catalog)] == [True, True]
    assert session.catalog.getDatabase("shop").locationUri.endswith("databases/shop")
