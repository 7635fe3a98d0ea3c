"""The CGS checks, in Doris' and StarRocks' order and words."""

import pytest

from colocation.model.group import ColocationGroupSpec
from colocation.model.schema_check import check_schema, schema_of
from colocation.model.table import ColocatedTableSpec, ColocatedTableStatus

GROUP = ColocationGroupSpec(bucket_key=("bigint", "string"), buckets=8, replicas=3)


def table(*types: str, buckets: int | None = None, replicas: int | None = None) -> ColocatedTableSpec:
    columns = [{"name": f"k{index}", "type": kind} for index, kind in enumerate(types)]
    return ColocatedTableSpec.model_validate(
        {"columns": columns, "bucketedBy": [one["name"] for one in columns], "buckets": buckets, "replicas": replicas}
    )


MULTIPLE = "Colocate tables must have same bucket num"


@pytest.mark.parametrize(
    "fitting",
    [
        pytest.param(table("bigint", "string"), id="same types"),
        pytest.param(table("LONG", "varchar(20)"), id="other spellings; varchar is string"),
        pytest.param(table("bigint", "string", buckets=8, replicas=3), id="same numbers"),
        pytest.param(table("bigint", "string", buckets=32), id="a multiple of the group's buckets"),
    ],
)
def test_fitting_tables(fitting: ColocatedTableSpec) -> None:
    """Names of columns are not compared, types are, by Spark's aliases."""
    assert check_schema("sales", GROUP, fitting) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (table("int", buckets=10, replicas=1), f"{MULTIPLE}: 10 should be 8 or a multiple of it"),
        (table("int", buckets=4, replicas=1), f"{MULTIPLE}: 4 should be 8 or a multiple of it"),
        (table("int", replicas=1), "Colocate tables distribution columns size must be same: 1 should be 2"),
        (
            table("bigint", "binary", replicas=1),
            "Colocate tables distribution columns must have the same data type: binary should be string (column k1)",
        ),
        (table("bigint", "string", replicas=1), "Colocate tables must have same replication num: 1 should be 3"),
        (
            table("string", "bigint"),
            "Colocate tables distribution columns must have the same data type: string should be bigint (column k0)",
        ),
    ],
    ids=["buckets", "part of the buckets", "number of columns", "type", "replicas", "order of columns"],
)
def test_first_difference_is_reported(given: ColocatedTableSpec, message: str) -> None:
    """Bucket count, number of columns, types in order, replicas: with both values and the group's name."""
    refusal = check_schema("sales", GROUP, given)
    assert refusal is not None
    assert refusal.reason == "SchemaMismatch"
    assert refusal.message == f"{message}, as in group sales; change the table or name another group in colocateWith"


def test_schema_of_a_parent_table() -> None:
    """A table with a whole schema makes a group that takes it; another one makes none."""
    parent = table("LONG", "char(3)", buckets=4, replicas=2)
    schema = schema_of(parent, ColocatedTableStatus())
    assert schema is not None
    assert (schema.bucket_key, schema.buckets, schema.replicas) == (("bigint", "string"), 4, 2)
    assert check_schema("sales", schema, parent) is None
    assert schema_of(table("bigint", buckets=4), ColocatedTableStatus()) is None
    assert schema_of(table("bigint", replicas=4), ColocatedTableStatus()) is None
