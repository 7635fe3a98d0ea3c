"""The ColocatedTable that brings a dropped one back: schema from a manifest, the rest as its group remembers it."""

from typing import Any

from ..model.agent import RecycledSchema
from ..model.members import RecycledTable
from ..model.names import ANNOTATION_RECOVERS, GROUP_API_VERSION, TABLE_KIND
from ..model.table import ColocatedTableSpec


def recovered_table(
    record: RecycledTable, schema: RecycledSchema, colocate_with: str, replicas: int
) -> dict[str, Any]:
    """The object to create; ``replicas`` are those of the group, which a table in no group has to say itself."""
    alone = {} if colocate_with else {"buckets": schema.buckets, "replicas": replicas}
    spec = ColocatedTableSpec(
        colocate_with=colocate_with,
        columns=schema.columns,
        bucketed_by=schema.bucketed_by,
        partitioned_by=schema.partitioned_by,
        sorted_by=schema.sorted_by,
        recycle_after_seconds=record.recycle_after_seconds,
        retention=record.retention,
        compaction=record.compaction,
        **alone,
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
