"""Runs random changes of rows in Spark and in DuckDB: after each, the rows and the counts that it returns are compared.

Two things are shown alike, since both systems store them otherwise: CHAR values are without the spaces that Spark adds,
NaN is without its sign.
"""

import random
import re
from collections.abc import Callable, Mapping
from typing import Any

import duckdb

from tests.spark import random_sql
from tests.spark.random_changes import Column, Statement, Statements, in_duckdb, names, random_layout
from tests.spark.sql_clients import Client, Row, SqlError

VIOLATION = "MERGE_CARDINALITY_VIOLATION"
MOST_ROWS = 150
OF_TARGET = re.compile(r"\bt\.(?=[kcpe]\d)")
Groups = Callable[[list[str], bool], str]


def normal(value: object) -> str:
    """A value as both show it."""
    shown = "NULL" if value is None else str(value).rstrip(" ")
    shown = {"-nan": "nan", "NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}.get(shown, shown)
    return random_sql.normal(shown)


class Frames:
    """MERGE by DataFrames.

    Args:
        session: classic, or of Connect.
        expression: makes a column of SQL.
    """

    def __init__(self, session: Any, expression: Callable[[str], Any]) -> None:
        self._session = session
        self._expression = expression

    def merge(self, statement: Statement, target: str, of_spark: Callable[[str], str]) -> None:
        """Raises SqlError: it has failed."""

        def column(text: str) -> Any:
            return self._expression(OF_TARGET.sub(f"{target}.", text))

        try:
            writer = self._session.sql(of_spark(statement.source)).alias("s").mergeInto(target, column(statement.on))
            whens = {"MATCHED": writer.whenMatched, "NOT MATCHED": writer.whenNotMatched,
                     "NOT MATCHED BY SOURCE": writer.whenNotMatchedBySource}  # fmt: skip
            for clause in statement.clauses:
                when = whens[clause.when](*([column(clause.condition)] if clause.condition else []))
                values = {name: column(value) for name, value in clause.values}
                if clause.action == "DELETE":
                    when.delete()
                elif clause.action == "UPDATE":
                    when.update(values) if values else when.updateAll()
                else:
                    when.insert(values) if values else when.insertAll()
            if statement.added:
                writer.withSchemaEvolution()
            writer.merge()
        except Exception as error:
            raise SqlError(str(error)) from error


class Story:
    """A target and its sources, in Spark and in DuckDB.

    Args:
        seed: of what happens.
        client: runs Spark's statements.
        place: catalog and namespace, with a group for the keys of the layout, and another one.
        groups: gives the name of a group for types of keys; ``other``: of the table that is not of the target's group.
        frames: where MERGE may be a call.
        buckets: of the tables by their names, where they differ.
    """

    def __init__(
        self, seed: int, client: Client, place: str, groups: Groups, frames: Frames | None = None,
        buckets: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        self.differences: list[str] = []
        self.random = random.Random(seed)
        self.layout = random_layout(self.random)
        self.statements = Statements(self.random, self.layout)
        self.database = duckdb.connect()
        # With an index DuckDB replaces rows; else it keeps values that are equal to the new ones, as -0.0 is to 0.0.
        self.database.execute("SET index_scan_max_count = 0; SET index_scan_percentage = 0")
        self._client = client
        self._frames = frames
        self._tables = {name: f"{place}.{name}_{seed}" for name in "tso"}
        self._seen = {"v": f"view_{seed}"}
        types = [re.sub(r"(VAR)?CHAR\(\d+\)", "STRING", key.type) for key in self.layout.keys]
        for name, table in self._tables.items():
            is_partitioned = name == "t" or self.random.random() < 0.5
            group, number = groups(types, name == "o"), (buckets or {}).get(name, 6)
            client.run(f"CREATE TABLE {table} {self.layout.definition(group, is_partitioned, number)}")
            columns = ", ".join(f"{one.name} {one.type}" for one in self.layout.columns)
            self.database.execute(in_duckdb(f"CREATE TABLE {name} ({columns})"))
            for one in self.layout.columns:
                if one.is_fraction:
                    self.database.execute(f"CREATE INDEX {name}_{one.name} ON {name} ({one.name})")
            for _ in range(2):
                self.fill(name)

    def fill(self, name: str) -> None:
        """More rows."""
        rows, columns = self.statements.rows(25 if name == "t" else 12), names(self.layout.columns)
        self._client.run(f"INSERT INTO {self._tables[name]} ({columns}) {rows}")
        self.database.execute(in_duckdb(f"INSERT INTO {name} ({columns}) {rows}"))

    @property
    def compaction(self) -> Statement:
        catalog, table = self._tables["t"].split(".", 1)
        return Statement(f"CALL {catalog}.system.compact(table => '{table}')")

    def see(self) -> None:
        """From now on a MERGE may also read a view ``{v}``, and the target as it is now, ``{b}``."""
        view = f"VIEW {{v}} AS SELECT * FROM {{s}} AS x WHERE {self.statements.condition(['x'])}"
        self._client.run(self.of_spark(f"CREATE OR REPLACE TEMPORARY {view}"))
        self.database.execute(self.of_duckdb(f"CREATE OR REPLACE {view}"))
        [(snapshot,)] = self._client.run(f"SELECT max(snapshot_id) FROM {self._tables['t']}.snapshots")
        self._seen["b"] = f"{self._tables['t']} VERSION AS OF {snapshot}"
        self.database.execute("CREATE OR REPLACE TABLE b AS FROM t")
        self.statements.sources = [*self.statements.sources[:4], "{v}", "{b}"]

    def of_spark(self, text: str) -> str:
        for name, table in {**self._tables, **self._seen}.items():
            text = text.replace(f"{{{name}}}", table)
        return text

    def of_duckdb(self, text: str) -> str:
        for name in "tsovb":
            text = text.replace(f"{{{name}}}", name)
        return in_duckdb(text)

    def run(self, statements: int) -> None:
        """So many statements, each compared; ends with the first one that differs."""
        for _ in range(statements):
            if self.random.random() < 0.05:
                self._client.run(self.of_spark(self.compaction.text))
            if self.random.random() < 0.2:
                self.see()
            self.step(self.statements.any())
            if self.differences:
                return

    def step(self, statement: Statement) -> None:
        if statement.added:
            self._add(statement.added, "t")
        expected, error = self.expected(statement)
        counts: list[Row] = []
        found_error = ""
        try:
            counts = self._run(statement)
        except SqlError as problem:
            found_error = str(problem)
        if bool(error) != bool(found_error) or error not in found_error:
            self._differs(statement, f"Spark: {found_error[:1500]}\n  DuckDB: {error}")
        elif (
            counts and not error and len(counts[0]) > 1 and expected is not None and int(counts[0][0] or 0) != expected
        ):
            self._differs(statement, f"counts {counts}, DuckDB's {expected}")
        if statement.added and not self.differences:
            self._add_to_sources(statement.added)
        if not self.differences:
            self.compare(statement)
        if self.database.execute("SELECT count(*) FROM t").fetchall()[0][0] > MOST_ROWS:
            self.step(Statement(f"DELETE FROM {{t}} AS t WHERE {self.layout.keys[0].of('t')} IS NOT NULL"))
            self.fill("t")

    def _run(self, statement: Statement) -> list[Row]:
        if self._frames and statement.clauses and "DEFAULT" not in statement.text and self.random.random() < 0.3:
            self._frames.merge(statement, self._tables["t"], self.of_spark)
            return []
        return self._client.run(self.of_spark(statement.text))

    def _add(self, column: Column, name: str) -> None:
        self.database.execute(in_duckdb(f"ALTER TABLE {name} ADD COLUMN {column.name} {column.type}"))
        if name == "t":
            self.layout.others.append(column)

    def _add_to_sources(self, column: Column) -> None:
        """So that all tables have the same columns again. A statement that fails has not always added its own."""
        self.statements.sources = self.statements.sources[:4]
        for name, table in self._tables.items():
            if name != "t":
                self._add(column, name)
            if (column.name,) not in self._client.run(f"SHOW COLUMNS IN {table}"):
                self._client.run(f"ALTER TABLE {table} ADD COLUMN {column.name} {column.type}")

    def committing(self) -> Statement:
        """A statement that returns the snapshot that it commits."""
        while True:
            found = self.statements.any()
            is_metadata_only = "DELETE FROM" in found.text and self.layout.partitions
            if "INSERT INTO" not in found.text and not is_metadata_only and not found.added:
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
        deleted = 0
        try:
            if statement.deletes_all_matches:  # DuckDB refuses rows that match twice here, too
                self.database.execute(f"CREATE OR REPLACE TABLE gone AS {self.of_duckdb(statement.matches())}")
                deleted = self.database.execute("SELECT count(*) FROM gone").fetchall()[0][0]
            known = statement.of_duckdb(self.layout.columns)
            done = self.database.execute(self.of_duckdb(known.text)).fetchall() if known else [(0,)]
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
