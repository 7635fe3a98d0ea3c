"""The SQL that pages show is SQL to Spark, and to the extensions; that of the tutorial runs as it stands."""

import re
from collections.abc import Iterator

import pytest
import yaml
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from colocation.spark import explain_json
from tests.integration.control_plane import ControlPlane
from tests.spark.cluster_tables import CATALOG, ClusterTables
from tests.spark.conftest import MAP
from tests.spark.judging_operator import judged_tables
from tests.spark.loopback import LoopbackAgents
from tests.unit.docs.pages import REPOSITORY, Page, pages

pytestmark = pytest.mark.spark

NAMESPACE = "tutorial"
TUTORIAL = Page(REPOSITORY / "docs" / "tutorial.md")
COMMENT = re.compile(r"--.*$", re.MULTILINE)
SINCE = {" CHANGES FROM ": (4, 2), "CREATE STREAMING TABLE": (4, 1)}
"""Clauses that older Sparks do not parse, with the first that does."""


def statements(page: Page) -> list[str]:
    """Those of SQL blocks, and those that `colocation sql` is given; an ellipsis stands for a name."""
    typed = [words[2] for words in page.commands if words[:2] == ["colocation", "sql"]]
    shown = [statement for block in page.blocks({"sql"}) for statement in COMMENT.sub("", block).split(";")]
    return [statement.replace("…", "x").strip() for statement in [*typed, *shown] if statement.strip()]


def test_statements_parse(spark: SparkSession) -> None:
    """Names and tables are the reader's, so nothing is analyzed."""
    version = tuple(map(int, spark.version.split(".")[:2]))
    missing = [clause for clause, since in SINCE.items() if version < since]
    parser = spark._jsparkSession.sessionState().sqlParser()  # type: ignore[attr-defined]
    found = [(page.name, statement) for page in pages() for statement in statements(page)]
    found = [(name, statement) for name, statement in found if not any(clause in statement for clause in missing)]
    assert len(found) > 30
    wrong = []
    for name, statement in found:
        try:
            parser.parsePlan(statement)
        except ParseException as error:
            wrong.append(f"{name}: {statement}\n{error}")
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def tutorial(application: SparkSession, agents: LoopbackAgents, plane: ControlPlane) -> Iterator[SparkSession]:
    """A session in a namespace with the tutorial's tables."""
    with judged_tables(plane, agents, NAMESPACE, MAP) as tables:
        apply(tables)
        session = tables.configure(application.newSession())
        session.sql(f"USE {CATALOG}.{NAMESPACE}")
        yield session


def apply(tables: ClusterTables) -> None:
    """The manifests of its YAML block."""
    (manifests,) = TUTORIAL.blocks({"yaml"})
    for item in yaml.safe_load_all(manifests):
        if item["kind"] == "ColocatedTable":
            tables.make("ColocatedTable", item["metadata"]["name"], item["spec"])


def test_the_tutorials_statements_run(tutorial: SparkSession) -> None:
    """They load what it states, and its join needs no shuffle."""
    into_orders, into_lineitem, join, same_join = statements(TUTORIAL)
    tutorial.sql(into_orders)
    tutorial.sql(into_lineitem)
    assert [tutorial.table(name).count() for name in ("orders", "lineitem")] == [100_000, 400_000]
    joined = tutorial.sql(join)
    assert len(joined.collect()) == 7
    assert [verdict["colocate"] for verdict in explain_json(joined)["joins"]] == [True]
    assert same_join == join
