"""What is measured: TPC-H's joins on the bucket key, Doris' two statements, group-by, windows, layouts. Pure."""

from dataclasses import dataclass

SHIPPED_LATE = ("l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate "
                "AND l_receiptdate >= DATE'1994-01-01' AND l_receiptdate < DATE'1995-01-01'")  # fmt: skip
QUARTER = "o_orderdate >= DATE'1993-07-01' AND o_orderdate < DATE'1993-10-01'"
LIMIT = 10_000


@dataclass(frozen=True)
class Read:
    """The columns and rows of one table that a workload reads."""

    table: str
    columns: tuple[str, ...]
    where: str = "true"
    limit: int | None = None


@dataclass(frozen=True)
class Workload:
    """One statement; ``{table}`` stands for a table's name in a variant.

    ``reads`` is what the floor reads: the same files, columns and filters without any join. ``broadcast_fits``:
    whether one side of each join is small enough to be sent to every executor. ``base`` is the workload that its
    seconds are held against, as well: the same join of rows that are laid out better.
    """

    name: str
    statement: str
    reads: tuple[Read, ...]
    broadcast_fits: bool = False
    base: str | None = None

    @property
    def floor(self) -> str:
        """Each table's rows once, aggregated, nothing joined."""
        return " UNION ALL ".join(_aggregate(read) for read in self.reads)


def _aggregate(read: Read) -> str:
    rows = f"SELECT {', '.join(read.columns)} FROM {{{read.table}}} WHERE {read.where}"
    limit = "" if read.limit is None else f" LIMIT {read.limit}"
    values = ", ".join(f"max({column})" for column in read.columns)
    return f"SELECT concat_ws(' ', {values}, count(*)) AS answer FROM ({rows}{limit})"


Q3 = Workload(
    "tpch_q3",
    """SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
       FROM {customer}, {orders}, {lineitem}
       WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
         AND o_orderdate < DATE'1995-03-15' AND l_shipdate > DATE'1995-03-15'
       GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10""",
    (
        Read("customer", ("c_custkey",), "c_mktsegment = 'BUILDING'"),
        Read("orders", ("o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"), "o_orderdate < DATE'1995-03-15'"),
        Read("lineitem", ("l_orderkey", "l_extendedprice", "l_discount"), "l_shipdate > DATE'1995-03-15'"),
    ),
    broadcast_fits=True,
)
Q4 = Workload(
    "tpch_q4",
    f"""SELECT o_orderpriority, count(*) AS order_count FROM {{orders}}
        WHERE {QUARTER} AND EXISTS (
          SELECT * FROM {{lineitem}} WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority ORDER BY o_orderpriority""",
    (
        Read("orders", ("o_orderkey", "o_orderpriority"), QUARTER),
        Read("lineitem", ("l_orderkey",), "l_commitdate < l_receiptdate"),
    ),
    broadcast_fits=True,
)
Q12 = Workload(
    "tpch_q12",
    f"""SELECT l_shipmode,
          sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS high_line_count,
          sum(CASE WHEN o_orderpriority NOT IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS low_line_count
        FROM {{orders}} JOIN {{lineitem}} ON o_orderkey = l_orderkey WHERE {SHIPPED_LATE}
        GROUP BY l_shipmode ORDER BY l_shipmode""",
    (
        Read("orders", ("o_orderkey", "o_orderpriority")),
        Read("lineitem", ("l_orderkey", "l_shipmode"), SHIPPED_LATE),
    ),
    broadcast_fits=True,
)
Q18 = Workload(
    "tpch_q18",
    """SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
       FROM {customer}, {orders}, {lineitem}
       WHERE o_orderkey IN (SELECT l_orderkey FROM {lineitem} GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
         AND c_custkey = o_custkey AND o_orderkey = l_orderkey
       GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
       ORDER BY o_totalprice DESC, o_orderdate LIMIT 100""",
    (
        Read("customer", ("c_custkey", "c_name")),
        Read("orders", ("o_orderkey", "o_custkey", "o_orderdate", "o_totalprice")),
        Read("lineitem", ("l_orderkey", "l_quantity")),
        Read("lineitem", ("l_orderkey", "l_quantity")),
    ),
    broadcast_fits=True,
)
THREE_TABLES = """FROM {a} t1 JOIN {b} t5 ON t1.dt = t5.dt AND t1.id = t5.id
                  JOIN {c} t6 ON t1.dt = t6.dt AND t1.id = t6.id"""
