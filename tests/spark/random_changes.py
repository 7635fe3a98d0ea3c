"""Random UPDATE, DELETE, MERGE and INSERT … SELECT for Spark and for DuckDB.

A story has a target ``t``, a table ``s`` of its group and a table ``o`` of another group, all with the same columns.
After each statement the target's rows and the counts that the statement returns are compared with DuckDB's. Two things
are shown alike, since both systems store them otherwise: CHAR values are without the spaces that Spark adds, NaN is
without its sign.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import duckdb

from tests.spark import random_sql
from tests.spark.sql_clients import Client, Row, SqlError

KEYS = (
    ("BIGINT",), ("STRING",), ("INT",), ("DATE",), ("DECIMAL(12,2)",), ("DOUBLE",),
    ("BIGINT", "STRING"), ("DATE", "INT"),
)  # fmt: skip
OTHERS = ("BIGINT", "STRING", "DOUBLE", "DATE", "INT", "DECIMAL(12,2)", "CHAR(4)", "VARCHAR(6)")
PARTITIONS = ("INT", "STRING", "DATE", "DECIMAL(12,2)", "BOOLEAN")
TEXTS = ("a", "B", "ä", "a b", "p=q", "日本", "A", "ab")
ALL_DELETED = " WHEN MATCHED THEN DELETE"
VIOLATION = "MERGE_CARDINALITY_VIOLATION"
MOST_ROWS = 150


@dataclass(frozen=True)
class Column:
    """A column of all tables."""

    name: str
    type: str

    @property
    def family(self) -> str:
        """The type without a length: texts of a length compare with others, CHAR only with itself."""
        return "STRING" if self.type.startswith("VARCHAR") else self.type

    def of(self, table: str) -> str:
        return f"{table}.{self.name}"


@dataclass
class Layout:
    """How the target is stored."""

    keys: list[Column]
    others: list[Column]
    partitions: list[Column]
    sorted_by: list[Column] = field(default_factory=list)

    @property
    def columns(self) -> list[Column]:
        """In the order of ``SELECT *``."""
        return [*self.keys, *self.others, *self.partitions]

    def definition(self, group: str) -> str:
        """What follows the table's name."""
        columns = ", ".join(f"{one.name} {one.type}" for one in self.columns)
        partitions = f"PARTITIONED BY ({_names(self.partitions)})" if self.partitions else ""
        order = f"SORTED BY ({_names(self.sorted_by)})" if self.sorted_by else ""
        return (f"({columns}) {partitions} CLUSTERED BY ({_names(self.keys)}) {order} INTO 6 BUCKETS "
                f"TBLPROPERTIES ('colocate_with'='{group}')")  # fmt: skip


def _names(columns: Sequence[Column]) -> str:
    return ", ".join(one.name for one in columns)


