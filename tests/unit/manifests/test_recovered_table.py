"""Tables that are made again from what agents read of a manifest."""

import pytest

from colocation.manifests.recovered_table import adopted_table, adopting_group, recovered_table
from colocation.model.adoption import TableFolder
from colocation.model.agent import RecycledSchema
from colocation.model.group import RecycledTable
from colocation.model.table import Column

COLUMNS = (Column(name="k", type="bigint"),)
TIME = "2026-11-27T00:00:00Z"
RECORD = RecycledTable(namespace="shop", name="orders", uid="12345678-aaaa", deleted_at=TIME, purge_at=TIME)
FOLDER = TableFolder(namespace="shop", directory="orders-12345678", table="orders", nodes=("node-1",))


def schema(table_buckets: int | None) -> RecycledSchema:
    return RecycledSchema(columns=COLUMNS, bucketed_by=("k",), buckets=8, table_buckets=table_buckets)


@pytest.mark.parametrize(
    ("group", "table_buckets", "numbers"),
    [
        pytest.param("sales", None, {}, id="in a group, with its number"),
        pytest.param("sales", 32, {"buckets": 32}, id="in a group, with a multiple"),
        pytest.param("", None, {"buckets": 8, "replicas": 2}, id="in no group"),
        pytest.param("", 32, {"buckets": 8, "replicas": 2}, id="in no group, with a multiple"),
    ],
)
def test_a_table_from_the_recycle_bin(group: str, table_buckets: int | None, numbers: dict[str, int]) -> None:
    """A group of its own is made from the spec, so that has the number by which the files are placed."""
    spec = recovered_table(RECORD, schema(table_buckets), group, 2)["spec"]
    assert {name: spec[name] for name in ("buckets", "replicas") if name in spec} == numbers


def test_an_adopted_table_of_more_buckets_than_its_group() -> None:
    """The group gets the number by which the files are placed, the table its own."""
    assert adopting_group("shop", "adopted", schema(32), 2)["spec"]["buckets"] == 8
    assert adopted_table(FOLDER, schema(32), "adopted")["spec"]["buckets"] == 32
    assert "buckets" not in adopted_table(FOLDER, schema(None), "adopted")["spec"]
