"""A semi-join that Spark applies to both sides of a join is done once, where one side's answers for the other."""

import pytest
from pyspark.sql import SparkSession

from tests.spark.loopback import LoopbackAgents
from tests.spark.sorted_tables import both_answers, load_events, opened

pytestmark = pytest.mark.spark

LARGE = "(SELECT k FROM daily GROUP BY k HAVING sum(n) > 1500)"
SMALL = "(SELECT k FROM daily GROUP BY k HAVING sum(n) < 1600)"
PAIRS = "(SELECT k, day FROM daily GROUP BY k, day HAVING sum(n) > 300)"
LEFT = f"(SELECT * FROM single WHERE k IN {LARGE})"
RIGHT = f"(SELECT * FROM appended WHERE k IN {LARGE})"


@pytest.fixture(
    scope="module",
    params=[pytest.param("true", id="adaptive"), pytest.param("false", id="static", marks=pytest.mark.deep)],
)
def session(application: SparkSession, agents: LoopbackAgents, request: pytest.FixtureRequest) -> SparkSession:
    """One for all tests."""
    return opened(application.newSession(), load_events(application, agents), request.param)


@pytest.mark.parametrize(("statement", "semi_joins"), [
    pytest.param("SELECT l.k, l.n, sum(r.n) AS s FROM single l JOIN daily r ON l.k = r.k "
                 f"WHERE l.k IN {LARGE} GROUP BY l.k, l.n", 1, id="Spark applies it to both sides"),
    pytest.param("SELECT l.k, l.n, m.n AS m, r.n AS r FROM single l JOIN appended m ON l.k = m.k "
                 f"JOIN daily r ON l.k = r.k WHERE l.k IN {LARGE} AND l.n < 99", 1, id="three tables"),
    pytest.param(f"SELECT l.k, l.n, r.n AS m FROM {LEFT} l LEFT JOIN {RIGHT} r ON l.k = r.k AND r.n < 300", 1,
                 id="left"),
    pytest.param(f"SELECT k, n FROM {LEFT} l WHERE EXISTS (SELECT 1 FROM {RIGHT} r WHERE l.k = r.k AND r.n < l.n)", 1,
                 id="exists"),
    pytest.param(f"SELECT k, n FROM {LEFT} l WHERE NOT EXISTS (SELECT 1 FROM {RIGHT} r WHERE l.k = r.k AND r.n < l.n)",
                 1, id="not exists"),
    pytest.param("SELECT l.k, l.day, r.n FROM daily l JOIN daily r ON l.k = r.k AND l.day = r.day "
                 f"WHERE (l.k, l.day) IN {PAIRS}", 1, id="two keys"),
    pytest.param(f"SELECT l.k, r.k AS j, l.n, r.n AS m FROM {LEFT} l RIGHT JOIN {RIGHT} r "
                 "ON l.k = r.k AND l.n < 300", 2, id="right: rows without a match stay"),
    pytest.param(f"SELECT l.k, r.k AS j, l.n, r.n AS m FROM {LEFT} l FULL JOIN {RIGHT} r ON l.k = r.k AND l.n < 300", 2,
                 id="full"),
    pytest.param(f"SELECT l.k, l.n, r.n AS m FROM {LEFT} l JOIN (SELECT * FROM appended WHERE k IN {SMALL}) r "
                 "ON l.k = r.k", 2, id="two subqueries"),
    pytest.param(f"SELECT l.k, l.n, r.n AS m FROM {LEFT} l JOIN (SELECT * FROM single WHERE n IN {LARGE}) r "
                 "ON l.k = r.k", 2, id="another column"),
    pytest.param(f"SELECT l.k, l.n, r.n AS m FROM {LEFT} l JOIN {RIGHT} r ON l.k = r.k + 1", 2, id="another key"),
])  # fmt: skip
def test_semi_joins(session: SparkSession, statement: str, semi_joins: int) -> None:
    """Answers are those of Spark's plan, which has at least two."""
    plan, found, expected = both_answers(session, statement)
    assert found == expected and found
    assert plan.count("LeftSemi") - ("EXISTS" in statement and "NOT" not in statement) == semi_joins, plan
