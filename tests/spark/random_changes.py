"""Random UPDATE, DELETE, MERGE and INSERT … SELECT of table ``t``, by rows of ``s`` of its group and ``o`` of another.

All three have the same columns. ``change_story`` runs the statements.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

KEYS = (
    ("BIGINT",), ("BIGINT",), ("STRING",), ("INT",), ("DATE",), ("DECIMAL(12,2)",), ("DOUBLE",), ("FLOAT",),
    ("CHAR(4)",), ("VARCHAR(6)",), ("TIMESTAMP",), ("DECIMAL(20,3)",), ("BIGINT", "STRING"), ("DATE", "INT"),
    ("DOUBLE", "BIGINT"), ("STRING", "CHAR(4)"), ("FLOAT", "DOUBLE"), ("SMALLINT",), ("BINARY",), ("BOOLEAN",),
    ("TIMESTAMP_NTZ",), ("BINARY", "SMALLINT"),
)  # fmt: skip
OTHERS = (
    "BIGINT", "STRING", "DOUBLE", "DATE", "INT", "DECIMAL(12,2)", "CHAR(4)", "VARCHAR(6)", "FLOAT", "DECIMAL(20,3)",
    "TIMESTAMP", "BOOLEAN", "SMALLINT", "BINARY", "TIMESTAMP_NTZ",
)  # fmt: skip
PARTITIONS = ("INT", "STRING", "DATE", "DECIMAL(12,2)", "BOOLEAN", "CHAR(4)", "VARCHAR(6)", "BIGINT", "SMALLINT")
FRACTIONS = ("DOUBLE", "FLOAT")
TEXTS = ("a", "B", "ä", "a b", "p=q", "日本", "A", "ab")


@dataclass(frozen=True)
class Column:
    """A column of all tables."""

    name: str
    type: str

    @property
    def family(self) -> str:
        """The type without a length: texts of a length compare with others, CHAR only with itself."""
        return "STRING" if self.type.startswith("VARCHAR") else self.type

    @property
    def is_fraction(self) -> bool:
        """Whether it has two zeros, of which a grouping or a maximum gives either one."""
        return self.type in FRACTIONS

    def of(self, table: str) -> str:
        return f"{table}.{self.name}"


@dataclass
class Layout:
    """How the target is stored."""

    keys: list[Column]
    others: list[Column]
    partitions: list[Column]
    sorted_by: list[Column] = field(default_factory=list)
    properties: str = ""

    @property
    def columns(self) -> list[Column]:
        return [*self.keys, *self.others, *self.partitions]

    def definition(self, group: str, is_partitioned: bool = True, buckets: int = 6) -> str:
        """What follows the table's name."""
        columns = ", ".join(f"{one.name} {one.type}" for one in self.columns)
        partitions = f"PARTITIONED BY ({names(self.partitions)})" if self.partitions and is_partitioned else ""
        order = f"SORTED BY ({names(self.sorted_by)})" if self.sorted_by else ""
        return (f"({columns}) {partitions} CLUSTERED BY ({names(self.keys)}) {order} INTO {buckets} BUCKETS "
                f"TBLPROPERTIES ('colocate_with'='{group}', 'retention_snapshots'='40'{self.properties})")  # fmt: skip


def random_layout(seed: random.Random) -> Layout:
    """Keys of one type or two, partitions or none, files sorted by the key or more."""
    keys = [Column(f"k{place}", kind) for place, kind in enumerate(seed.choice(KEYS))]
    others = [Column(f"c{place}", seed.choice(OTHERS)) for place in range(seed.randint(2, 3))]
    partitions = [Column(f"p{place}", seed.choice(PARTITIONS)) for place in range(seed.choice((0, 0, 1, 1, 2)))]
    sortable = [one for one in others if not one.type.startswith("CHAR")]
    order = [*keys, *sortable[:1]] if seed.random() < 0.4 else []
    compacts = ", 'compaction_enabled'='true', 'compaction_max_files_per_bucket'='2'"
    return Layout(keys, others, partitions, order, compacts if seed.random() < 0.3 else "")


