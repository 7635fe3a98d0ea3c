"""The image's programs: their command lines and their last line."""

import datetime
import json

import pytest

from colocation.spark import RegisteredTable
from colocation.spark.jobs import compact, drop_partitions, load, sql
from colocation.spark.jobs.result import print_result
from colocation.submit.jobs import CompactRequest, DropPartitionsRequest, LoadRequest, SqlRequest
from colocation.submit.run import find_result


def test_load_understands_what_the_command_sends() -> None:
    """``colocation load`` and the program agree on the command line."""
    request = LoadRequest(table="orders", path="s3a://lake/o", format="csv", select="*, year(d) as y", mode="overwrite")
    options = load.parse(request.arguments("shop"))
    assert (options.table, options.namespace, options.path, options.format) == ("orders", "shop", "s3a://lake/o", "csv")
    assert (options.select, options.mode) == (["*", "year(d) as y"], "overwrite")


def test_load_of_a_source_without_a_path() -> None:
    """Options go through as they are, with whatever signs are in their values."""
    request = LoadRequest(table="orders", format="jdbc", options=("url=jdbc:x://h/d?a=b", "dbtable=(select 1) t"))
    options = load.parse(request.arguments("shop"))
    assert (options.path, options.format) == (None, "jdbc")
    assert options.option == {"url": "jdbc:x://h/d?a=b", "dbtable": "(select 1) t"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["orders"], "nothing says what to read"),
        (["orders", "--from", "x", "--option", "header"], "'header' is not KEY=VALUE"),
    ],
)
def test_a_load_that_cannot_be_read_is_wrong_usage(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, before Spark starts."""
    with pytest.raises(SystemExit) as ended:
        load.parse(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "request_type"), [(compact, CompactRequest), (drop_partitions, DropPartitionsRequest)]
)
def test_partitions_are_named_as_their_folders_are(program: object, request_type: type[CompactRequest]) -> None:
    """Escapes and NULL are read as in a folder's name; several partitions are several options."""
    request = request_type(table="orders", partitions=("dt=2024-01-01/zone=a%2Fb", "dt=__HIVE_DEFAULT_PARTITION__"))
    options = program.parse(request.arguments("shop"))  # type: ignore[attr-defined]
    assert (options.table, options.namespace) == ("orders", "shop")
    assert options.partitions == [{"dt": "2024-01-01", "zone": "a/b"}, {"dt": None}]


def test_a_drop_without_a_partition_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """It would else drop nothing, or all."""
    with pytest.raises(SystemExit) as ended:
        drop_partitions.parse(["orders"])
    assert ended.value.code == 2
    assert "--partition" in capsys.readouterr().err


def test_sql_understands_what_the_command_sends() -> None:
    """``colocation sql`` and the program agree, also on a statement that looks like an option."""
    request = SqlRequest(statement="--x\nselect 1", explain=True, snapshots={"orders": 3, "a=b": 4})
    options = sql.parse(request.arguments("shop"))
    assert (options.statement, options.namespace, options.explain) == ("--x\nselect 1", "shop", True)
    assert options.snapshots == [("orders", 3), ("a=b", 4)]


@pytest.mark.parametrize(("statement", "query"), [
    ("EXPLAIN SELECT 1", "SELECT 1"), (" explain\nSELECT 1", "SELECT 1"), ("EXPLAIN FORMATTED SELECT 1", None),
    ("SELECT 1", None), ("EXPLAINED", None),
])
def test_explain_statements(statement: str, query: str | None) -> None:
    """A plain EXPLAIN is ours; Spark's modes of it, and anything else, are Spark's."""
    found = sql.EXPLAIN.match(statement)
    assert (statement[found.end():] if found else None) == query


def test_a_snapshot_without_an_id_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, with the form that is allowed."""
    with pytest.raises(SystemExit) as ended:
        sql.parse(["SELECT 1", "--snapshot", "orders"])
    assert ended.value.code == 2
    assert "TABLE=ID" in capsys.readouterr().err


def test_an_unknown_mode_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, with what is allowed."""
    with pytest.raises(SystemExit) as ended:
        load.parse(["orders", "--from", "x", "--mode", "replace"])
    assert ended.value.code == 2
    assert "overwrite-partitions" in capsys.readouterr().err


def test_the_result_is_found_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever else the driver prints, the submitter finds the result; dates become text."""
    print("26/11/21 INFO noise")
    print_result({"rows": [[1, datetime.date(2024, 1, 1)]]})
    assert find_result(capsys.readouterr().out) == {"rows": [[1, "2024-01-01"]]}


def test_rows_as_csv_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    """All outputs show all rows, NULL too."""

    rows = [(1, None), (2, datetime.date(2024, 1, 1))]
    for output in sql.OUTPUTS:
        sql.print_rows(["id", "day"], rows, output)
    text = capsys.readouterr().out.splitlines()
    assert text[:3] == ["id  day", "1   NULL", "2   2024-01-01"]
    assert json.loads(text[3]) == [{"id": 1, "day": None}, {"id": 2, "day": "2024-01-01"}]
    assert text[4:] == ["id,day", "1,", "2,2024-01-01"]


@pytest.mark.parametrize("statement", ["SELECT count(*) FROM orders", "select 1 from `shop`.`ORDERS` o"])
def test_a_statement_that_names_a_table_that_is_not_registered_is_refused(statement: str) -> None:
    """Spark may know another table of that name, whose rows would be a wrong answer."""
    foreign = RegisteredTable("shop.orders", "shop", "orders", "", False, "it is taken", 0, "", (), 0)
    with pytest.raises(sql.TableNotRegistered, match=r"table shop\.orders could not be registered: it is taken"):
        sql.refuse_unregistered(statement, [foreign])
    sql.refuse_unregistered("SELECT count(*) FROM lines", [foreign])
