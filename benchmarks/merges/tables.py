"""The rows of the benchmark, the same for all variants: three large tables of one key, and tables of changes. Pure."""

from dataclasses import dataclass

BUCKETS = 8
DAYS = 4
KEY, PARTITION = "k", "day"
COLUMNS = ("k BIGINT", "v BIGINT", "amount DECIMAL(12,2)", "name STRING", "note STRING", "day INT")
NOTE = "md5(CAST(id AS STRING))"


@dataclass(frozen=True)
class Table:
    """``select`` is a statement of Spark; the partition column comes last, as INSERT OVERWRITE wants it."""

    name: str
    columns: tuple[str, ...]
    select: str

    @property
    def column_names(self) -> tuple[str, ...]:
        """Without types."""
        return tuple(column.split()[0] for column in self.columns)


def tables(rows: int) -> tuple[Table, ...]:
    """``facts`` has so many rows, and ``small`` the same ones in many files. Keys are 7 times a number."""
    return (
        Table("facts", COLUMNS, _facts(rows, "true", "id")),
        Table("small", COLUMNS, _facts(rows, "true", "id")),
        Table("weights", ("k BIGINT", "weight BIGINT", "list STRING", "day INT"),
              f"SELECT 7 * id AS k, id * 11 AS weight, concat('[', id, ', ', id + 1, ']') AS list, "
              f"CAST(id % {DAYS} AS INT) AS day FROM range({rows})"),
        Table("codes", ("k BIGINT", "position BIGINT", "code STRING", "day INT"),
              f"SELECT 7 * id AS k, id * 3 AS position, {NOTE} AS code, "
              f"CAST(id % {DAYS} AS INT) AS day FROM range({rows})"),
        Table("joined", (*COLUMNS[:-1], "weight BIGINT", "list STRING", "position BIGINT", "code STRING", "day INT"),
              f"SELECT k, v, amount, name, note, v AS weight, note AS list, v AS position, note AS code, day "
              f"FROM ({_facts(rows, 'false', 'id')})"),
        Table("onepercent", COLUMNS, _facts(rows, "pmod(hash(id), 100) = 3", "id + 1")),
        Table("onepartition", COLUMNS,
              _facts(rows, f"id % {DAYS} = 2 AND pmod(hash(id), {100 // DAYS}) = 3", "id + 1")),
        Table("tenpercent", COLUMNS, _facts(rows, "pmod(hash(id), 10) = 3", "id + 1")),
        Table("gone", COLUMNS, _facts(rows, "pmod(hash(id), 20) = 3", "id")),
        # Keys of new rows are not divisible by 7.
        Table("halfnew", COLUMNS, f"{_facts(rows, 'pmod(hash(id), 20) = 3', 'id + 1')} UNION ALL "
              f"SELECT k + 1, v, amount, name, note, day FROM ({_facts(rows, 'pmod(hash(id), 20) = 4', 'id + 2')})"),
    )  # fmt: skip


def _facts(rows: int, where: str, value: str) -> str:
    return (
        f"SELECT 7 * id AS k, {value} AS v, CAST(({value}) % 100000 / 100 AS DECIMAL(12,2)) AS amount, "
        f"concat('name ', {value}) AS name, {NOTE} AS note, CAST(id % {DAYS} AS INT) AS day "
        f"FROM range({rows}) WHERE {where}"
    )


def digest_of(hexadecimal: str, table: Table) -> str:
    """Columns of a SELECT that tell whether two tables have the same rows; ``hexadecimal`` reads the text ``{}``."""
    text = "concat_ws('|', " + ", ".join(f"CAST({name} AS STRING)" for name in table.column_names) + ")"
    return f"count(*), sum(k), sum({hexadecimal.format(f'substr(md5({text}), 1, 8)')})"


HEXADECIMAL_IN_SPARK = "CAST(conv({}, 16, 10) AS BIGINT)"
HEXADECIMAL_IN_DUCKDB = "CAST('0x' || {} AS BIGINT)"