def normal(value: object) -> str:
    """A value as both show it."""
    shown = "NULL" if value is None else str(value).rstrip(" ")
    shown = {"-nan": "nan", "NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}.get(shown, shown)
    return random_sql.normal(shown)


def in_duckdb(statement: str) -> str:
    """DuckDB has texts of one type, and other names for a type and an operator."""
    return re.sub(r"VARCHAR\(\d+\)|(?<!\w)CHAR\(\d+\)|STRING", "VARCHAR", statement).replace(
        "<=>", "IS NOT DISTINCT FROM"
    )


class Statements:
    """Random statements of a layout; ``{t}``, ``{s}``, ``{o}`` stand for the tables."""

    def __init__(self, seed: random.Random, layout: Layout) -> None:
        self._random = seed
        self._layout = layout

    def any(self) -> "Statement":
        kinds: list[Callable[[], Statement]] = [*[self.merge] * 5, *[self.update] * 3, *[self.delete] * 2, self.insert]
        return self._random.choice(kinds)()

    # Values and conditions

    def value(self, kind: str, null: float = 0.12) -> str:
        number = self._random.randint
        if self._random.random() < null:
            return f"CAST(NULL AS {kind})"
        match kind:
            case "BIGINT" | "INT":
                return f"CAST({number(-2, 9)} AS {kind})"
            case "DECIMAL(12,2)":
                return f"CAST({number(-2, 4)}.50 AS DECIMAL(12,2))"
            case "DATE":
                return f"DATE '2026-01-0{number(1, 6)}'"
            case "BOOLEAN":
                return self._random.choice(("true", "false"))
            case "DOUBLE":
                return (
                    f"CAST('{self._random.choice(('0.0', '-0.0', 'NaN', '1.5', '-1.5', '2', 'Infinity'))}' AS DOUBLE)"
                )
            case _:
                return f"CAST('{self._random.choice(TEXTS)}' AS {kind if kind != 'CHAR(4)' else 'STRING'})"

    def rows(self, most: int) -> str:
        """A query of constants, with the names of columns."""
        columns = self._layout.columns
        values = (
            "(" + ", ".join(self.value(one.type) for one in columns) + ")" for _ in range(self._random.randint(1, most))
        )
        return f"SELECT * FROM (VALUES {', '.join(values)}) v({_names(columns)})"

    def expression(self, column: Column, tables: Sequence[str]) -> str:
        """A new value for a column, of columns of these tables."""
        same = [one.of(table) for table in tables for one in self._layout.columns if one.family == column.family]
        chance = self._random.random()
        if chance < 0.25 or not same:
            return self.value(column.type)
        picked = self._random.choice(same)
        if chance < 0.55:
            return picked
        match column.type:
            case "BIGINT" | "INT":
                return f"{picked} + 1"
            case "DECIMAL(12,2)":
                return f"CAST({picked} + 1 AS DECIMAL(12,2))"
            case "DATE":
                return f"CAST({picked} + INTERVAL 1 DAY AS DATE)"
            case "BOOLEAN":
                return f"NOT {picked}"
            case "DOUBLE":
                return self._random.choice((f"-{picked}", f"{picked} * 0", f"{picked} + 0.5"))
            case "CHAR(4)":
                return picked
            case _:
                return f"substr({picked} || 'x', 1, 4)"

    def condition(self, tables: Sequence[str], parts: int = 2) -> str:
        """Of columns of these tables; NULL for some rows."""
        found = [self._simple(tables) for _ in range(self._random.randint(1, parts))]
        shown = self._random.choice((" AND ", " AND ", " OR ")).join(found)
        return f"NOT ({shown})" if self._random.random() < 0.15 else f"({shown})"

    def _simple(self, tables: Sequence[str]) -> str:
        column = self._random.choice(self._layout.columns)
        name, chance = column.of(self._random.choice(tables)), self._random.random()
        value = self.value(column.type, null=0.05)
        if chance < 0.15:
            return f"{name} IS {self._random.choice(('', 'NOT '))}NULL"
        if chance < 0.3:
            return f"{name} IN ({value}, {self.value(column.type)})"
        if chance < 0.5 and len(tables) > 1:
            return f"{column.of(tables[0])} {self._random.choice(('=', '<=>', '<', '<>'))} {column.of(tables[1])}"
        return f"{name} {self._random.choice(('=', '=', '<=>', '<', '>=', '<>'))} {value}"

    # Sources

    def source(self) -> str:
        """A query with the columns of all tables."""
        columns, keys = _names(self._layout.columns), _names(self._layout.keys)
        others = [*self._layout.others, *self._layout.partitions]
        grouped = f"{keys}, " + ", ".join(f"max({one.name}) AS {one.name}" for one in others)
        order = ", ".join(f"{one.name} NULLS FIRST" for one in others)
        first = f"SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS n FROM"
        table = self._random.choice(("{s}", "{s}", "{o}", "{t}"))
        kinds = [
            f"SELECT {columns} FROM {table} x", f"SELECT {columns} FROM {table} x WHERE {self.condition(['x'])}",
            f"SELECT {columns} FROM {table} x WHERE {self.condition(['x'])}", self.rows(5),
            *[f"SELECT {columns} FROM ({first} {table}) WHERE n = 1"] * 2,
            f"SELECT {columns} FROM {{s}} x WHERE {self.condition(['x'])} UNION ALL {self.rows(3)}",
            f"SELECT x.* FROM {{s}} x WHERE EXISTS (SELECT 1 FROM {{o}} y WHERE {self._equal('x', 'y')})",
        ]  # fmt: skip
        if not any(one.type == "CHAR(4)" for one in others):  # an aggregate is not padded when it is compared
            kinds += [f"SELECT {grouped} FROM {table} GROUP BY {keys}"] * 3
        return self._random.choice(kinds)

    def _equal(self, one: str, other: str, operator: str = "=") -> str:
        return " AND ".join(f"{key.of(one)} {operator} {key.of(other)}" for key in self._layout.keys)

    def _subquery(self, other: str) -> str:
        """A condition of t by another table, or itself."""
        key, column = self._random.choice(self._layout.keys), self._random.choice(self._layout.others)
        where = self.condition(["x"])
        exists = f"EXISTS (SELECT 1 FROM {other} x WHERE {self._equal('t', 'x')} AND {where})"
        picked = self._random.choice((key, column))
        listed = f"IN (SELECT {picked.of('x')} FROM {other} x WHERE {where})"
        kinds = [exists, f"NOT {exists}", f"{picked.of('t')} {listed}", f"{picked.of('t')} NOT {listed}"]
        if column.type != "CHAR(4)":
            kinds.append(f"{column.of('t')} = (SELECT max({column.of('x')}) FROM {other} x WHERE {where})")
            kinds.append(
                f"{column.of('t')} >= (SELECT min({column.of('x')}) FROM {other} x WHERE {self._equal('x', 't')})"
            )
        return self._random.choice(kinds)

    def _where(self) -> str:
        other = self._random.choice(("{s}", "{o}", "{t}"))
        match self._random.randint(0, 5):
            case 0 | 1:
                return self.condition(["t"])
            case 2:
                keys = " AND ".join(f"{key.of('t')} = {self.value(key.type, 0)}" for key in self._layout.keys)
                return self._random.choice((keys, f"{keys} AND {self.condition(['t'])}"))
            case 3:
                return self._subquery(other)
            case 4:
                return f"{self._subquery(other)} AND {self.condition(['t'])}"
            case _:
                return f"{self._subquery(other)} OR {self.condition(['t'])}"

    # Statements

    def delete(self) -> "Statement":
        return self._of_cte(f"DELETE FROM {{t}} AS t WHERE {self._where()}")

    def update(self) -> "Statement":
        sets = []
        for column in self._some_columns():
            value = self.expression(column, ["t"])
            if self._random.random() < 0.2 and column.type != "CHAR(4)":
                value = f"(SELECT max({column.of('x')}) FROM {{s}} x WHERE {self._equal('x', 't')})"
            sets.append(f"{column.name} = {value}")
        where = f" WHERE {self._where()}" if self._random.random() < 0.9 else ""
        return self._of_cte(f"UPDATE {{t}} AS t SET {', '.join(sets)}{where}")

    def _of_cte(self, statement: str) -> "Statement":
        """The source of subqueries as a common table expression, sometimes."""
        if "{s}" in statement and self._random.random() < 0.2:
            return Statement(f"WITH c AS (SELECT * FROM {{s}}) {statement.replace('FROM {s}', 'FROM c')}")
        return Statement(statement)

    def _some_columns(self) -> list[Column]:
        columns = self._layout.columns
        return self._random.sample(columns, self._random.randint(1, min(3, len(columns))))

    def insert(self) -> "Statement":
        others = [*self._layout.others, *self._layout.partitions]
        picks = ", ".join(self.expression(column, ["x", "y"]) for column in self._layout.columns)
        if self._random.random() < 0.5:  # rows that stay in their bucket
            kept = [key.of("x") for key in self._layout.keys]
            picks = ", ".join([*kept, *(self.expression(one, ["x", "y"]) for one in others)])
        one, other = self._random.choice(("{s}", "{t}")), self._random.choice(("{s}", "{o}", "{t}"))
        join = self._random.choice(("JOIN", "LEFT JOIN"))
        where = f"{self.condition(['x'], 1)} AND {self.condition(['x'], 1)}"
        return Statement(
            f"INSERT INTO {{t}} SELECT {picks} FROM {one} x {join} {other} y ON {self._equal('x', 'y')} WHERE {where}"
        )

    def merge(self) -> "Statement":
        query, keys = self.source(), self._layout.keys
        on = self._equal("t", "s", self._random.choice(("=", "=", "=", "=", "<=>")))
        chance = self._random.random()
        if chance < 0.3:
            on += f" AND {self.condition(['t', 's'], 1)}"
        elif chance < 0.4:
            on += f" AND {self._random.choice(keys).of('t')} = {self.value(keys[0].type, 0)}" if len(keys) == 1 else ""
        elif chance < 0.5:
            on = self.condition(["t", "s"])
        elif chance < 0.55 and keys[0].type in ("BIGINT", "INT"):
            on = f"CAST({keys[0].of('t')} AS DOUBLE) = CAST({keys[0].of('s')} AS DOUBLE)"
        elif chance < 0.6 and keys[0].type in ("BIGINT", "INT") and len(keys) == 1:
            on = f"{keys[0].of('s')} + 1 = {keys[0].of('t')}"
        matched = self._clauses("MATCHED", ["t", "s"])
        by_source = self._clauses("NOT MATCHED BY SOURCE", ["t"]) if self._random.random() < 0.4 else []
        inserts = self._inserts()
        clauses = [clause for found in (matched, inserts, by_source) for clause in found] or [
            "WHEN MATCHED THEN DELETE"
        ]
        table = self._random.choice(("{s}", "{o}"))
        prefix, source = "", f"({query})"
        match self._random.randint(0, 3):
            case 0:
                prefix, source = f"WITH c AS ({query}) ", "c"
            case 1:
                query = f"SELECT * FROM {table}"
                source = table
        takes_one = bool(matched) and matched != ["WHEN MATCHED THEN DELETE"]
        return Statement(
            f"{prefix}MERGE INTO {{t}} AS t USING {source} AS s ON {on} {' '.join(clauses)}", query, on, takes_one
        )

    def _clauses(self, when: str, tables: Sequence[str]) -> list[str]:
        clauses, number = [], self._random.choice((0, 1, 1, 1, 2, 3))
        for place in range(number):
            is_last = place == number - 1
            condition = "" if is_last and self._random.random() < 0.6 else f" AND {self.condition(tables)}"
            clauses.append(f"WHEN {when}{condition} THEN {self._action(tables)}")
        return clauses

    def _action(self, tables: Sequence[str]) -> str:
        chance = self._random.random()
        if chance < 0.25:
            return "DELETE"
        if chance < 0.45 and "s" in tables:
            return "UPDATE SET *"
        return "UPDATE SET " + ", ".join(f"{one.name} = {self.expression(one, tables)}" for one in self._some_columns())

    def _inserts(self) -> list[str]:
        clauses, number = [], self._random.choice((0, 1, 1, 1, 2))
        for place in range(number):
            is_last = place == number - 1
            condition = "" if is_last and self._random.random() < 0.6 else f" AND {self.condition(['s'])}"
            columns = self._some_columns()
            values = ", ".join(self.expression(one, ["s"]) for one in columns)
            action = "*" if self._random.random() < 0.5 else f"({_names(columns)}) VALUES ({values})"
            clauses.append(f"WHEN NOT MATCHED{condition} THEN INSERT {action}")
        return clauses


@dataclass(frozen=True)
class Statement:
    """A statement; of a MERGE also its source and condition, and whether a row that matches twice is an error."""

    text: str
    source: str = ""
    on: str = ""
    takes_one_match: bool = False

    def violation(self) -> str:
        """A query of the rows that match twice."""
        return f"SELECT 1 FROM {{t}} AS t JOIN ({self.source}) AS s ON {self.on} GROUP BY t.rowid HAVING count(*) > 1"

    def matches(self) -> str:
        """A query of the rows of the target that match."""
        return f"SELECT DISTINCT t.rowid AS id FROM {{t}} AS t JOIN ({self.source}) AS s ON {self.on}"

    def without_stars(self, columns: Sequence[Column]) -> str:
        sets = ", ".join(f"{one.name} = s.{one.name}" for one in columns)
        values = ", ".join(f"s.{one.name}" for one in columns)
        return self.text.replace("UPDATE SET *", f"UPDATE SET {sets}").replace(
            "INSERT *", f"INSERT ({_names(columns)}) VALUES ({values})"
        )


def random_layout(seed: random.Random) -> Layout:
    """Keys of one type or two, partitions or none, files sorted by the key or more."""
    keys = [Column(f"k{place}", kind) for place, kind in enumerate(seed.choice(KEYS))]
    others = [Column(f"c{place}", seed.choice(OTHERS)) for place in range(seed.randint(2, 3))]
    partitions = [Column(f"p{place}", seed.choice(PARTITIONS)) for place in range(seed.choice((0, 0, 1, 1, 2)))]
    sortable = [one for one in others if not one.type.startswith("CHAR")]
    order = [*keys, *sortable[:1]] if seed.random() < 0.4 else []
    return Layout(keys, others, partitions, order)


class Story:
    """A target and its sources, in Spark and in DuckDB.

    Args:
        seed: of what happens.
        client: runs Spark's statements.
        place: catalog and namespace, with a group for the keys of the layout, and another one.
        groups: gives the name of a group for types of keys; ``other``: of the table that is not of the target's group.
    """

    def __init__(self, seed: int, client: Client, place: str, groups: Callable[[list[str], bool], str]) -> None:
        self.differences: list[str] = []
        self.random = random.Random(seed)
        self.layout = random_layout(self.random)
        self.statements = Statements(self.random, self.layout)
        self._client = client
        self.database = duckdb.connect()
        self._tables = {name: f"{place}.{name}_{seed}" for name in "tso"}
        types = [key.type for key in self.layout.keys]
        for name, table in self._tables.items():
            client.run(f"CREATE TABLE {table} {self.layout.definition(groups(types, name == 'o'))}")
            columns = ", ".join(f"{one.name} {one.type}" for one in self.layout.columns)
            self.database.execute(in_duckdb(f"CREATE TABLE {name} ({columns})"))
            for _ in range(2):
                self.fill(name)

    def fill(self, name: str) -> None:
        """More rows."""
        rows = self.statements.rows(25 if name == "t" else 12)
        self._client.run(f"INSERT INTO {self._tables[name]} {rows}")
        self.database.execute(in_duckdb(f"INSERT INTO {name} {rows}"))

    def of_spark(self, text: str) -> str:
        for name, table in self._tables.items():
            text = text.replace(f"{{{name}}}", table)
        return text

    def of_duckdb(self, text: str) -> str:
        for name in self._tables:
            text = text.replace(f"{{{name}}}", name)
        return in_duckdb(text)

    def run(self, statements: int) -> None:
        """So many statements, each compared; ends with the first one that differs."""
        for _ in range(statements):
            self.step(self.statements.any())
            if self.differences:
                return

    def step(self, statement: Statement) -> None:
        expected, error = self.expected(statement)
        counts: list[Row] = []
        found_error = ""
        try:
            counts = self._client.run(self.of_spark(statement.text))
        except SqlError as problem:
            found_error = str(problem)
        if bool(error) != bool(found_error) or error not in found_error:
            self._differs(statement, f"Spark: {found_error[:1500]}\n  DuckDB: {error}")
        elif (
            counts and not error and len(counts[0]) > 1 and expected is not None and int(counts[0][0] or 0) != expected
        ):
            self._differs(statement, f"counts {counts}, DuckDB's {expected}")
        if not self.differences:
            self.compare(statement)
        if self.database.execute("SELECT count(*) FROM t").fetchall()[0][0] > MOST_ROWS:
            self.step(Statement(f"DELETE FROM {{t}} AS t WHERE {self.layout.keys[0].of('t')} IS NOT NULL"))
            self.fill("t")

    def committing(self) -> Statement:
        """A statement that returns the snapshot that it commits."""
        while True:
            found = self.statements.any()
            if "INSERT INTO" not in found.text and ("DELETE FROM" not in found.text or not self.layout.partitions):
                return found

    def outcome(self, client: Client, statement: Statement) -> Row | str:
        """What a statement returns in this session, or its error."""
        try:
            return client.run(self.of_spark(statement.text))[0]
        except SqlError as error:
            return str(error)

    def expected(self, statement: Statement) -> tuple[int | None, str]:
        """How many rows DuckDB changes, or the error that Spark has to give."""
        if statement.takes_one_match and self.database.execute(self.of_duckdb(statement.violation())).fetchall():
            return None, VIOLATION
        text = self.of_duckdb(statement.without_stars(self.layout.columns))
        deleted = 0
        if ALL_DELETED in text:  # DuckDB refuses rows that match twice here, too
            self.database.execute(f"CREATE OR REPLACE TABLE gone AS {self.of_duckdb(statement.matches())}")
            deleted = self.database.execute("SELECT count(*) FROM gone").fetchall()[0][0]
            text = text.replace(ALL_DELETED, "")
        try:
            done = (
                self.database.execute(text).fetchall()
                if ALL_DELETED not in statement.text or " WHEN " in text
                else [(0,)]
            )
            if deleted:
                self.database.execute("DELETE FROM t WHERE rowid IN (SELECT id FROM gone)")
        except duckdb.Error as error:
            return None, f"DuckDB's {error}"
        return done[0][0] + deleted if done else None, ""

    def compare(self, statement: Statement) -> None:
        """Do both have the same rows?"""
        query = f"SELECT {', '.join(f'CAST({one.name} AS STRING)' for one in self.layout.columns)} FROM {{t}}"
        found = sorted(tuple(map(normal, row)) for row in self._client.run(self.of_spark(query)))
        wanted = sorted(tuple(map(normal, row)) for row in self.database.execute(self.of_duckdb(query)).fetchall())
        if found != wanted:
            more, less = list(found), list(wanted)
            for row in wanted:
                if row in more:
                    more.remove(row)
                    less.remove(row)
            self._differs(
                statement, f"{len(found)} rows, wanted {len(wanted)}; not wanted {more[:5]}; missing {less[:5]}"
            )

    def _differs(self, statement: Statement, what: str) -> None:
        layout = f"{self.layout.definition('…')}"
        self.differences.append(f"{self.of_spark(statement.text)}\n  {layout}\n  {what}")
