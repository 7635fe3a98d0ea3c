"""Loads: every key type in the bucket that Spark expects, all or nothing, and repairable when a node is down."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import SparkSession

from colocation.model.group import ColocationGroupSpec
from colocation.model.table import ColocatedTableSpec, Column
from colocation.spark import explain_json
from tests.spark.catalog_server import load, show
from tests.spark.conftest import BUCKETS, MAP, add_table
from tests.spark.loopback import LoopbackAgents
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

KEYS = {
    "boolean": "i % 2 = 0",
    "tinyint": "CAST(i % 100 AS TINYINT)",
    "smallint": "CAST(i * 7 AS SMALLINT)",
    "int": "CAST(i AS INT)",
    "float": "CAST(CASE i % 4 WHEN 0 THEN '-0.0' WHEN 1 THEN 'NaN' ELSE CAST(i / 3 AS STRING) END AS FLOAT)",
    "double": "CAST(CASE i % 4 WHEN 0 THEN '-0.0' WHEN 1 THEN 'NaN' ELSE CAST(i / 3 AS STRING) END AS DOUBLE)",
    "string": "CONCAT('ключ-', i)",
    "binary": "CAST(CONCAT('b', i) AS BINARY)",
    "date": "DATE_ADD(DATE '1500-01-01', CAST(i * 977 AS INT))",
    "timestamp": "TIMESTAMP '1899-12-31 23:59:59.123456' + MAKE_INTERVAL(0, 0, 0, CAST(i * 13 AS INT))",
    "timestamp_ntz": "TIMESTAMP_NTZ '2024-03-31 02:30:00' + MAKE_INTERVAL(0, 0, 0, CAST(i AS INT))",
    "decimal(9,2)": "CAST(i AS DECIMAL(9,2)) / CAST(4 AS DECIMAL(1,0))",
    "decimal(38,10)": "CAST(i AS DECIMAL(38,10)) * 1000000007",
}


@pytest.fixture
def all_agents(agents: LoopbackAgents) -> Iterator[LoopbackAgents]:
    """The agents; those that a test stops are started again."""
    yield agents
    for node in agents.roots:
        agents.start_if_stopped(node)


def stored_files(agents: LoopbackAgents) -> set[Path]:
    return {path for root in agents.roots.values() for path in root.glob("*/*/data/**/*.parquet")}


def test_keys_of_every_type(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Rows lie in the bucket that Spark's own hash gives, and come back as they were: NULL, -0.0, NaN, old dates."""
    spec = ColocationGroupSpec(bucket_key=tuple(KEYS), buckets=BUCKETS, replicas=2)
    catalog.add_group(spec, catalog.groups["sales"].status)
    names = [f"k{number}" for number in range(len(KEYS))]
    columns = [
        f"CAST(IF((i + {number}) % 9 = 0, NULL, {expression}) AS {type_name}) AS {name}"
        for number, (name, (type_name, expression)) in enumerate(zip(names, KEYS.items(), strict=True))
    ]
    rows = spark.sql("SELECT id AS i FROM range(300)").selectExpr("i", *columns)
    add_table(catalog, "keyed", rows, names)
    show(spark, catalog)
    named_bucket = "CAST(REGEXP_EXTRACT(INPUT_FILE_NAME(), '_([0-9]+)[.]', 1) AS INT)"
    bucket = f"PMOD(HASH({', '.join(names)}), {BUCKETS})"
    stored = spark.table("shop.keyed").selectExpr("*", f"{bucket} = {named_bucket} AS ok")
    assert stored.where("NOT ok").count() == 0
    assert sorted(map(repr, stored.drop("ok").collect())) == sorted(map(repr, rows.collect()))