def names(columns: Sequence[Column]) -> str:
    return ", ".join(one.name for one in columns)


@dataclass(frozen=True)
class Clause:
    """A clause of a MERGE; ``values`` by column, none for ``*`` and DELETE."""

    when: str
    condition: str
    action: str
    values: tuple[tuple[str, str], ...] = ()

    def text(self) -> str:
        condition = f" AND {self.condition}" if self.condition else ""
        return f"WHEN {self.when}{condition} THEN {self._done()}"

    def _done(self) -> str:
        match self.action, self.values:
            case "DELETE", _:
                return "DELETE"
            case "UPDATE", ():
                return "UPDATE SET *"
            case "UPDATE", values:
                return "UPDATE SET " + ", ".join(f"{column} = {value}" for column, value in values)
            case _, ():
                return "INSERT *"
            case _, values:
                columns, rows = (", ".join(part) for part in zip(*values, strict=True))
                return f"INSERT ({columns}) VALUES ({rows})"

    @property
    def has_star(self) -> bool:
        return self.action != "DELETE" and not self.values

    def without_star(self, columns: Sequence[Column]) -> "Clause":
        return replace(self, values=tuple((one.name, one.of("s")) for one in columns)) if self.has_star else self


@dataclass(frozen=True)
class Statement:
    """A statement; of a MERGE its parts.

    Args:
        source: its query.
        is_shared: whether the source is a common table expression.
        table: the source, where it is a table.
        added: a column that the target lacks, which the statement adds.
    """

    written: str = ""
    source: str = ""
    on: str = ""
    clauses: tuple[Clause, ...] = ()
    is_shared: bool = False
    table: str = ""
    added: Column | None = None

    @property
    def text(self) -> str:
        if self.written:
            return self.written
        prefix = f"WITH c AS ({self.source}) " if self.is_shared else ""
        source = "c" if self.is_shared else self.table or f"({self.source})"
        evolution = " WITH SCHEMA EVOLUTION" if self.added else ""
        clauses = " ".join(clause.text() for clause in self.clauses)
        return f"{prefix}MERGE{evolution} INTO {{t}} AS t USING {source} AS s ON {self.on} {clauses}"

    @property
    def deletes_all_matches(self) -> bool:
        """Whether it takes several matches of a row: it deletes it anyway."""
        matched = [clause for clause in self.clauses if clause.when == "MATCHED"]
        return [(one.action, one.condition) for one in matched] == [("DELETE", "")]

    @property
    def takes_one_match(self) -> bool:
        """Whether a row that matches twice is an error."""
        return not self.deletes_all_matches and any(clause.when == "MATCHED" for clause in self.clauses)

    def violation(self) -> str:
        """A query of the rows that match twice."""
        return f"SELECT 1 FROM {{t}} AS t JOIN ({self.source}) AS s ON {self.on} GROUP BY t.rowid HAVING count(*) > 1"

    def matches(self) -> str:
        """A query of the rows of the target that match."""
        return f"SELECT DISTINCT t.rowid AS id FROM {{t}} AS t JOIN ({self.source}) AS s ON {self.on}"

    def of_duckdb(self, columns: Sequence[Column]) -> "Statement | None":
        """Without what DuckDB does not know; None when nothing is left."""
        kept = [clause.without_star(columns) for clause in self.clauses]
        if self.deletes_all_matches:
            kept = [clause for clause in kept if clause.when != "MATCHED"]
        return None if self.clauses and not kept else replace(self, clauses=tuple(kept), added=None)


