"""GET /api/colocate: what it shows, from what a pass saw."""

from dataclasses import replace

import pytest

from colocation.admin_api.last_pass import LastPass
from colocation.admin_api.meta import colocate_meta, column_type
from colocation.model.plan import Plan
from colocation.model.snapshot import Snapshot
from tests.unit.state.objects import NOW

from .scenes import SALES_ID, group_body, last_pass, table

SALES = {"dbId": "3f2a91bc", "grpId": 10008}


def test_groups_tables_schemas_and_maps() -> None:
    """The whole of it for one group with two tables."""
    assert colocate_meta(last_pass(group_body(), tables=(table("orders"), table("items"))), None) == {
        "groupName2Id": {"sales": SALES},
        "group2Tables": {SALES_ID: ["shop/items", "shop/orders"]},
        "table2Group": {"shop/items": SALES, "shop/orders": SALES},
        "group2Schema": {
            SALES_ID: {
                "groupId": SALES,
                "distributionColTypes": [column_type("bigint")],
                "bucketsNum": 2,
                "replicationNum": 2,
            }
        },
        "group2BackendsPerBucketSeq": {SALES_ID: [["node-1", "node-2"], ["node-2", "node-3"]]},
        "unstableGroups": [],
    }


def test_name_that_two_databases_use_is_written_in_full() -> None:
    """As Doris' full name, dbId_groupName, for both; a name that is used once stays as it is."""
    other = group_body(namespace="other", group_id="00aa11bb.3")
    seen = last_pass(group_body(), other, group_body("own", group_id="00aa11bb.4"))
    names = colocate_meta(seen, None)["groupName2Id"]
    assert list(names) == ["3f2a91bc_sales", "00aa11bb_sales", "own"]


def test_groups_of_some_namespaces() -> None:
    """Nothing of the others is shown."""
    meta = colocate_meta(last_pass(group_body(), group_body(namespace="other", group_id="00aa11bb.3")), {"other"})
    assert meta["groupName2Id"] == {"sales": {"dbId": "00aa11bb", "grpId": 3}}
    assert all(SALES_ID not in part for part in meta.values())


def test_unstable_groups_are_listed_by_their_ids() -> None:
    """In the shape of the other ids."""
    assert colocate_meta(last_pass(group_body(), stable=False), None)["unstableGroups"] == [SALES]


def test_group_that_the_planner_does_not_know_is_unstable() -> None:
    """Its spec is not valid: it has no schema to show, and it is there all the same."""
    seen = last_pass(group_body(), stable=True)
    broken = replace(seen.observation.groups[0], spec=None, spec_error="buckets: 0")
    seen = LastPass(replace(seen.observation, groups=(broken,)), Snapshot(now=NOW), Plan())
    meta = colocate_meta(seen, None)
    assert (meta["unstableGroups"], meta["group2Schema"]) == ([SALES], {})


def test_group_without_an_id_or_a_map() -> None:
    """Not shown before it has an id; without a map it has no bucket sequence."""
    young, placed = group_body("young"), group_body()
    young["status"], placed["status"] = {}, {"groupId": SALES_ID}
    meta = colocate_meta(last_pass(young, placed), None)
    assert meta["groupName2Id"] == {"sales": SALES}
    assert meta["group2BackendsPerBucketSeq"] == {SALES_ID: []}


@pytest.mark.parametrize(
    ("name", "shown", "precision", "scale"),
    [
        pytest.param("int", "INT", 0, 0, id="int"),
        pytest.param("string", "STRING", 0, 0, id="string"),
        pytest.param("timestamp_ntz", "TIMESTAMP_NTZ", 0, 0, id="timestamp_ntz"),
        pytest.param("decimal(15,2)", "DECIMAL", 15, 2, id="decimal"),
    ],
)
def test_types_in_the_seeds_fields(name: str, shown: str, precision: int, scale: int) -> None:
    """Every canonical key type."""
    assert column_type(name) == {
        "type": shown, "len": -1, "isAssignedStrLenInColDefinition": False, "precision": precision, "scale": scale,
    }  # fmt: skip
