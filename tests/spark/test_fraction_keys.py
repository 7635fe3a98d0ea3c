"""Keys of type FLOAT and DOUBLE: -0.0 is equal to 0.0 and NaN to every NaN, and joins need no shuffle."""

import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import DataFrame, SparkSession

from colocation.model.group import ColocationGroupSpec
from colocation.spark import explain_json
from tests.spark.catalog_server import show
from tests.spark.conftest import BUCKETS, add_table, stable_group
from tests.spark.loopback import LoopbackAgents
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

DISABLED = "spark.colocation.disableColocateJoin"
VALUES = """ELT(CAST(id % 8 AS INT) + 1, '0.0', '-0.0', 'NaN', '-NaN', NULL, 'Infinity', '1.5', '1e-40')"""
QUERIES = [
    "SELECT a.v, b.v FROM shop.a JOIN shop.b ON a.k = b.k AND a.j = b.j",
    "SELECT a.v, b.v FROM shop.a LEFT JOIN shop.b ON a.k = b.k AND a.j = b.j AND b.v > 20",
    "SELECT a.v, b.v FROM shop.a FULL JOIN shop.b ON b.j = a.j AND b.k = a.k",
    "SELECT v FROM shop.a WHERE NOT EXISTS (SELECT 1 FROM shop.b WHERE a.k = b.k AND a.j = b.j AND b.v > 20)",
    "SELECT a.v, c.v FROM (SELECT k AS x, j, v FROM shop.a WHERE k < 2 OR isnan(k)) a "
    "JOIN shop.b c ON x = c.k AND a.j = c.j",
    "SELECT v, COUNT(*) OVER (PARTITION BY k, j) FROM shop.a",
    "SELECT string(k), j, COUNT(*) FROM shop.a GROUP BY k, j",
    "SELECT MAX(v), j FROM shop.a WHERE k <> 1.5 GROUP BY j, k",
    "SELECT a.v, b.v, c.v FROM shop.a JOIN shop.b ON a.k = b.k AND a.j = b.j JOIN shop.a c ON b.k = c.k AND b.j = c.j",
]


@pytest.fixture(scope="module", params=["double", "float"])
def loaded(request: pytest.FixtureRequest, application: SparkSession, agents: LoopbackAgents) -> FakeCatalog:
    """Tables a and b with keys (k, j), in several files each; tests only read them."""
    catalog = stable_group(agents)
    spec = ColocationGroupSpec(bucket_key=(request.param, "int"), buckets=BUCKETS, replicas=2)
    catalog.add_group(spec, catalog.groups["sales"].status)
    key = f"CAST(IF({VALUES} = '-NaN', -DOUBLE('NaN'), DOUBLE({VALUES})) AS {request.param.upper()}) AS k"
    for name in ("a", "b"):
        rows = application.newSession().sql(f"SELECT {key}, CAST(id % 3 AS INT) AS j, id AS v FROM range(60)")
        add_table(catalog, name, rows, ["k", "j"])
    return catalog


@pytest.fixture(scope="module")
def shuffled(application: SparkSession, loaded: FakeCatalog) -> dict[str, list[str]]:
    """Each query's rows when it shuffles."""
    session = application.newSession()
    show(session, loaded)
    session.conf.set(DISABLED, "true")
    return {text: rows_of(session.sql(text)) for text in QUERIES}


@pytest.fixture
def session(spark: SparkSession, loaded: FakeCatalog) -> SparkSession:
    show(spark, loaded)
    return spark


def rows_of(query: DataFrame) -> list[str]:
    return sorted(map(repr, query.collect()))


def test_joins_and_groups_need_no_shuffle(
    session: SparkSession, loaded: FakeCatalog, shuffled: dict[str, list[str]]
) -> None:
    """Rows are those of a query that shuffles; the verdicts are those of the plan. Each query runs with adaptive
    execution for one of the types, without it for the other.
    """
    of_double = loaded.groups["sales"].spec.bucket_key == ("double", "int")
    for place, text in enumerate(QUERIES):
        session.conf.set("spark.sql.adaptive.enabled", str((place % 2 == 0) == of_double).lower())
        query = session.sql(text)
        assert rows_of(query) == shuffled[text], text
        plan = query._jdf.queryExecution().executedPlan().toString().split("== Initial Plan ==")[0]
        verdicts = explain_json(query)
        reports = verdicts["joins"] + verdicts["aggregates"][-1:] + verdicts["windows"]
        assert "Exchange" not in plan and "FractionKeys" not in plan, plan
        assert all(report["colocate"] for report in reports), (text, reports)
        assert [one["colocate"] for one in explain_json(text, session)["joins"]] == [True] * len(verdicts["joins"])


def test_values_are_not_changed(session: SparkSession) -> None:
    """A zero keeps its sign; other columns and other tables join with the key as ever."""
    assert {str(row.k) for row in session.table("shop.a").select("k").distinct().collect()} >= {"nan", "None", "inf"}
    assert session.sql("SELECT DISTINCT string(k) FROM shop.a WHERE k = 0").count() == 2
    other = "SELECT 1 FROM shop.a JOIN (SELECT DOUBLE('-0.0') AS x, INT(0) AS y FROM range(2)) ON k = x AND j = y"
    assert session.sql(other).count() == 2 * session.sql("SELECT 1 FROM shop.a WHERE k = 0 AND j = 0").count()


ODD_BITS = (0, 1 << 63, 0x7FF8 << 48, 0xFFF8 << 48, (0x7FF0 << 48) + 1, (1 << 64) - 1, 1, 0x7FF0 << 48, 0xFFF0 << 48)


@pytest.mark.parametrize("mode", ["CODEGEN_ONLY", "NO_CODEGEN"])
@pytest.mark.parametrize(("name", "bits"), [("double", 64), ("float", 32)])
def test_equal_keys_have_one_bucket(name: str, bits: int, mode: str, spark: SparkSession) -> None:
    """What our plans rely on: Spark's hash of a key is that of the key as joins compare it, whatever its bits are."""
    chosen = random.Random(17)
    given = [value >> (64 - bits) for value in (*ODD_BITS, *(chosen.getrandbits(64) for _ in range(2000)))]
    form = {64: ("<Q", "<d"), 32: ("<I", "<f")}[bits]
    values = [(struct.unpack(form[1], struct.pack(form[0], value))[0],) for value in given]
    rows = spark.createDataFrame(values, f"k {name}")
    compared = f"CASE WHEN ISNAN(k) THEN {name}('NaN') WHEN k = 0 THEN {name}('0.0') ELSE k END"
    whole_stage = {"spark.sql.codegen.wholeStage": str(mode == "CODEGEN_ONLY").lower()}
    with configured(spark, {"spark.sql.codegen.factoryMode": mode, **whole_stage}):
        assert rows.where("ISNAN(k)").count() > 3
        assert rows.where(f"HASH(k) <> HASH({compared})").count() == 0


@contextmanager
def configured(spark: SparkSession, values: dict[str, str]) -> Iterator[None]:
    """A session that stays the thread's active one would give its ways of evaluation to sessions of later tests."""
    for key, value in values.items():
        spark.conf.set(key, value)
    yield
    for key in values:
        spark.conf.unset(key)
