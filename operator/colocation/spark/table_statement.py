"""The DDL that makes a manifest's files a Spark SQL table. Pure."""

from collections.abc import Sequence

from colocation.model.spark_types import canonical_type
from colocation.model.table_manifest import TableManifest

STORED_SUFFIX = "__stored"
"""Of the table below a view that shows renamed columns; no Kubernetes name becomes such a name."""


def spark_name(name: str) -> str:
    """What a Kubernetes name is in Spark SQL, which takes letters, digits and ``_`` only."""
    return name.replace("-", "_").replace(".", "_")


def create_table_statements(manifest: TableManifest, name: str, location: str, *, bucketed: bool) -> list[str]:
    """``CREATE TABLE namespace.name …``, and a view above it when columns were renamed after files were written.

    The manifest says how the files are, whatever the object says by now. Spark puts partition columns last, wherever
    the schema has them.
    """
    renamed = any(column.stored_name != column.name for column in manifest.columns)
    table = qualified(manifest.namespace, name + STORED_SUFFIX if renamed else name)
    columns = ", ".join(f"{quote(column.stored_name)} {spark_type(column.type)}" for column in manifest.columns)
    clauses = [f"CREATE TABLE {table} ({columns}) USING parquet"]
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
        return [" ".join([*clauses, comment])]
    shown = ", ".join(f"{quote(column.stored_name)} AS {quote(column.name)}" for column in manifest.columns)
    view = f"CREATE VIEW {qualified(manifest.namespace, name)} {comment} AS SELECT {shown} FROM {table}"
    return [" ".join(clauses), view]


def table_comment(manifest: TableManifest, location: str, *, bucketed: bool) -> str:
    """What a registered table is, for people, and for sessions: those of one application share the tables' names."""
    how = f"in {manifest.buckets} buckets" if bucketed else "without its buckets"
    return f"snapshot {manifest.snapshot_id}, {how}, of {location}"


def qualified(namespace: str, name: str) -> str:
    """``namespace.name`` as Spark SQL takes it."""
    return f"{quote(spark_name(namespace))}.{quote(spark_name(name))}"


def quote(name: str) -> str:
    """A name as Spark SQL takes it whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def spark_type(name: str) -> str:
    """varchar(n) and char(n) are read as string: Spark would pad char(n) in each query, which hides the bucket key."""
    canonical = canonical_type(name)
    return canonical if canonical == "string" else name


def _names(columns: Sequence[str]) -> str:
    return ", ".join(quote(name) for name in columns)
