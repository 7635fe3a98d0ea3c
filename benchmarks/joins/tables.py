"""The tables of the benchmark, laid out alike for all variants: same buckets, order and partitions. Pure."""

from dataclasses import dataclass

NAMESPACE = "bench"
GROUP = "bench"
BUCKETS = 6
REPLICAS = 2
DAYS = 10
FIRST_DAY = "2018-12-01"
KEYS_PER_DAY = 2_500
"""Orders' day follows their key, as with ids that grow: 2,400 days at scale factor 1."""
APPENDS, PARTS = 20, 400
"""Small loads after the large one, each of this part of the rows."""
KEPT_OF_COLD, KEPT_OF_ALL = 467, 556
"""Of 1,000 keys: so the hot bucket has 30 % of the rows, and the even table as many rows in all."""
MORE_BUCKETS = 4 * BUCKETS
TPCH_FOLDER = "/bench/tpch"
SMALL_TABLES = ("customer", "part", "partsupp", "supplier", "nation", "region")
"""TPC-H's other tables: plain Parquet files in every variant, as small tables are."""


@dataclass(frozen=True)
class Table:
    """One table: ``rows`` is the statement that its rows come from, ``appends`` those of later loads."""

    name: str
    key: str
    sorted_by: tuple[str, ...]
    partitioned_by: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    rows: str
    appends: tuple[str, ...] = ()
    buckets: int = BUCKETS


def tpch_tables() -> tuple[Table, ...]:
    """The two large ones."""

    return (
        Table("orders", "o_orderkey", ("o_orderkey",), (), (
            ("o_orderkey", "bigint"), ("o_custkey", "bigint"), ("o_orderstatus", "string"),
            ("o_totalprice", "decimal(15,2)"), ("o_orderdate", "date"), ("o_orderpriority", "string"),
            ("o_clerk", "string"), ("o_shippriority", "int"), ("o_comment", "string"), ("o_day", "date"),
        ), _source("orders", f"*, date_add(DATE'{FIRST_DAY}', CAST(o_orderkey DIV {KEYS_PER_DAY} AS INT)) AS o_day")),
        Table("lineitem", "l_orderkey", ("l_orderkey", "l_linenumber"), (), (
            ("l_orderkey", "bigint"), ("l_partkey", "bigint"), ("l_suppkey", "bigint"), ("l_linenumber", "int"),
            ("l_quantity", "decimal(15,2)"), ("l_extendedprice", "decimal(15,2)"), ("l_discount", "decimal(15,2)"),
            ("l_tax", "decimal(15,2)"), ("l_returnflag", "string"), ("l_linestatus", "string"), ("l_shipdate", "date"),
            ("l_commitdate", "date"), ("l_receiptdate", "date"), ("l_shipinstruct", "string"),
            ("l_shipmode", "string"), ("l_comment", "string"),
        ), _source("lineitem")),
    )  # fmt: skip


def seed_tables(rows_per_day: int) -> tuple[Table, ...]:
    """A, B and C of Doris' benchmark: ten days each, one partition per day, the same ids every day."""
    days = (f"(SELECT date_add(DATE'{FIRST_DAY}', CAST(id DIV {rows_per_day} AS INT)) AS dt, "
            f"7 * (id % {rows_per_day}) AS id FROM range({DAYS * rows_per_day}))")  # fmt: skip
    key = (("dt", "date"), ("id", "bigint"))
    return (
        Table("a", "id", ("id",), ("dt",),
              (*key, ("name", "string"), ("second_id", "bigint"), ("second_name", "string")),
              f"SELECT dt, id, concat('name ', id) AS name, id % 1000 AS second_id, "
              f"concat('second name ', id % 1000) AS second_name FROM {days}"),
        Table("b", "id", ("id",), ("dt",), (*key, ("weight_time", "double"), ("list", "string")),
              f"SELECT dt, id, id * 0.25D AS weight_time, concat('[', id, ', ', id + 1, ']') AS list FROM {days}"),
        Table("c", "id", ("id",), ("dt",), (*key, ("ord_id", "bigint"), ("_id", "string")),
              f"SELECT dt, id, id * 3 AS ord_id, md5(CAST(id AS STRING)) AS _id FROM {days}"),
    )  # fmt: skip


def layouts() -> tuple[Table, ...]:
    """Rows of ``lineitem`` laid out in other ways: to be joined with ``orders``."""
    columns = (("l_orderkey", "bigint"), ("l_linenumber", "int"), ("l_extendedprice", "decimal(15,2)"),
               ("l_shipdate", "date"), ("l_commitdate", "date"), ("l_receiptdate", "date"),
               ("l_shipmode", "string"))  # fmt: skip
    names = ", ".join(name for name, _ in columns)

    def table(name: str, condition: str = "true", appends: tuple[str, ...] = (), buckets: int = BUCKETS) -> Table:
        def rows(where: str) -> str:
            return f"{_source('lineitem', names)} WHERE {where}"

        later = tuple(map(rows, appends))
        return Table(name, "l_orderkey", ("l_orderkey",), (), columns, rows(condition), later, buckets)

    share = f"pmod(hash(l_orderkey, l_linenumber), {PARTS})"
    in_first = f"pmod(hash(l_orderkey), {BUCKETS}) = 0"
    return (
        table("appended", f"{share} >= {APPENDS}", tuple(f"{share} = {number}" for number in range(APPENDS))),
        table("hot", f"{in_first} OR pmod(hash(l_orderkey, 1), 1000) < {KEPT_OF_COLD}"),
        table("even", f"pmod(hash(l_orderkey, 1), 1000) < {KEPT_OF_ALL}"),
        table("many", buckets=MORE_BUCKETS),
    )


def _source(name: str, columns: str = "*") -> str:
    return f"SELECT {columns} FROM parquet.`file://{TPCH_FOLDER}/{name}.parquet`"
