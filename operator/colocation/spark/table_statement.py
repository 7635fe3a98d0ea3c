"""The DDL that makes a manifest's files a Spark SQL table. Pure."""

from collections.abc import Sequence

from colocation.model.spark_types import canonical_type
from colocation.model.table_manifest import TableManifest


def create_table_statement(manifest: TableManifest, location: str, *, bucketed: bool) -> str:
    """``CREATE TABLE namespace.table …``; the manifest says how its files are, whatever the object says by now.

    Spark puts partition columns last, wherever the schema has them.
    """
    columns = ", ".join(f"{quote(column.name)} {_spark_type(column.type)}" for column in manifest.columns)
    clauses = [f"CREATE TABLE {quote(manifest.namespace)}.{quote(manifest.table)} ({columns}) USING parquet"]
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
    return " ".join(clauses)


def quote(name: str) -> str:
    """A name as Spark SQL takes it whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _spark_type(name: str) -> str:
    """varchar(n) and char(n) are read as string: Spark would pad char(n) in each query, which hides the bucket key."""
    canonical = canonical_type(name)
    return canonical if canonical == "string" else name


def _names(columns: Sequence[str]) -> str:
    return ", ".join(quote(name) for name in columns)
