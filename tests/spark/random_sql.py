"""Random statements for a client's catalog and for DuckDB: what both can say, in words that both understand.

A story makes tables, changes them in every way that there is, and asks; each answer is compared with DuckDB's. The same
seed gives the same story as long as both agree.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import duckdb

from tests.spark.cluster_tables import CATALOG
from tests.spark.sql_clients import Client, SqlError

TYPES = ("INT", "BIGINT", "DECIMAL(12,2)", "STRING", "DATE", "BOOLEAN", "TIMESTAMP_NTZ", "DOUBLE")
PARTITION_TYPES = ("INT", "STRING", "DATE", "DECIMAL(12,2)", "BOOLEAN")
NUMBERS = ("INT", "BIGINT", "DECIMAL(12,2)")
TEXTS = ("a", "B", "ä", "a b", "x/y", "p=q", "%41", "日本", "A", "a.b", "__x", "c:d", "e*f", "{g}", "h#i", "ab", " z")
SETTINGS = (
    "spark.sql.adaptive.enabled = false", "spark.sql.autoBroadcastJoinThreshold = -1",
    "spark.sql.parquet.enableVectorizedReader = false", "spark.sql.codegen.wholeStage = false",
    "spark.sql.files.maxPartitionBytes = 1024", "spark.sql.shuffle.partitions = 7",
    "spark.colocation.disableColocateJoin = true", "spark.colocation.trustSortedFiles = false",
    "spark.colocation.minPartitionNum = 29",
    "spark.sql.parquet.filterPushdown = false", "spark.sql.optimizer.dynamicPartitionPruning.enabled = false",
    "spark.sql.sources.bucketing.autoBucketedScan.enabled = false", "spark.sql.join.preferSortMergeJoin = false",
    "spark.sql.bucketing.coalesceBucketsInJoin.enabled = true", "spark.sql.parquet.aggregatePushdown = true",
    "spark.sql.session.timeZone = Asia/Tokyo", "spark.sql.caseSensitive = true",
    "spark.sql.timestampType = TIMESTAMP_NTZ", "spark.sql.files.ignoreCorruptFiles = true",
)  # fmt: skip
ROWS = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"

QUERIES_UNDER_A_SETTING = 3
KEPT_SNAPSHOTS = 3
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Column:
    """A column, by the type that Spark gives it."""

    name: str
    type: str


@dataclass
class Table:
    """What the story knows of a table. ``snapshots``: those that DuckDB has a copy of, the newest last."""

    name: str
    columns: list[Column]
    partitions: list[Column]
    key: list[str]
    group: str
    snapshots: list[str] = field(default_factory=list)
    has_other_columns: bool = False

    @property
    def all(self) -> list[Column]:
        """In the order of ``SELECT *``."""
        return [*self.columns, *self.partitions]


def in_duckdb(statement: str) -> str:
    """DuckDB's types are called otherwise."""
    return statement.replace("TIMESTAMP_NTZ", "TIMESTAMP").replace("STRING", "VARCHAR")


def text(expression: str) -> str:
    """As text, which both write alike."""
    return f"CAST({expression} AS STRING)"


def normal(value: object) -> str:
    """A value as both would show it."""
    shown = "NULL" if value is None else str(value)
    return f"{float(shown):.6g}" if _NUMBER.fullmatch(shown) else shown


