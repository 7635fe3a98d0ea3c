"""The ColocatedTable that brings a dropped one back: schema from a manifest, the rest as its group remembers it.

Where no group remembers it, it is made from the manifest alone.
"""

from typing import Any

from ..model.adoption import TableFolder
from ..model.agent import RecycledSchema
from ..model.group import ColocationGroupSpec, RecycledTable
from ..model.names import ANNOTATION_ADOPTS, ANNOTATION_RECOVERS, GROUP_API_VERSION, GROUP_KIND, TABLE_KIND
from ..model.table import ColocatedTableSpec


def recovered_table(
    record: RecycledTable, schema: RecycledSchema, colocate_with: str, replicas: int
) -> dict[str, Any]:
    """The object to create; ``replicas`` are those of the group, which a table in no group has to say itself."""
    in_group = {"buckets": schema.table_buckets}
    numbers = in_group if colocate_with else {"buckets": schema.buckets, "replicas": replicas}
    spec = ColocatedTableSpec(
        colocate_with=colocate_with,
        columns=schema.columns,
        bucketed_by=schema.bucketed_by,
        partitioned_by=schema.partitioned_by,
        sorted_by=schema.sorted_by,
        recycle_after_seconds=record.recycle_after_seconds,
        retention=record.retention,
        compaction=record.compaction,
        **numbers,
    )
    return {
        "apiVersion": GROUP_API_VERSION,
        "kind": TABLE_KIND,
        "metadata": {
            "name": record.name,
            "namespace": record.namespace,
            "annotations": {ANNOTATION_RECOVERS: record.uid},
        },
        "spec": spec.model_dump(mode="json", by_alias=True, exclude_defaults=True),
    }


def adopted_table(folder: TableFolder, schema: RecycledSchema, group: str) -> dict[str, Any]:
    """The object that makes a lost table again and takes over its folder, in a group of its namespace."""
    spec = ColocatedTableSpec(
        colocate_with=group,
        columns=schema.columns,
        bucketed_by=schema.bucketed_by,
        partitioned_by=schema.partitioned_by,
        sorted_by=schema.sorted_by,
        buckets=schema.table_buckets,
    )
    return {
        "apiVersion": GROUP_API_VERSION,
        "kind": TABLE_KIND,
        "metadata": {
            "name": folder.table,
            "namespace": folder.namespace,
            "annotations": {ANNOTATION_ADOPTS: folder.uid_digits},
        },
        "spec": spec.model_dump(mode="json", by_alias=True, exclude_defaults=True),
    }


def adopting_group(namespace: str, name: str, schema: RecycledSchema, replicas: int) -> dict[str, Any]:
    """The group in which lost tables of this schema are made again. It stays without tables too."""
    types = tuple(
        next(column.type for column in schema.columns if column.name.lower() == key.lower())
        for key in schema.bucketed_by
    )
    spec = ColocationGroupSpec(
        bucket_key=types, buckets=schema.buckets, replicas=replicas, deletion_policy="Retain"
    )
    return {
        "apiVersion": GROUP_API_VERSION,
        "kind": GROUP_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec.model_dump(mode="json", by_alias=True, exclude_defaults=True),
    }