def test_composite_keys_with_nulls(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Keys of several columns join without a shuffle in any order, and NULLs match nothing."""
    group = catalog.groups["sales"]
    catalog.add_group(ColocationGroupSpec(bucket_key=("bigint", "string"), buckets=BUCKETS, replicas=2), group.status)
    rows = spark.range(200).selectExpr(
        "IF(id % 5 = 0, NULL, id) AS a", "IF(id % 7 = 0, NULL, CAST(id % 3 AS STRING)) AS b", "id AS v"
    )
    add_table(catalog, "first", rows, ["a", "b"])
    add_table(catalog, "second", rows.withColumnsRenamed({"a": "x", "b": "y", "v": "w"}), ["x", "y"])
    show(spark, catalog)
    query = spark.sql("SELECT count(*), sum(v - w) FROM shop.first JOIN shop.second ON y = b AND x = a")
    expected = sum(1 for i in range(200) if i % 5 and i % 7)
    assert tuple(query.collect()[0]) == (expected, 0)
    assert explain_json(query)["exchanges"] == 0


def test_nested_columns_and_partitions(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Arrays, maps and structs come back; odd partition values too, '01' as text and '' as NULL, as Spark does."""
    rows = spark.sql(
        "SELECT id AS k, ARRAY(id, NULL) AS a, MAP('x', id) AS m, NAMED_STRUCT('p', id, 'q', 'z') AS s, "
        "ELT(CAST(id % 6 AS INT) + 1, 'a=b', 'c/d', '01', 'ü %', NULL, '') AS p FROM range(30)"
    )
    result = add_table(catalog, "nested", rows, ["k"], ("p",))
    assert (result.rows, result.partitions, result.replicas_missing) == (30, 5, 0)
    show(spark, catalog)
    stored = spark.table("shop.nested").select(rows.columns)
    given = rows.selectExpr("k", "a", "m", "s", "NULLIF(p, '') AS p")
    assert sorted(map(repr, stored.collect())) == sorted(map(repr, given.collect()))


def test_modes(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Overwrite-partitions replaces the partitions that the rows are in, overwrite all."""

    def rows(start: int, partition: int) -> object:
        return spark.range(start, start + 10).selectExpr("id AS k", f"CAST({partition} AS INT) AS p")

    add_table(catalog, "modes", rows(0, 1).union(rows(10, 2)), ["k"], ("p",))

    def keys_after(mode: str, start: int, partition: int) -> set[tuple[int, int]]:
        load(rows(start, partition), "modes", mode=mode, catalog=catalog)
        show(spark, catalog)
        return {(row["k"] // 10, row["p"]) for row in spark.table("shop.modes").collect()}

    assert keys_after("append", 20, 2) == {(0, 1), (1, 2), (2, 2)}
    assert keys_after("overwrite-partitions", 30, 2) == {(0, 1), (3, 2)}
    assert keys_after("overwrite", 40, 3) == {(4, 3)}


@pytest.mark.parametrize(("mode", "start"), [("append", 20), ("overwrite-partitions", 30), ("overwrite", 40)])
def test_results_have_the_counts_of_snapshots(
    spark: SparkSession, catalog: FakeCatalog, mode: str, start: int
) -> None:
    """Rows inserted, updated and deleted, and files removed, by the same names as in the snapshot."""
    rows = spark.range(start, start + 10).selectExpr("id AS k", "1 AS p")
    add_table(catalog, "counted", spark.range(20).selectExpr("id AS k", "CAST(id % 2 AS INT) AS p"), ["k"], ("p",))
    done = load(rows, "counted", mode=mode, catalog=catalog, idempotency_key="once")
    again = load(rows, "counted", mode=mode, catalog=catalog, idempotency_key="once")
    snapshot = catalog.tables["counted"].status.snapshot
    names = ("rows_inserted", "rows_updated", "rows_deleted", "files_removed")
    expected = [getattr(snapshot, name) for name in names]
    assert expected[:3] == [10, 0, {"append": 0, "overwrite-partitions": 10, "overwrite": 20}[mode]]
    assert [[getattr(result, name) for name in names] for result in (done, again)] == [expected, expected]


def test_misfits_are_refused_before_anything_is_written(
    spark: SparkSession, catalog: FakeCatalog, agents: LoopbackAgents
) -> None:
    """Wrong columns are refused at once; nothing reaches any node."""
    add_table(catalog, "strict", spark.range(3).selectExpr("id AS k"), ["k"])
    before = stored_files(agents)
    with pytest.raises(AnalysisException, match=r"INCOMPATIBLE_DATA_FOR_TABLE.*`k`"):
        load(spark.range(3).selectExpr("ARRAY(id) AS k"), "strict", catalog=catalog)
    with pytest.raises(AnalysisException, match="more"):
        load(spark.range(3).selectExpr("id AS k", "1 AS more"), "strict", catalog=catalog)
    add_table(catalog, "pairs", spark.range(3).selectExpr("id AS k", "1 AS V", "2 AS `w x`"), ["k"])
    before = stored_files(agents)
    with pytest.raises(ValueError, match=r'the columns k, and not V, w x; .*\("\*", "NULL AS V", "NULL AS `w x`"\)$'):
        load(spark.range(3).selectExpr("id AS k"), "pairs", mode="overwrite", catalog=catalog)
    with pytest.raises(ValueError, match="has no partitions"):
        load(spark.range(3).selectExpr("id AS k"), "strict", mode="overwrite-partitions", catalog=catalog)
    assert stored_files(agents) == before


@pytest.mark.parametrize(
    ("partitioned_by", "nothing"),
    [
        pytest.param((), "NULL", id="in-files"),
        pytest.param(("v",), "NULL", id="partition"),
        pytest.param(("v",), "''", id="empty-partition"),
    ],
)
def test_null_where_none_is_allowed_is_refused(
    spark: SparkSession, catalog: FakeCatalog, partitioned_by: tuple[str, ...], nothing: str
) -> None:
    """``nullable: false`` holds for the rows, whatever the DataFrame's schema is; the old snapshot stays."""
    columns = (Column(name="k", type="bigint"), Column(name="v", type="string", nullable=False))
    spec = ColocatedTableSpec(
        colocate_with="sales", columns=columns, bucketed_by=("k",), partitioned_by=partitioned_by
    )
    catalog.add_table("strict", spec, str(uuid.uuid4()))
    rows = spark.range(9).selectExpr("id AS k", f"IF(id = 4, {nothing}, 'x') AS v")
    with pytest.raises(SparkRuntimeException, match=r"^SchemaMismatch: column v holds NULL") as refused:
        load(rows, "strict", catalog=catalog)
    assert refused.value.getCondition() == "SchemaMismatch" and "\n" not in str(refused.value)
    assert catalog.tables["strict"].status.snapshot is None


def test_without_a_majority_nothing_is_committed(
    spark: SparkSession, catalog: FakeCatalog, all_agents: LoopbackAgents
) -> None:
    """With two of three nodes gone a load fails and leaves only garbage; once one is back the rows before are read."""
    add_table(catalog, "kept", spark.range(60).selectExpr("id AS k"), ["k"])
    committed = catalog.tables["kept"].status.snapshot
    all_agents.stop("node-2")
    all_agents.stop("node-3")
    with pytest.raises(SparkRuntimeException, match=r"^ReplicasMissing: .*at least 2 must, .*; node-[23]: "):
        load(spark.range(60, 90).selectExpr("id AS k"), "kept", catalog=catalog)
    all_agents.start_again("node-3")
    assert catalog.tables["kept"].status.snapshot == committed
    show(spark, catalog)
    assert spark.table("shop.kept").count() == 60


def test_a_majority_is_enough(
    spark: SparkSession, catalog: FakeCatalog, all_agents: LoopbackAgents
) -> None:
    """With three replicas one node may be away; what it lacks is counted, for the operator to repair."""
    group = catalog.groups["sales"]
    buckets = tuple(tuple(f"node-{number}" for number in (1, 2, 3)) for _ in range(BUCKETS))
    status = group.status.model_copy(update={"backends_per_bucket_seq": buckets})
    catalog.add_group(group.spec.model_copy(update={"replicas": 3}), status)
    del catalog.agents["node-3"]
    result = add_table(catalog, "orders", spark.range(60).selectExpr("id AS k"), ["k"])
    assert (result.rows, result.replicas_missing) == (60, result.files)


def test_files_follow_a_map_that_moves(
    spark: SparkSession, catalog: FakeCatalog, agents: LoopbackAgents
) -> None:
    """A bucket that moves while a load runs has the new files on its new node before the commit."""
    group = catalog.groups["sales"]
    moved = (("node-2", "node-3"), *MAP[1:])
    moved_status = group.status.model_copy(update={"backends_per_bucket_seq": moved})
    get_agents = catalog.get_agents

    asked = 0

    def get_agents_and_move() -> dict[str, str]:
        nonlocal asked
        asked += 1
        if asked > 1:  # the first one is the analysis; the change begins by the group that was read before its agents
            catalog.add_group(group.spec, moved_status)
        return get_agents()

    catalog.get_agents = get_agents_and_move  # type: ignore[method-assign]
    assert MAP[0] == ("node-1", "node-2")
    assert add_table(catalog, "orders", spark.range(600).selectExpr("id AS k"), ["k"]).replicas_missing == 0
    directory = catalog.tables["orders"].directory
    assert list((agents.roots["node-3"] / "shop" / directory).glob("data/*_00000.*"))


def test_rows_are_sorted_within_files(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Each bucket has one file per partition, sorted by the key: what merge joins like best."""
    rows = spark.range(500).selectExpr("(id * 37) % 500 AS k", "CAST(id % 2 AS INT) AS p")
    result = add_table(catalog, "sorted", rows, ["k"], ("p",))
    assert result.files == 2 * BUCKETS
    show(spark, catalog)
    for row in spark.sql(
        "SELECT COLLECT_LIST(k) AS keys FROM (SELECT *, INPUT_FILE_NAME() AS f FROM shop.sorted) GROUP BY f"
    ).collect():
        assert row["keys"] == sorted(row["keys"])
