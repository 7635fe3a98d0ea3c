"""What is measured: statements that change rows, an INSERT of a join, and a compaction. Pure."""

from dataclasses import dataclass
from string import Formatter

from .tables import PARTITION

UPDATED = "v = s.v, amount = s.amount, name = s.name"
SAME_ROW = "t.day = s.day AND t.k = s.k"
JOIN = """SELECT t.k, t.v, t.amount, t.name, t.note, w.weight, w.list, c.position, c.code, t.day
FROM {facts} t JOIN {weights} w ON t.day = w.day AND t.k = w.k JOIN {codes} c ON t.day = c.day AND t.k = c.k"""


@dataclass(frozen=True)
class Workload:
    """A change of one table.

    Attributes:
        target: the table that changes.
        statement: what table formats and DuckDB run; ``{name}`` stands for a table. Empty for a compaction.
        overwrite: the rows by which a plain table overwrites the partitions in which rows change; empty for an INSERT.
    """

    name: str
    target: str
    statement: str
    overwrite: str

    @property
    def tables(self) -> set[str]:
        """The names of all that it reads or changes."""
        return {self.target} | {name for _, name, _, _ in Formatter().parse(self.statement) if name}


def _update(name: str, changes: str, only_day: str = "") -> Workload:
    only_target = f" AND t.{PARTITION} = {only_day}" if only_day else ""
    only_read = f" WHERE t.{PARTITION} = {only_day}" if only_day else ""
    return Workload(
        name,
        "facts",
        f"MERGE INTO {{facts}} t USING {{{changes}}} s ON {SAME_ROW}{only_target} "
        f"WHEN MATCHED THEN UPDATE SET {UPDATED}",
        "SELECT t.k, coalesce(s.v, t.v) AS v, coalesce(s.amount, t.amount) AS amount, "
        "coalesce(s.name, t.name) AS name, t.note, t.day "
        f"FROM {{facts}} t LEFT JOIN {{{changes}}} s ON {SAME_ROW}{only_read}",
    )


WORKLOADS = (
    _update("update_1_percent", "onepercent"),
    _update("update_1_percent_in_one_partition", "onepartition", only_day="2"),
    _update("update_10_percent", "tenpercent"),
    Workload(
        "upsert_half_new",
        "facts",
        f"MERGE INTO {{facts}} t USING {{halfnew}} s ON {SAME_ROW} WHEN MATCHED THEN UPDATE SET {UPDATED} "
        "WHEN NOT MATCHED THEN INSERT *",
        "SELECT coalesce(t.k, s.k) AS k, coalesce(s.v, t.v) AS v, coalesce(s.amount, t.amount) AS amount, "
        "coalesce(s.name, t.name) AS name, coalesce(t.note, s.note) AS note, coalesce(t.day, s.day) AS day "
        f"FROM {{facts}} t FULL OUTER JOIN {{halfnew}} s ON {SAME_ROW}",
    ),
    Workload(
        "delete_by_join",
        "facts",
        f"MERGE INTO {{facts}} t USING {{gone}} s ON {SAME_ROW} WHEN MATCHED THEN DELETE",
        f"SELECT * FROM {{facts}} t LEFT ANTI JOIN {{gone}} s ON {SAME_ROW}",
    ),
    Workload("insert_select_of_join", "joined", f"INSERT INTO {{joined}} {JOIN}", ""),
    Workload("compaction", "small", "", "SELECT * FROM {small}"),
)
TARGETS = frozenset(workload.target for workload in WORKLOADS)
