"""The rows that each workload must leave, by DuckDB."""

from dataclasses import dataclass
from pathlib import Path

import duckdb

from .tables import HEXADECIMAL_IN_DUCKDB, Table, digest_of
from .workloads import Workload


@dataclass(frozen=True)
class Expected:
    """``digest`` as ``digest_of`` its target; ``rows_changed``: updated, deleted and inserted ones."""

    digest: tuple[int, ...]
    rows_changed: int


def expected(workload: Workload, tables: dict[str, Table], folder: Path) -> Expected:
    """Run the workload's statement over ``folder``'s Parquet files, one folder per table."""
    with duckdb.connect(config={"threads": 2, "memory_limit": "4GB"}) as database:
        for name in tables:
            database.execute(f"CREATE VIEW {name}_rows AS SELECT * FROM '{folder}/{name}/*.parquet'")
            kind = "TABLE" if name == workload.target else "VIEW"
            database.execute(f"CREATE {kind} {name} AS SELECT * FROM {name}_rows")
        changed = 0
        if workload.statement:
            counts = database.execute(workload.statement.format(**{name: name for name in tables})).fetchall()
            changed = int(counts[0][0])
        target = tables[workload.target]
        row = database.execute(f"SELECT {digest_of(HEXADECIMAL_IN_DUCKDB, target)} FROM {target.name}").fetchall()[0]
        return Expected(tuple(int(value) for value in row), changed)