class Story:
    """Runs until there were so many statements.

    Args:
        seed: of what happens.
        client: whose catalog is asked.
        namespace: with groups ``sales`` (bigint) and ``pairs`` (bigint, string) of six buckets.
    """

    def __init__(self, seed: int, client: Client, namespace: str) -> None:
        self.differences: list[str] = []
        self._random = random.Random(seed)
        self._client = client
        self._duckdb = duckdb.connect()
        self._namespace = namespace
        self._tables: dict[str, Table] = {}
        self._count = 0

    def run(self, statements: int) -> None:
        """The whole story; what differs is in ``differences``."""
        self._both(f"USE {CATALOG}.{self._namespace}", ())
        self._both("SET spark.colocation.minPartitionBytes = 1", ())
        for _ in range(3):
            self._create()
        for table in list(self._tables.values()):
            self._insert(table)
        changes: list[Callable[[Table], None]] = [
            self._insert, self._insert, self._insert_from_another, self._overwrite, self._overwrite_dynamically,
            self._overwrite_partition, self._delete, self._delete, self._compact, self._roll_back, self._add_column,
            self._rename_column, self._truncate,
        ]  # fmt: skip
        others: list[Callable[[], None]] = [*[self._query] * 10, *[self._query_under_a_setting] * 2, self._create_from]
        while self._count < statements:
            if self._random.random() < 0.7:
                self._random.choice(others)()
            else:
                self._random.choice(changes)(self._any_table())
        for table in self._tables.values():
            self._ask(f"SELECT {', '.join(text(one.name) for one in table.all)} FROM {table.name}")

    # Both

    def _both(self, spark: str, in_duckdb_too: Sequence[str]) -> bool:
        """A statement, and the same for DuckDB; whether both took it."""
        self._count += 1
        spark_error = duckdb_error = ""
        try:
            self._client.run(spark)
        except SqlError as error:
            spark_error = str(error)[:500] or "?"
        try:
            for one in in_duckdb_too:
                self._duckdb.execute(one)
        except duckdb.Error as error:
            duckdb_error = str(error)[:300]
        if bool(spark_error) != bool(duckdb_error):
            self.differences.append(f"{spark}\n  Spark: {spark_error}\n  DuckDB: {duckdb_error}")
        return not (spark_error or duckdb_error)

    def _ask(self, spark: str, duckdb_query: str = "") -> None:
        self._count += 1
        answer = self._duckdb.execute(in_duckdb(duckdb_query or spark)).fetchall()
        wanted = sorted(tuple(map(normal, row)) for row in answer)
        try:
            found = sorted(tuple(map(normal, row)) for row in self._client.run(spark))
        except SqlError as error:
            self.differences.append(f"{spark}\n  Spark: {str(error)[:500]}")
            return
        if found != wanted:
            more, less = [row for row in found if row not in wanted], [row for row in wanted if row not in found]
            counts = f"{len(found)} rows, wanted {len(wanted)}"
            self.differences.append(f"{spark}\n  {counts}; not wanted {more[:5]}; missing {less[:5]}")

    def _change(self, table: Table, spark: str, in_duckdb_too: Sequence[str]) -> None:
        if self._both(spark, [in_duckdb(one) for one in in_duckdb_too]):
            self._keep_snapshot(table)

    def _keep_snapshot(self, table: Table) -> None:
        """Let DuckDB have what the newest snapshot holds."""
        place = f"{CATALOG}.{self._namespace}.{table.name}"
        newest = self._client.run(f"SELECT max(snapshot_id) FROM {place}.snapshots")[0][0]
        if newest is not None and newest not in table.snapshots:
            table.snapshots.append(newest)
            self._duckdb.execute(f"CREATE OR REPLACE TABLE {table.name}__v{newest} AS SELECT * FROM {table.name}")

    # Values

    def _any_table(self) -> Table:
        return self._random.choice(list(self._tables.values()))

    def _value(self, kind: str, may_be_null: bool = True) -> str:
        number = self._random.randint
        if may_be_null and self._random.random() < 0.12:
            return "NULL"
        match kind:
            case "INT":
                return str(number(-3, 8))
            case "BIGINT":
                return str(number(-5, 40) if self._random.random() < 0.7 else 2**40 + number(0, 3))
            case "DECIMAL(12,2)":
                return f"CAST({number(-2, 2)}.50 AS DECIMAL(12,2))"
            case "STRING":
                return f"'{self._random.choice(TEXTS)}'"
            case "DATE":
                return f"DATE '2026-0{number(1, 3)}-0{number(1, 4)}'"
            case "BOOLEAN":
                return self._random.choice(("true", "false"))
            case "TIMESTAMP_NTZ":
                return f"CAST('2026-01-0{number(1, 3)} 0{number(0, 2)}:00:00' AS TIMESTAMP_NTZ)"
            case _:
                return f"CAST({self._random.choice(('0.5', '2', '-1.25', '1e20'))} AS DOUBLE)"

    def _rows(self, table: Table, most: int) -> str:
        values = (
            "(" + ", ".join(self._value(column.type) for column in table.all) + ")"
            for _ in range(self._random.randint(1, most))
        )
        typed = ", ".join(f"CAST({one.name} AS {one.type}) AS {one.name}" for one in table.all)
        names = ", ".join(one.name for one in table.all)
        return f"SELECT {typed} FROM (VALUES {', '.join(values)}) v({names})"

    def _condition(self, column: Column, prefix: str = "") -> str:
        name, kind = f"{prefix}{column.name}", self._random.random()
        value = self._value(column.type, may_be_null=False)
        if kind < 0.25:
            return f"{name} IS {'NOT ' if kind < 0.12 else ''}NULL"
        if kind < 0.5 or column.type == "BOOLEAN":
            return f"{name} = {value}"
        if kind < 0.65:
            return f"{name} IN ({value}, {self._value(column.type, may_be_null=False)})"
        if kind < 0.75:
            return f"NOT ({name} = {value})"
        return f"{name} {self._random.choice(('<', '>=', '<=', '>', '<>'))} {value}"

    # Definitions

    def _create(self) -> None:
        group = self._random.choice(("sales", "sales", "pairs"))
        key = [Column("k", "BIGINT"), *([Column("k2", "STRING")] if group == "pairs" else [])]
        rest = [Column(f"c{one}", self._random.choice(TYPES)) for one in range(self._random.randint(2, 4))]
        number = self._random.choice((0, 0, 1, 1, 2))
        partitions = [Column(f"p{one}", self._random.choice(PARTITION_TYPES)) for one in range(number)]
        keys = [one.name for one in key]
        table = Table(f"t{self._count}", [*key, *rest], partitions, keys, group)
        order = f"SORTED BY ({', '.join([*keys, rest[0].name])})" if self._random.random() < 0.3 else ""
        columns = ", ".join(f"{one.name} {one.type}" for one in table.all)
        if self._both(
            f"CREATE TABLE {table.name} ({columns}) {_layout(table, order)}",
            [in_duckdb(f"CREATE TABLE {table.name} ({columns})")],
        ):
            self._tables[table.name] = table

    def _create_from(self) -> None:
        source = self._any_table()
        partitions = list(source.partitions) if self._random.random() < 0.5 else []
        columns = [one for one in source.all if one not in partitions]
        table = Table(f"t{self._count}", columns, partitions, source.key, source.group)
        order = ", ".join(one.name for one in table.all)
        query = f"SELECT {order} FROM {source.name} WHERE {self._condition(self._random.choice(source.all))}"
        if self._both(
            f"CREATE TABLE {table.name} {_layout(table)} AS {query}",
            [in_duckdb(f"CREATE TABLE {table.name} AS {query}")],
        ):
            self._tables[table.name] = table
            self._keep_snapshot(table)

    def _add_column(self, table: Table) -> None:
        column = Column(f"x{self._count}", self._random.choice(TYPES))
        if self._both(
            f"ALTER TABLE {table.name} ADD COLUMN {column.name} {column.type}",
            [in_duckdb(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {column.type}")],
        ):
            table.columns.append(column)
            order = ", ".join(one.name for one in table.all)
            self._duckdb.execute(f"CREATE OR REPLACE TABLE {table.name} AS SELECT {order} FROM {table.name}")
            table.has_other_columns = True

    def _rename_column(self, table: Table) -> None:
        """Not the first one behind the key, by which rows may be sorted."""
        free = table.columns[len(table.key) + 1 :]
        if free:
            old = self._random.choice(free)
            new = Column(f"r{self._count}", old.type)
            rename = f"ALTER TABLE {table.name} RENAME COLUMN {old.name} TO {new.name}"
            if self._both(rename, [rename]):
                table.columns[table.columns.index(old)] = new
                table.has_other_columns = True

    # Rows

    def _insert(self, table: Table) -> None:
        rows = self._rows(table, 25)
        self._change(table, f"INSERT INTO {table.name} {rows}", [f"INSERT INTO {table.name} {rows}"])

    def _insert_from_another(self, table: Table) -> None:
        other = self._any_table()
        picks = []
        for column in table.all:
            same = [one.name for one in other.all if one.type == column.type]
            value = self._random.choice(same) if same else self._value(column.type)
            picks.append(f"CAST({value} AS {column.type}) AS {column.name}")
        insert = f"INSERT INTO {table.name} SELECT {', '.join(picks)} FROM {other.name} WHERE k % 3 = 1"
        self._change(table, insert, [insert])

    def _overwrite(self, table: Table) -> None:
        rows = self._rows(table, 20)
        instead = [f"DELETE FROM {table.name}", f"INSERT INTO {table.name} {rows}"]
        self._change(table, f"INSERT OVERWRITE {table.name} {rows}", instead)

    def _overwrite_dynamically(self, table: Table) -> None:
        if not table.partitions:
            return
        rows = self._rows(table, 12)
        same = " AND ".join(f"n.{one.name} IS NOT DISTINCT FROM {table.name}.{one.name}" for one in table.partitions)
        self._both("SET spark.sql.sources.partitionOverwriteMode = dynamic", ())
        self._change(table, f"INSERT OVERWRITE {table.name} {rows}", [
            f"CREATE OR REPLACE TEMP TABLE n AS {rows}",
            f"DELETE FROM {table.name} WHERE EXISTS (SELECT 1 FROM n WHERE {same})",
            f"INSERT INTO {table.name} SELECT * FROM n",
        ])  # fmt: skip
        self._both("RESET spark.sql.sources.partitionOverwriteMode", ())

    def _overwrite_partition(self, table: Table) -> None:
        if not table.partitions or table.partitions[0].type == "DECIMAL(12,2)":
            return
        first, *others = table.partitions
        value, rows = self._value(first.type, may_be_null=False), self._rows(table, 8)
        rest = ", ".join(one.name for one in table.all if one != first)
        shown = ", ".join(f"{value} AS {one.name}" if one == first else one.name for one in table.all)
        place = ", ".join((f"{first.name} = {value}", *(one.name for one in others)))
        self._change(table, f"INSERT OVERWRITE {table.name} PARTITION ({place}) SELECT {rest} FROM ({rows})", [
            f"DELETE FROM {table.name} WHERE {first.name} = {value}",
            f"INSERT INTO {table.name} SELECT {shown} FROM ({rows})",
        ])  # fmt: skip

    def _delete(self, table: Table) -> None:
        if table.partitions:
            condition = self._condition(self._random.choice(table.partitions))
            if self._random.random() < 0.3:
                condition = f"{condition} OR {self._condition(self._random.choice(table.partitions))}"
            delete = f"DELETE FROM {table.name} WHERE {condition}"
            self._change(table, delete, [delete])

    def _truncate(self, table: Table) -> None:
        self._change(table, f"TRUNCATE TABLE {table.name}", [f"DELETE FROM {table.name}"])

    def _compact(self, table: Table) -> None:
        if table.snapshots:
            self._change(table, f"CALL {CATALOG}.system.compact(table => '{self._namespace}.{table.name}')", [])

    def _roll_back(self, table: Table) -> None:
        if len(table.snapshots) > 1 and not table.has_other_columns:
            to = table.snapshots[-2]
            self._change(
                table,
                f"CALL {CATALOG}.system.roll_back(table => '{self._namespace}.{table.name}', snapshot_id => {to})",
                [f"DELETE FROM {table.name}", f"INSERT INTO {table.name} SELECT * FROM {table.name}__v{to}"],
            )

    # Questions

    def _query_under_a_setting(self) -> None:
        setting = self._random.choice(SETTINGS)
        self._both(f"SET {setting}", ())
        for _ in range(QUERIES_UNDER_A_SETTING):
            self._query()
        self._both(f"RESET {setting.split(' ')[0]}", ())

    def _source(self, table: Table) -> tuple[str, str]:
        """The table or one of its versions; now and then the rows of two of these."""
        spark, duckdb = self._version(table)
        if self._random.random() > 0.2:
            return spark, duckdb
        more_of_spark, more_of_duckdb = self._version(table)
        some = f"WHERE {self._condition(self._random.choice(table.all))}"
        return (f"(SELECT * FROM {spark} {some} UNION ALL SELECT * FROM {more_of_spark})",
                f"(SELECT * FROM {duckdb} {some} UNION ALL SELECT * FROM {more_of_duckdb})")  # fmt: skip

    def _version(self, table: Table) -> tuple[str, str]:
        if not table.snapshots or table.has_other_columns or self._random.random() > 0.2:
            return table.name, table.name
        version = self._random.choice(table.snapshots[-KEPT_SNAPSHOTS:])
        return f"(SELECT * FROM {table.name} VERSION AS OF {version})", f"(SELECT * FROM {table.name}__v{version})"

    def _query(self) -> None:
        left, right = self._any_table(), self._any_table()
        of_spark, of_duckdb = zip(self._source(left), self._source(right), strict=True)
        query = self._random.choice(list(self._queries(left, right)))
        self._ask(query.replace("LEFT_TABLE", of_spark[0]).replace("RIGHT_TABLE", of_spark[1]),
                  query.replace("LEFT_TABLE", of_duckdb[0]).replace("RIGHT_TABLE", of_duckdb[1]))  # fmt: skip

    def _queries(self, left: Table, right: Table) -> Iterator[str]:
        """Of each kind one."""
        shared = [name for name in left.key if name in right.key]
        equal = self._random.choice(("=", "=", "IS NOT DISTINCT FROM"))
        on = " AND ".join(f"a.{name} {equal} b.{name}" for name in shared)
        where = self._condition(self._random.choice(left.all), "a.") if self._random.random() < 0.6 else "true"
        a, b = self._random.choice(left.all).name, self._random.choice(right.all).name
        number = next((one.name for one in left.all if one.type in NUMBERS and one.name != "k"), "k")
        total = self._random.choice((f"count(a.{a})", f"max(a.{number})", f"sum(a.{number})", f"count(DISTINCT a.{a})"))
        key, value, other = text("a.k"), text(f"a.{a}"), text(f"b.{b}")
        negated = self._random.choice(("", "NOT "))
        of_left = f"FROM LEFT_TABLE a WHERE {where}"
        join = self._random.choice(("INNER", "LEFT", "RIGHT", "FULL"))
        order = ", ".join(f"{one.name} NULLS FIRST" for one in left.all)
        places = ", ".join(f"a.{one.name} NULLS FIRST" for one in left.all)
        within = self._random.choice(("a.k", f"a.k, a.{a}", f"a.{a}"))
        window = self._random.choice(("rank()", "dense_rank()"))
        so_far = self._random.choice(("row_number()", "count(*)", f"max(a.{number})", f"first_value(a.{a})"))
        yield f"SELECT {', '.join(text('a.' + one.name) for one in left.all)} {of_left}"
        yield f"SELECT {key}, {text(total)} {of_left} GROUP BY a.k"
        yield f"SELECT {text(total)}, {text('count(*)')} {of_left}"
        yield f"SELECT {value}, {text('count(*)')} {of_left} GROUP BY a.{a} HAVING count(*) > 1"
        yield f"SELECT DISTINCT {key}, {value} {of_left}"
        yield f"SELECT {key}, {value}, {other} FROM LEFT_TABLE a {join} JOIN RIGHT_TABLE b ON {on} WHERE {where}"
        yield (f"SELECT {key}, {text('count(*)')} FROM LEFT_TABLE a JOIN RIGHT_TABLE b ON {on} JOIN LEFT_TABLE c "
               f"ON c.k = a.k WHERE {where} GROUP BY a.k")  # fmt: skip
        yield f"SELECT {key}, {value} {of_left} AND {negated}EXISTS (SELECT 1 FROM RIGHT_TABLE b WHERE {on})"
        yield (f"SELECT {key}, {text('(SELECT count(*) FROM RIGHT_TABLE b WHERE b.k = a.k)')} {of_left} "
               f"AND a.k {negated}IN (SELECT b.k FROM RIGHT_TABLE b WHERE b.k IS NOT NULL)")  # fmt: skip
        yield f"SELECT {key}, {value}, {text(f'{window} OVER (PARTITION BY a.k ORDER BY a.{a} NULLS FIRST)')} {of_left}"
        running = text(f"{so_far} OVER (PARTITION BY {within} ORDER BY {places} {ROWS})")
        yield f"SELECT {key}, {value}, {running} {of_left}"
        yield (f"SELECT {key} {of_left} {self._random.choice(('UNION', 'UNION ALL', 'INTERSECT', 'EXCEPT'))} "
               f"SELECT {text('b.k')} FROM RIGHT_TABLE b")  # fmt: skip
        first = f"(SELECT * {of_left} ORDER BY {order} LIMIT 7)"
        yield f"SELECT {', '.join(text(one.name) for one in left.all)} FROM {first}"


def _layout(table: Table, order: str = "") -> str:
    partitions = f"PARTITIONED BY ({', '.join(one.name for one in table.partitions)})" if table.partitions else ""
    properties = f"TBLPROPERTIES ('colocate_with'='{table.group}')"
    return f"{partitions} CLUSTERED BY ({', '.join(table.key)}) {order} INTO 6 BUCKETS {properties}"
