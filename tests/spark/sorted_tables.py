"""Tables whose rows are sorted in files, and a statement's plan and answer with that order trusted and not."""

import functools
import math
from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession

from tests.spark.catalog_server import load, show
from tests.spark.conftest import add_table, stable_group
from tests.spark.loopback import LoopbackAgents
from tests.unit.spark.fake_catalog import FakeCatalog

TRUST = "spark.colocation.trustSortedFiles"
ADAPTIVE = "spark.sql.adaptive.enabled"
MERGED = "files merged"
IN_ORDER = "files in order"

EVENTS = """
SELECT if(id % 13 = 0, NULL, id % 97) AS k, CAST(id % 5 AS INT) AS day, id AS n, concat('é', id % 7) AS word,
       CASE id % 5 WHEN 0 THEN 0.0D WHEN 1 THEN -0.0D WHEN 2 THEN double('NaN') WHEN 3 THEN NULL ELSE 1.5D END AS real
FROM range({first}, {last})
"""

TYPED = """
SELECT id % 11 AS k, if(id % 7 = 0, NULL, repeat(concat('wört ', id % 5), 3)) AS word,
       CAST(id % 3 AS DECIMAL(25, 2)) / 4 AS price, CAST(CAST(id % 2 AS STRING) AS BINARY) AS raw, id AS n
FROM range(500)
"""


def load_events(application: SparkSession, agents: LoopbackAgents) -> FakeCatalog:
    """Tables of the same rows: in one file per bucket, in several loads, in partitions, and in both.

    All files of tests read the same ones; what a file adds to its catalog no other sees.
    """
    catalog = _loaded_events(application, agents).copy()
    catalog.agents = dict(agents.urls)
    return catalog


@functools.cache
def _loaded_events(application: SparkSession, agents: LoopbackAgents) -> FakeCatalog:
    catalog = stable_group(agents)
    whole = application.sql(EVENTS.format(first=0, last=600))
    add_table(catalog, "single", whole, ["k"])
    add_table(catalog, "daily", whole, ["k"], ("day",))
    for name, partitions in (("appended", ()), ("both", ("day",))):
        add_table(catalog, name, application.sql(EVENTS.format(first=0, last=200)), ["k"], partitions)
        for first in (200, 400):
            load(application.sql(EVENTS.format(first=first, last=first + 200)), name, catalog=catalog)
    return catalog


def opened(spark: SparkSession, tables: FakeCatalog, adaptive: str) -> SparkSession:
    """The session with the tables of ``shop`` at hand, with adaptive execution ("true") or without it."""
    spark.conf.set(ADAPTIVE, adaptive)
    show(spark, tables)
    spark.catalog.setCurrentDatabase("shop")
    return spark


def restored(session: SparkSession) -> Iterator[SparkSession]:
    """The session; what a test sets is taken back after it."""
    before = session.conf.getAll
    yield session
    for name, value in session.conf.getAll.items():
        if name not in before:
            session.conf.unset(name)
        elif value != before[name]:
            session.conf.set(name, before[name])


def plan_of(rows: DataFrame) -> str:
    """The plan that was executed; of an adaptive one, the final part."""
    text: str = rows._jdf.queryExecution().executedPlan().toString()
    return text.split("+- == Initial Plan ==")[0]


def answer(rows: DataFrame) -> list[str]:
    return sorted(repr(tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in row))
                  for row in rows.collect())  # fmt: skip


def both_answers(session: SparkSession, statement: str) -> tuple[str, list[str], list[str]]:
    """The plan and answer of a statement, and its answer with all of Spark's sorts."""
    trusting, found, expected = run_both(session, statement)
    return plan_of(trusting), found, expected


def run_both(session: SparkSession, statement: str) -> tuple[DataFrame, list[str], list[str]]:
    """A statement as it was run with the files' order trusted, its answer, and its answer with all of Spark's sorts."""
    session.conf.set(TRUST, "true")
    trusting = session.sql(statement)
    found = answer(trusting)
    session.conf.set(TRUST, "false")
    sorting = session.sql(statement)
    expected = answer(sorting)
    assert "SortedBucketScan" not in plan_of(sorting)
    return trusting, found, expected