class Statements:
    """Random statements of a layout; ``{t}``, ``{s}``, ``{o}`` stand for the tables.

    Args:
        sources: what a MERGE may read.
    """

    def __init__(self, seed: random.Random, layout: Layout) -> None:
        self.sources = ["{s}", "{s}", "{o}", "{t}"]
        self._random = seed
        self._layout = layout

    def any(self) -> Statement:
        kinds: list[Callable[[], Statement]] = [*[self.merge] * 5, *[self.update] * 3, *[self.delete] * 2, self.insert]
        return self._random.choice(kinds)()

    # Values and conditions

    def value(self, kind: str, null: float = 0.12) -> str:
        number = self._random.randint
        if self._random.random() < null:
            return f"CAST(NULL AS {kind})"
        match kind:
            case "BIGINT" | "INT" | "SMALLINT":
                return f"CAST({number(-2, 9)} AS {kind})"
            case "DECIMAL(12,2)" | "DECIMAL(20,3)":
                return f"CAST({number(-2, 4)}.50 AS {kind})"
            case "DATE":
                return f"DATE '2026-01-0{number(1, 6)}'"
            case "TIMESTAMP":
                return f"TIMESTAMP '2026-01-0{number(1, 6)} 12:00:00.5'"
            case "TIMESTAMP_NTZ":
                return f"TIMESTAMP_NTZ '2026-01-0{number(1, 6)} 12:00:00.5'"
            case "BINARY":
                return f"CAST('{self._random.choice(('', 'a', 'B', 'a b', 'ab'))}' AS BINARY)"
            case "BOOLEAN":
                return self._random.choice(("true", "false"))
            case "DOUBLE" | "FLOAT":
                picked = self._random.choice(("0.0", "-0.0", "NaN", "1.5", "-1.5", "2", "Infinity"))
                return f"CAST('{picked}' AS {kind})"
            case "CHAR(4)":  # Spark pads constants and columns of the type, not texts that are made from them
                return f"rpad('{self._random.choice(TEXTS)}', 4, ' ')"
            case _:
                return f"CAST('{self._random.choice(TEXTS)}' AS {kind})"

    def constant(self, kind: str, null: float = 0.12) -> str:
        """A value that a column is compared with. Spark pads it to the column's length."""
        found = self.value(kind, null)
        return re.sub(r"rpad\(('[^']*'), 4, ' '\)", r"\1", found) if self._random.random() < 0.7 else found

    def rows(self, most: int) -> str:
        """A query of constants, with the names of columns."""
        columns = self._layout.columns
        values = (
            "(" + ", ".join(self.value(one.type) for one in columns) + ")" for _ in range(self._random.randint(1, most))
        )
        return f"SELECT * FROM (VALUES {', '.join(values)}) v({names(columns)})"

    def expression(self, column: Column, tables: Sequence[str]) -> str:
        """A new value for a column, of columns of these tables."""
        chance = self._random.random()
        if chance < 0.08:
            condition, values = self.condition(tables, 1), [self._simply(column, tables) for _ in range(2)]
            return f"CASE WHEN {condition} THEN {values[0]} ELSE {values[1]} END"
        if chance < 0.16:
            return f"coalesce({self._simply(column, tables)}, {self.value(column.type)})"
        return self._simply(column, tables)

    def assigned(self, column: Column, tables: Sequence[str]) -> str:
        """The same for SET and VALUES."""
        return "DEFAULT" if self._random.random() < 0.04 else self.expression(column, tables)

    def _simply(self, column: Column, tables: Sequence[str]) -> str:
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
            case "DECIMAL(12,2)" | "DECIMAL(20,3)":
                return f"CAST({picked} + 1 AS {column.type})"
            case "SMALLINT":
                return f"CAST({picked} + 1 AS SMALLINT)"
            case "DATE" | "TIMESTAMP" | "TIMESTAMP_NTZ":
                return f"CAST({picked} + INTERVAL 1 DAY AS {column.type})"
            case "BOOLEAN":
                return f"NOT {picked}"
            case "DOUBLE" | "FLOAT":
                return self._random.choice((f"-{picked}", f"{picked} * CAST(0 AS {column.type})",
                                            f"{picked} + CAST(0.5 AS {column.type})"))  # fmt: skip
            case "CHAR(4)" | "BINARY":
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
        value = self.constant(column.type, null=0.05)
        if chance < 0.15:
            return f"{name} IS {self._random.choice(('', 'NOT '))}NULL"
        if chance < 0.3:
            return f"{name} IN ({value}, {self.constant(column.type)})"
        if chance < 0.5 and len(tables) > 1:
            return f"{column.of(tables[0])} {self._random.choice(('=', '<=>', '<', '<>'))} {column.of(tables[1])}"
        return f"{name} {self._random.choice(('=', '=', '<=>', '<', '>=', '<>'))} {value}"

    # Sources

    def source(self) -> str:
        """A query with the columns of all tables."""
        columns, keys = names(self._layout.columns), names(self._layout.keys)
        others = [*self._layout.others, *self._layout.partitions]
        order = ", ".join(part for one in self._layout.columns for part in _in_order(one))
        first = f"SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS n FROM"
        table = self._random.choice(self.sources)
        mixed = ", ".join([*(one.of("x") for one in self._layout.keys),
                           *(one.of(self._random.choice("xy")) for one in others)])  # fmt: skip
        kinds = [
            f"SELECT {columns} FROM {table} x", f"SELECT {columns} FROM {table} x WHERE {self.condition(['x'])}",
            f"SELECT {columns} FROM {table} x WHERE {self.condition(['x'])}", self.rows(5),
            *[f"SELECT {columns} FROM ({first} {table}) WHERE n = 1"] * 2,
            f"SELECT {columns} FROM {{s}} x WHERE {self.condition(['x'])} UNION ALL {self.rows(3)}",
            f"SELECT x.* FROM {{s}} x WHERE EXISTS (SELECT 1 FROM {{o}} y WHERE {self._equal('x', 'y')})",
            f"SELECT {columns} FROM {{s}} UNION ALL SELECT {columns} FROM {{t}} x WHERE {self.condition(['x'])}",
            f"SELECT {mixed} FROM {{s}} x LEFT JOIN {table} y ON {self._equal('x', 'y')} WHERE {self.condition(['x'])}",
        ]  # fmt: skip
        if not any(one.is_fraction for one in self._layout.columns):
            kinds.append(f"SELECT DISTINCT {columns} FROM {table}")
        if not any(one.type == "CHAR(4)" for one in others):  # an aggregate is not padded when it is compared
            shown = ", ".join(f"{one.of('x')}{_zero(one)} AS {one.name}" for one in self._layout.keys)
            most = ", ".join(f"{_of_all('max', one, 'x')} AS {one.name}" for one in others)
            by = ", ".join(one.of("x") for one in self._layout.keys)
            kinds += [f"SELECT {shown}, {most} FROM {table} x GROUP BY {by}"] * 3
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
        keys = [", ".join(one.of(table) for one in self._layout.keys) for table in "tx"]
        whole = f"({keys[0]}) IN (SELECT {keys[1]} FROM {other} x WHERE {where})"
        kinds = [exists, f"NOT {exists}", f"{picked.of('t')} {listed}", f"{picked.of('t')} NOT {listed}", whole]
        if column.type != "CHAR(4)":
            kinds.append(f"{column.of('t')} = (SELECT max({column.of('x')}) FROM {other} x WHERE {where})")
            kinds.append(
                f"{column.of('t')} >= (SELECT min({column.of('x')}) FROM {other} x WHERE {self._equal('x', 't')})"
            )
        return self._random.choice(kinds)

    def _where(self) -> str:
        other = self._random.choice(("{s}", "{o}", "{t}"))
        match self._random.randint(0, 6):
            case 0 | 1:
                return self.condition(["t"])
            case 2:
                keys = " AND ".join(f"{key.of('t')} = {self.constant(key.type, 0)}" for key in self._layout.keys)
                return self._random.choice((keys, f"{keys} AND {self.condition(['t'])}"))
            case 3:
                return self._subquery(other)
            case 4:
                return f"{self._subquery(other)} AND {self.condition(['t'])}"
            case 5 if self._layout.partitions:
                partitions = " AND ".join(
                    f"{one.of('t')} <=> {self.constant(one.type)}" for one in self._layout.partitions
                )
                return self._random.choice((partitions, f"{partitions} AND {self.condition(['t'])}"))
            case _:
                return f"{self._subquery(other)} OR {self.condition(['t'])}"

    # Statements

    def delete(self) -> Statement:
        return self._of_cte(f"DELETE FROM {{t}} AS t WHERE {self._where()}")

    def update(self) -> Statement:
        sets = []
        for column in self._some_columns():
            value = self.assigned(column, ["t"])
            if self._random.random() < 0.2 and column.type != "CHAR(4)":  # DuckDB fails on them in a MERGE
                of, where = self._random.choice((("{s}", self._equal("x", "t")), ("{o}", self.condition(["x"]))))
                value = f"(SELECT {_of_all('max', column, 'x')} FROM {of} x WHERE {where})"
            sets.append(f"{column.name} = {value}")
        where = f" WHERE {self._where()}" if self._random.random() < 0.9 else ""
        return self._of_cte(f"UPDATE {{t}} AS t SET {', '.join(sets)}{where}")

    def _of_cte(self, statement: str) -> Statement:
        """The source of subqueries as a common table expression, sometimes."""
        if "{s}" in statement and self._random.random() < 0.2:
            return Statement(f"WITH c AS (SELECT * FROM {{s}}) {statement.replace('FROM {s}', 'FROM c')}")
        return Statement(statement)

    def _some_columns(self) -> list[Column]:
        columns = self._layout.columns
        return self._random.sample(columns, self._random.randint(1, min(3, len(columns))))

    def insert(self) -> Statement:
        columns = self._layout.columns
        picks = ", ".join(self.expression(column, ["x", "y"]) for column in columns)
        if self._random.random() < 0.5:  # rows that stay in their bucket
            kept = [key.of("x") for key in self._layout.keys]
            others = [*self._layout.others, *self._layout.partitions]
            picks = ", ".join([*kept, *(self.expression(one, ["x", "y"]) for one in others)])
        one, other = self._random.choice(("{s}", "{t}")), self._random.choice(("{s}", "{o}", "{t}"))
        join = self._random.choice(("JOIN", "LEFT JOIN"))
        where = f"{self.condition(['x'], 1)} AND {self.condition(['x'], 1)}"
        return Statement(f"INSERT INTO {{t}} ({names(columns)}) SELECT {picks} FROM {one} x {join} {other} y "
                         f"ON {self._equal('x', 'y')} WHERE {where}")  # fmt: skip

    def merge(self) -> Statement:
        query, on = self.source(), self._on()
        matched = self._clauses("MATCHED", ["t", "s"])
        by_source = self._clauses("NOT MATCHED BY SOURCE", ["t"]) if self._random.random() < 0.4 else []
        clauses = [*matched, *self._inserts(), *by_source] or [Clause("MATCHED", "", "DELETE")]
        merge = Statement("", query, on, tuple(clauses))
        if self._random.random() < 0.06 and any(clause.has_star for clause in clauses):
            return self._adding(merge)
        match self._random.randint(0, 3):
            case 0:
                return replace(merge, is_shared=True)
            case 1:
                table = self._random.choice(("{s}", "{o}"))
                return replace(merge, source=f"SELECT * FROM {table}", table=table)
            case _:
                return merge

    def _on(self) -> str:
        keys = self._layout.keys
        sides = self._random.choice(("ts", "ts", "st"))
        equal = self._equal(*sides, self._random.choice(("=", "=", "=", "=", "<=>")))
        chance, is_one_number = self._random.random(), len(keys) == 1 and keys[0].type in ("BIGINT", "INT")
        if chance < 0.3:
            return f"{equal} AND {self.condition(['t', 's'], 1)}"
        if chance < 0.4 and len(keys) == 1:
            return f"{equal} AND {keys[0].of('t')} = {self.constant(keys[0].type, 0)}"
        if chance < 0.5:
            return self.condition(["t", "s"])
        if chance < 0.55 and is_one_number:
            return f"CAST({keys[0].of('t')} AS DOUBLE) = CAST({keys[0].of('s')} AS DOUBLE)"
        if chance < 0.6 and is_one_number:
            return f"{keys[0].of('s')} + 1 = {keys[0].of('t')}"
        if chance < 0.65:
            return " AND ".join([equal, *(f"{one.of('t')} = {one.of('s')}" for one in self._layout.partitions)])
        return "false" if chance < 0.67 else equal

    def _adding(self, merge: Statement) -> Statement:
        """The source has a column that the target lacks."""
        added = Column(f"e{len(self._layout.columns)}", self._random.choice(("BIGINT", "STRING", "DATE")))
        return replace(
            merge, source=f"SELECT q.*, {self.value(added.type)} AS {added.name} FROM ({merge.source}) q", added=added
        )

    def _clauses(self, when: str, tables: Sequence[str]) -> list[Clause]:
        clauses, number = [], self._random.choice((0, 1, 1, 1, 2, 3))
        for place in range(number):
            is_last = place == number - 1
            condition = "" if is_last and self._random.random() < 0.6 else self.condition(tables)
            clauses.append(self._clause(when, condition, tables))
        return clauses

    def _clause(self, when: str, condition: str, tables: Sequence[str]) -> Clause:
        chance = self._random.random()
        if chance < 0.25:
            return Clause(when, condition, "DELETE")
        if chance < 0.45 and "s" in tables:
            return Clause(when, condition, "UPDATE")
        values = tuple((one.name, self.assigned(one, tables)) for one in self._some_columns())
        return Clause(when, condition, "UPDATE", values)

    def _inserts(self) -> list[Clause]:
        clauses, number = [], self._random.choice((0, 1, 1, 1, 2))
        for place in range(number):
            is_last = place == number - 1
            condition = "" if is_last and self._random.random() < 0.6 else self.condition(["s"])
            values = tuple((one.name, self.assigned(one, ["s"])) for one in self._some_columns())
            clauses.append(Clause("NOT MATCHED", condition, "INSERT", () if self._random.random() < 0.5 else values))
        return clauses


