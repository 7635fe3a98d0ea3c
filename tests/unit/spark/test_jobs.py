"""The image's programs: their command lines and their last line."""

import datetime
import json

import pytest

from colocation.spark.jobs import load, sql
from colocation.spark.jobs.result import print_result
from colocation.submit.jobs import LoadRequest, SqlRequest
from colocation.submit.run import find_result


def test_load_understands_what_the_command_sends() -> None:
    """``colocation load`` and the program agree on the command line."""
    request = LoadRequest(table="orders", path="s3a://lake/o", format="csv", select="*, year(d) as y", mode="overwrite")
    options = load.parse(request.arguments("shop"))
    assert (options.table, options.namespace, options.path, options.format) == ("orders", "shop", "s3a://lake/o", "csv")
    assert (options.select, options.mode) == (["*", "year(d) as y"], "overwrite")


def test_sql_understands_what_the_command_sends() -> None:
    """``colocation sql`` and the program agree, also on a statement that looks like an option."""
    options = sql.parse(SqlRequest(statement="--x\nselect 1", explain=True).arguments("shop"))
    assert (options.statement, options.namespace, options.explain) == ("--x\nselect 1", "shop", True)


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

    class Frame:
        columns = ["id", "day"]

    rows = [(1, None), (2, datetime.date(2024, 1, 1))]
    for output in sql.OUTPUTS:
        sql.print_rows(Frame(), rows, output)  # type: ignore[arg-type]
    text = capsys.readouterr().out.splitlines()
    assert text[:3] == ["id  day", "1   NULL", "2   2024-01-01"]
    assert json.loads(text[3]) == [{"id": 1, "day": None}, {"id": 2, "day": "2024-01-01"}]
    assert text[4:] == ["id,day", "1,", "2,2024-01-01"]