SEED_COUNT = Workload(
    "seed_sql1",
    f"SELECT count(*) AS rows {THREE_TABLES}",
    tuple(Read(table, ("dt", "id")) for table in "abc"),
)
SEED_LIMIT = Workload(
    "seed_sql2",
    f"""SELECT t1.dt, t1.id, t1.name, t1.second_id, t1.second_name, t5.id AS b_id, t5.weight_time, t5.list, t6.ord_id,
               t6._id {THREE_TABLES} LIMIT {LIMIT}""",
    (
        Read("a", ("dt", "id", "name", "second_id", "second_name"), limit=LIMIT),
        Read("b", ("dt", "id", "weight_time", "list"), limit=LIMIT),
        Read("c", ("dt", "id", "ord_id", "_id"), limit=LIMIT),
    ),
)
GROUP_BY = Workload(
    "group_by",
    """SELECT count(*) AS orders, max(quantity) AS most
       FROM (SELECT l_orderkey, sum(l_quantity) AS quantity FROM {lineitem} GROUP BY l_orderkey)""",
    (Read("lineitem", ("l_orderkey", "l_quantity")),),
)
WINDOW = Workload(
    "window",
    """SELECT max(position) AS most, sum(quantity) AS running
       FROM (SELECT row_number() OVER (PARTITION BY l_orderkey ORDER BY l_linenumber) AS position,
                    l_quantity AS quantity FROM {lineitem})""",
    (Read("lineitem", ("l_orderkey", "l_linenumber", "l_quantity")),),
)

WORKLOADS = (Q3, Q4, Q12, Q18, SEED_COUNT, SEED_LIMIT, GROUP_BY, WINDOW)


def _join_with_orders(name: str, table: str, base: str | None = None) -> Workload:
    return Workload(
        name,
        f"""SELECT l_shipmode, count(*) AS lines, sum(l_extendedprice) AS price, max(o_orderdate) AS last
            FROM {{orders}} JOIN {{{table}}} ON o_orderkey = l_orderkey WHERE l_receiptdate >= DATE'1994-01-01'
            GROUP BY l_shipmode ORDER BY l_shipmode""",
        (
            Read("orders", ("o_orderkey", "o_orderdate")),
            Read(table, ("l_orderkey", "l_extendedprice", "l_shipmode"), "l_receiptdate >= DATE'1994-01-01'"),
        ),
        base=base,
    )


def _selective(name: str, condition: str, column: str) -> Workload:
    return Workload(
        name,
        f"""SELECT count(*) AS lines, sum(l_extendedprice) AS price
            FROM {{orders}} JOIN {{lineitem}} ON o_orderkey = l_orderkey WHERE {condition}""",
        (
            Read("orders", ("o_orderkey", column), condition),
            Read("lineitem", ("l_orderkey", "l_extendedprice")),
        ),
    )


def _window(name: str, function: str, answer: str, where: str = "true") -> Workload:
    return Workload(
        f"window_{name}",
        f"""SELECT {answer} FROM (
              SELECT {function} OVER (PARTITION BY l_orderkey ORDER BY l_linenumber) AS value, l_quantity AS quantity
              FROM {{lineitem}}) WHERE {where}""",
        (Read("lineitem", ("l_orderkey", "l_linenumber", "l_quantity")),),
    )


SELECTIVE_BY_KEY = "selective_by_key"
LAYOUTS = (
    _join_with_orders("compacted", "lineitem"),
    _join_with_orders("appended", "appended", base="compacted"),
    _join_with_orders("more_buckets", "many", base="compacted"),
    _join_with_orders("even", "even"),
    _join_with_orders("hot_bucket", "hot", base="even"),
    # One row in a hundred at scale factor 1, by a column that follows the key and by one that does not.
    _selective(SELECTIVE_BY_KEY, "o_day >= DATE'2019-01-01' AND o_day < DATE'2019-01-25'", "o_day"),
    _selective("selective_scattered", "o_clerk < 'Clerk#000000011'", "o_clerk"),
    _window("rank", "rank()", "sum(value) AS ranks"),
    _window("lag", "lag(l_quantity)", "sum(quantity - value) AS steps"),
    _window("running_sum", "sum(l_quantity)", "max(value) AS most, sum(value) AS running"),
    _window("first_row", "row_number()", "sum(quantity) AS first", "value = 1"),
    Workload(
        "window_whole_key",
        """SELECT sum(quantity / whole) AS shares FROM (
             SELECT l_quantity AS quantity, sum(l_quantity) OVER (PARTITION BY l_orderkey) AS whole FROM {lineitem})""",
        (Read("lineitem", ("l_orderkey", "l_quantity")),),
    ),
)
