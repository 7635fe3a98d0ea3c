"""Objects for the API server, small and good; tests spoil one field."""

import json
from typing import Any

JsonObject = dict[str, Any]

COLUMNS = [
    {"name": "o_orderkey", "type": "bigint"},
    {"name": "o_tags", "type": "array<string>"},
    {"name": "o_orderdate", "type": "date"},
]


def group(name: str = "sales", **spec: Any) -> JsonObject:
    """A ColocationGroup; ``spec`` replaces fields of a good one."""
    return {
        "apiVersion": "colocation.dev/v1alpha1",
        "kind": "ColocationGroup",
        "metadata": {"name": name},
        "spec": {"bucketKey": ["bigint"], "buckets": 2, "replicas": 2, **spec},
    }


def table(name: str = "orders", **spec: Any) -> JsonObject:
    """A ColocatedTable; ``spec`` replaces fields of a good one."""
    return {
        "apiVersion": "colocation.dev/v1alpha1",
        "kind": "ColocatedTable",
        "metadata": {"name": name},
        "spec": {
            "colocateWith": "sales",
            "columns": COLUMNS,
            "bucketedBy": ["o_orderkey"],
            "partitionedBy": ["o_orderdate"],
            **spec,
        },
    }


def as_json(body: JsonObject) -> str:
    """For kubectl's standard input."""
    return json.dumps(body)
