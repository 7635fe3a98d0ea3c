"""The DDL that makes a manifest's files a Spark SQL table. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from colocation.model.spark_types import canonical_type
from colocation.model.table_manifest import TableManifest

SESSION_CATALOG = "spark_catalog"
"""Named in every statement: another catalog may be the session's default one."""
SCHEME = "coloc://"
OPTIONS = {"parquet.page.verify-checksum.enabled": "true"}
"""Of every scan of ours. Loads write a CRC per page: a disk that returns wrong bytes fails the task, which is repeated
with another replica, instead of changing the answer."""
MARK = "colocation.dev/table"
"""Table property of what registration makes: ``<namespace>/<directory>`` of the ColocatedTable."""
STORED_SUFFIX = "__stored"
"""Of the table below a view that shows renamed columns; no Kubernetes name becomes such a name."""


def spark_name(name: str) -> str:
    """What a Kubernetes name is in Spark SQL, which takes letters, digits and ``_`` only."""
    return name.replace("-", "_").replace(".", "_")


def mark(namespace: str, directory: str) -> str:
    """The table property that says whose the table is."""
    return f"TBLPROPERTIES ('{MARK}'='{namespace}/{directory}')"


@dataclass(frozen=True)
class TableName:
    """Where a table is registered: the database and the name in Spark, and the property that marks it as ours."""

    database: str
    name: str
    properties: str


def create_table_statements(manifest: TableManifest, target: TableName, location: str, *, bucketed: bool) -> list[str]:
    """``CREATE TABLE database.name …``, and a view above it when columns were renamed after files were written.

    The manifest says how the files are, whatever the object says by now. Spark puts partition columns last, wherever
    the schema has them.
    """
    renamed = any(column.stored_name != column.name for column in manifest.columns)
    table = qualified(target.database, target.name + STORED_SUFFIX if renamed else target.name)
    columns = ", ".join(f"{quote(column.stored_name)} {spark_type(column.type)}" for column in manifest.columns)
    clauses = [f"CREATE TABLE {table} ({columns}) USING parquet OPTIONS ({_options()})"]
    if manifest.partitioned_by:
        clauses.append(f"PARTITIONED BY ({_names(manifest.partitioned_by)})")
    if bucketed:
        partitions = {name.lower() for name in manifest.partitioned_by}
        order = [name for name in manifest.sorted_by if name.lower() not in partitions]
        clauses.append(f"CLUSTERED BY ({_names(manifest.bucketed_by)})")
        if order:
            clauses.append(f"SORTED BY ({_names(order)})")
        clauses.append(f"INTO {manifest.buckets} BUCKETS")
    clauses.append(f"LOCATION '{location}'")
    comment = f"COMMENT '{table_comment(manifest, location, bucketed=bucketed)}'"
    if not renamed:
        return [" ".join([*clauses, comment, target.properties])]
    shown = ", ".join(f"{quote(column.stored_name)} AS {quote(column.name)}" for column in manifest.columns)
    view = qualified(target.database, target.name)
    return [
        " ".join([*clauses, target.properties]),
        f"CREATE VIEW {view} {comment} {target.properties} AS SELECT {shown} FROM {table}",
    ]


def table_comment(manifest: TableManifest, location: str, *, bucketed: bool) -> str:
    """What a registered table is, for people, and for sessions: those of one application share the tables' names."""
    how = f"in {manifest.buckets} buckets" if bucketed else "without its buckets"
    return f"snapshot {manifest.snapshot_id}, {how}, of {location}"


def qualified(database: str, name: str) -> str:
    """The table in the session catalog as Spark SQL takes it; both are Spark's names."""
    return ".".join(map(quote, (SESSION_CATALOG, database, name)))


def quote(name: str) -> str:
    """A name as Spark SQL takes it whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def spark_type(name: str) -> str:
    """varchar(n) and char(n) are read as string: Spark would pad char(n) in each query, which hides the bucket key."""
    canonical = canonical_type(name)
    return canonical if canonical == "string" else name


def _options() -> str:
    return ", ".join(f"'{key}' '{value}'" for key, value in OPTIONS.items())


def _names(columns: Sequence[str]) -> str:
    return ", ".join(quote(name) for name in columns)
