"""The image's programs: their command lines and their last line."""

import datetime

import pytest

from colocation.model.driver_output import token_digest
from colocation.spark.jobs import compact, drop_partitions, load, rebucket, roll_back, sql
from colocation.spark.jobs.program import print_result
from colocation.spark.write.loading import MissingColumns
from colocation.submit.programs import (
    CompactRequest,
    DropPartitionsRequest,
    LoadRequest,
    RebucketRequest,
    RollBackRequest,
    SqlRequest,
)
from colocation.submit.run import find_result


def test_load_understands_what_the_command_sends() -> None:
    """``colocation load`` and the program agree on the command line."""
    request = LoadRequest(table="orders", path="s3a://lake/o", format="csv", select="*, year(d) as y", mode="overwrite",
                          key="--orders 2026")  # fmt: skip
    options = load.parse(request.arguments("shop"))
    assert (options.table, options.namespace, options.path, options.format) == ("orders", "shop", "s3a://lake/o", "csv")
    assert (options.select, options.mode) == (["*", "year(d) as y"], "overwrite")
    assert options.idempotency_key == "--orders 2026"


@pytest.mark.parametrize(
    ("path", "parent", "columns"),
    [
        ("s3a://lake/orders", "s3a://lake/orders", set()),
        ("s3a://lake/orders/Day=2026-11-21/", "s3a://lake/orders", {"day"}),
        ("s3a://lake/orders/day=1/a%3Db=2/part-0.parquet", "s3a://lake/orders", {"day", "a=b"}),
        ("/lake/=x", "/lake/=x", set()),
        ("", "", set()),
    ],
)  # fmt: skip
def test_folders_of_partitions_in_a_path(path: str, parent: str, columns: set[str]) -> None:
    """Where the table's folder ends, and the columns that a load of the path does not see."""
    assert load.base_path(path) == (parent, columns)


@pytest.mark.parametrize(
    ("given", "file_format", "said"),
    [
        pytest.param([], "csv", "the input has no columns, and so no rows: name files that have some", id="empty file"),
        pytest.param(["k;v"], "csv", "the input has one column, k;v: add --option 'sep=;'", id="semicolons"),
        pytest.param(["k\tv"], "CSV", "the input has one column, k\tv: add --option 'sep=\\t'", id="tabs"),
        pytest.param(["k;v"], "json", "the input has no column k, v; it has k;v. Give all columns", id="not CSV"),
        pytest.param(["k;v", "w"], "csv", "the input has no column k, v; it has k;v, w. Give all", id="two columns"),
    ],
)
def test_what_to_do_when_columns_are_missing(given: list[str], file_format: str, said: str) -> None:
    """NULLs for all columns are no answer to a wrong separator, or to a file without any."""
    options = load.parse(["orders", "--from", "/in", "--format", file_format])
    assert load.remedy(MissingColumns(["k", "v"], given, "orders"), given, options).startswith(said)


def test_a_column_that_has_another_name_in_the_input() -> None:
    """NULL is no answer for a key; with `*`, the column of the other name would be one too many."""
    missing = MissingColumns(["k"], ["v", "order id"], "orders", others=["order id"])
    assert load.remedy(missing, ["v", "order id"], load.parse(["orders", "--from", "/in"])) == (
        "the input has no column k; it has v, order id, of which the table has no order id. Give all columns of the "
        "table, under other names by --select 'v, `order id` AS k', for NULL by --select 'v, NULL AS k'"
    )


def test_load_of_a_source_without_a_path() -> None:
    """Options go through as they are, with whatever signs are in their values."""
    request = LoadRequest(table="orders", format="jdbc", options=("url=jdbc:x://h/d?a=b", "dbtable=(select 1) t"))
    options = load.parse(request.arguments("shop"))
    assert (options.path, options.format) == (None, "jdbc")
    assert options.option == {"url": "jdbc:x://h/d?a=b", "dbtable": "(select 1) t"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["orders"], "no input is given"),
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


def test_a_roll_back_names_its_snapshot() -> None:
    """The command and the program agree."""
    options = roll_back.parse(RollBackRequest(table="orders", snapshot_id=3).arguments("shop"))
    assert (options.table, options.namespace, options.snapshot_id) == ("orders", "shop", 3)


def test_a_rebucketing_names_its_number() -> None:
    """The command and the program agree."""
    options = rebucket.parse(RebucketRequest(table="orders", buckets=32).arguments("shop"))
    assert (options.table, options.namespace, options.buckets) == ("orders", "shop", 32)


def test_a_drop_without_a_partition_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """It would else drop nothing, or all."""
    with pytest.raises(SystemExit) as ended:
        drop_partitions.parse(["orders"])
    assert ended.value.code == 2
    assert "--partition" in capsys.readouterr().err


def test_sql_understands_what_the_command_sends() -> None:
    """``colocation sql`` and the program agree, also on a statement that looks like an option."""
    request = SqlRequest(statement="--x\nselect 1", explain=True, reader=token_digest("a token"))
    options = sql.parse(request.arguments("shop"))
    assert (options.statement, options.namespace, options.explain) == ("--x\nselect 1", "shop", True)
    assert options.reader == token_digest("a token")


@pytest.mark.parametrize(("statement", "query"), [
    ("EXPLAIN SELECT 1", "SELECT 1"), (" explain\nSELECT 1", "SELECT 1"), ("EXPLAIN FORMATTED SELECT 1", None),
    ("SELECT 1", None), ("EXPLAINED", None),
])
def test_explain_statements(statement: str, query: str | None) -> None:
    """A plain EXPLAIN is ours; Spark's modes of it, and anything else, are Spark's."""
    found = sql.EXPLAIN.match(statement)
    assert (statement[found.end():] if found else None) == query


@pytest.mark.parametrize("words", [[], ["--reader", "mine"], ["--reader", "A" * 64]])
def test_a_statement_without_a_reader_is_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, before Spark starts: the rows could not be fetched."""
    with pytest.raises(SystemExit) as ended:
        sql.parse(["SELECT 1", *words])
    assert ended.value.code == 2
    assert "--reader" in capsys.readouterr().err


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