# Where Spark and DuckDB may pick either zero


def _of_all(function: str, column: Column, table: str) -> str:
    zero = f" + CAST(0 AS {column.type})" if column.is_fraction else ""
    return f"{function}({column.of(table)}){zero}"


def _zero(key: Column) -> str:
    """Spark's groups have the positive zero, and DuckDB's that of their first row."""
    return f" /*{key.type} zero*/" if key.is_fraction else ""


def _in_order(column: Column) -> list[str]:
    """A whole order, also of zeros."""
    shown = [f"{column.name} NULLS FIRST"]
    return [*shown, f"CAST({column.name} AS STRING) NULLS FIRST"] if column.is_fraction else shown


def in_duckdb(statement: str) -> str:
    """DuckDB has texts of one type, which are not padded, and other names for types, an operator and NULL."""
    statement = statement.replace("TIMESTAMP_NTZ", "TIMESTAMP").replace("BINARY", "BLOB")
    statement = re.sub(r"\bDEFAULT\b", "NULL", statement)
    statement = re.sub(r"rpad\(('[^']*'), 4, ' '\)", r"\1", statement)
    statement = re.sub(r"/\*(\w+) zero\*/", r"+ 0::\1", statement)
    return re.sub(r"VARCHAR\(\d+\)|(?<!\w)CHAR\(\d+\)|STRING", "VARCHAR", statement).replace(
        "<=>", "IS NOT DISTINCT FROM"
    )
