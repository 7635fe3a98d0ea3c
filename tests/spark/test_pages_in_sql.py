"""The SQL that pages show is SQL to Spark, and to the extensions."""

import re

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from tests.unit.docs.pages import Page, pages

pytestmark = pytest.mark.spark

COMMENT = re.compile(r"--.*$", re.MULTILINE)


def statements(page: Page) -> list[str]:
    """Those of SQL blocks, and those that `colocation sql` is given; an ellipsis stands for a name."""
    typed = [words[2] for words in page.commands if words[:2] == ["colocation", "sql"]]
    shown = [statement for block in page.blocks({"sql"}) for statement in COMMENT.sub("", block).split(";")]
    return [statement.replace("…", "x").strip() for statement in [*typed, *shown] if statement.strip()]


def test_statements_parse(spark: SparkSession) -> None:
    """Names and tables are the reader's, so nothing is analyzed."""
    parser = spark._jsparkSession.sessionState().sqlParser()  # type: ignore[attr-defined]
    found = [(page.name, statement) for page in pages() for statement in statements(page)]
    assert len(found) > 30
    wrong = []
    for name, statement in found:
        try:
            parser.parsePlan(statement)
        except ParseException as error:
            wrong.append(f"{name}: {statement}\n{error}")
    assert not wrong, "\n".join(wrong)
