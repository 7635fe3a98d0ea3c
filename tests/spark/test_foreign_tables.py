"""What registration finds in Spark's catalog and did not make: it stays as it is, with its rows and files."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlparse

import pytest
from pyspark.sql import SparkSession

from colocation.spark import RegisteredTable
from colocation.spark.read.session_catalog import ForeignTable, SessionCatalog
from tests.spark.catalog_server import read_snapshot, refresh, register
from tests.spark.conftest import add_table
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

ROWS = 42
FOREIGN_ROWS = f"SELECT id AS k, id AS theirs FROM range({ROWS})"
OURS = "TBLPROPERTIES ('colocation.dev/table'='shop/orders')"


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
    session.sql(f"CREATE TABLE shop.orders USING parquet LOCATION '{folder}' {OURS} AS {FOREIGN_ROWS}")


def make_of_another_format(session: SparkSession, folder: Path) -> None:
    session.sql(f"CREATE TABLE shop.orders USING csv AS {FOREIGN_ROWS}")


def make_view(session: SparkSession, folder: Path) -> None:
    session.sql(f"CREATE VIEW shop.orders COMMENT 'theirs' AS {FOREIGN_ROWS}")


def make_view_of_another_namespace(session: SparkSession, folder: Path) -> None:
    session.sql(f"CREATE VIEW shop.orders {OURS.replace('shop/', 'accounts/')} AS {FOREIGN_ROWS}")


@pytest.mark.parametrize(
    ("make", "found"),
    [
        pytest.param(make_managed, "MANAGED, provider parquet, location file:", id="managed"),
        pytest.param(make_external, "EXTERNAL, provider parquet, location file:", id="external"),
        pytest.param(make_external_with_our_mark, "EXTERNAL, provider parquet, location file:", id="marked"),
        pytest.param(make_of_another_format, "MANAGED, provider csv", id="csv"),
        pytest.param(make_view, "VIEW", id="view"),
        pytest.param(make_view_of_another_namespace, "VIEW, colocation.dev/table=accounts/orders", id="namespace"),
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
        assert "spark_catalog.shop.orders exists and is not a view that register made" in reason
        assert f"database shop, {found}" in reason
        assert 'register(spark, database="shop_colocation")' in reason
    assert (count(session, "orders"), count(session, "lines")) == (ROWS, 120)
    assert session.table("shop.orders").columns == ["k", "theirs"]
    with pytest.raises(ForeignTable, match=r"spark_catalog\.shop\.orders exists"):
        register(session, tables=["orders"], catalog=catalog)
    assert count(session, "orders") == ROWS


def test_files_of_a_managed_table_stay(session: SparkSession, catalog: FakeCatalog) -> None:
    """Also when it takes the name of a view that registration made, or of one whose table no longer exists."""
    register(session, catalog=catalog)
    for name in ("orders", "lines"):
        session.sql(f"DROP VIEW shop.{name}")
        session.sql(f"CREATE TABLE shop.{name} USING parquet AS {FOREIGN_ROWS}")
    del catalog.tables["lines"]
    found = [SessionCatalog(session, "shop", "shop").find(name) for name in ("orders", "lines")]
    folders = [Path(urlparse(entry.location).path) for entry in found if entry]
    files = [sorted(path.name for path in folder.iterdir()) for folder in folders]
    assert [table.registered for table in refresh(session, catalog)] == [False]
    assert [sorted(path.name for path in folder.iterdir()) for folder in folders] == files
    assert (count(session, "orders"), count(session, "lines")) == (ROWS, ROWS)


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
    finally:
        session.sql("DROP DATABASE shop_colocation CASCADE")
    with pytest.raises(ValueError, match="letters, digits and _"):
        register(session, catalog=catalog, database="shop.colocation")


def test_a_table_that_appears_between_look_and_creation_stays(
    session: SparkSession, catalog: FakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody takes the name just before the view is made: theirs stays."""
    run = SparkSession.sql

    def take_and_run(self: SparkSession, statement: str) -> object:
        if statement.startswith("CREATE VIEW") and "`orders`" in statement:
            run(self, f"CREATE TABLE IF NOT EXISTS shop.orders USING parquet AS {FOREIGN_ROWS}")
        return run(self, statement)

    monkeypatch.setattr(SparkSession, "sql", take_and_run)
    assert not by_table(register(session, catalog=catalog))["orders"].registered
    assert count(session, "orders") == ROWS


def test_tables_of_earlier_releases_are_ours(session: SparkSession, catalog: FakeCatalog) -> None:
    """They were external tables at a ``coloc://`` location; now they become views."""
    location = f"coloc://shop/{catalog.tables['orders'].directory}/nothing/data"
    session.sql(f"CREATE TABLE shop.orders (k BIGINT) USING parquet LOCATION '{location}' {OURS}")
    assert [table.registered for table in register(session, catalog=catalog)] == [True, True]
    assert (count(session, "orders"), count(session, "lines")) == (100, 120)


def test_the_default_catalog_is_not_touched(
    session: SparkSession, catalog: FakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the session's default catalog is, views are looked for, dropped and made in ``spark_catalog`` only."""
    statements: list[str] = []
    run = SparkSession.sql
    monkeypatch.setattr(SparkSession, "sql", lambda self, text: (statements.append(text), run(self, text))[1])
    session.conf.set("spark.sql.defaultCatalog", "colocation")
    try:
        register(session, catalog=catalog)
        del catalog.tables["lines"]
        assert [table.registered for table in refresh(session, catalog)] == [True]
    finally:
        session.conf.unset("spark.sql.defaultCatalog")
    [dropped] = [text for text in statements if text.startswith("DROP")]
    assert dropped == "DROP VIEW IF EXISTS `spark_catalog`.`shop`.`lines`"
    assert all("`spark_catalog`." in text for text in statements if not text.startswith("SHOW"))
    assert count(session, "orders") == 100


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
    assert "/colocation-" in session.catalog.getDatabase("shop").locationUri


def test_a_view_of_ours_is_replaced_in_one_statement(
    session: SparkSession, catalog: FakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others' queries find the old view or the new one at any time. A pinned snapshot is for all until undone."""
    register(session, catalog=catalog)
    other = session.newSession()
    run = SparkSession.sql

    def look_and_run(self: SparkSession, statement: str) -> object:
        assert other.table("shop.orders").count() == 100
        return run(self, statement)

    monkeypatch.setattr(SparkSession, "sql", look_and_run)
    for snapshots in ({"orders": 1}, {}):
        register(session, tables=["orders"], catalog=catalog, snapshots=snapshots)
        entry = SessionCatalog(session, "shop", "shop").find("orders")
        assert entry is not None
        assert entry.text.endswith(" VERSION AS OF 1") == bool(snapshots)
        assert other.table("shop.orders").count() == 100


def test_a_table_that_takes_the_name_of_our_view_stays(
    session: SparkSession, catalog: FakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody drops our view, and takes its name just before it is replaced: theirs stays."""
    register(session, catalog=catalog)
    run = SparkSession.sql

    def take_and_run(self: SparkSession, statement: str) -> object:
        if statement.startswith("CREATE OR REPLACE VIEW"):
            run(self, "DROP VIEW shop.orders")
            run(self, f"CREATE TABLE shop.orders USING parquet AS {FOREIGN_ROWS}")
        return run(self, statement)

    monkeypatch.setattr(SparkSession, "sql", take_and_run)
    with pytest.raises(ForeignTable, match=r"spark_catalog\.shop\.orders exists"):
        register(session, tables=["orders"], catalog=catalog, snapshots={"orders": 1})
    assert count(session, "orders") == ROWS
