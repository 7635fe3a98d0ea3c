"""Fields that a cluster's CRD lacks are found at every depth."""

from copy import deepcopy
from typing import Any

import pytest

from colocation.schema.comparison import missing_fields
from colocation.schema.crds import group_crd, table_crd


def without(definition: dict[str, Any], *path: str) -> dict[str, Any]:
    """The CRD of a release before the field at this path; ``[]`` = the items of a list, or the values of a map."""
    older = deepcopy(definition)
    schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path[:-1]:
        schema = schema.get("items") or schema["additionalProperties"] if name == "[]" else schema["properties"][name]
    del schema["properties"][path[-1]]
    return older


@pytest.mark.parametrize(
    ("older", "missing"),
    [
        pytest.param(group_crd(), (), id="the same"),
        pytest.param(without(group_crd(), "status", "disks"), ("status.disks",), id="at the top"),
        pytest.param(without(group_crd(), "status", "clones", "counted"), ("status.clones.counted",), id="below"),
        pytest.param(without(group_crd(), "status", "members", "[]", "uid"), ("status.members.uid",), id="in a list"),
        pytest.param(without(group_crd(), "spec", "balancing"), ("spec.balancing",), id="of the spec"),
        pytest.param(without(group_crd(), "status"), ("status",), id="all of it"),
    ],
)
def test_missing_fields(older: dict[str, Any], missing: tuple[str, ...]) -> None:
    """The topmost field of each branch."""
    assert missing_fields(group_crd(), older) == missing


def test_newer_crds_and_ones_that_keep_all_lack_nothing() -> None:
    """CRDs stay when the chart is rolled back; fields of others are no concern of this release."""
    assert missing_fields(without(table_crd(), "spec", "columns"), table_crd()) == ()
    open_to_all = deepcopy(table_crd())
    status = open_to_all["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    status.clear()
    status["x-kubernetes-preserve-unknown-fields"] = True
    assert missing_fields(table_crd(), open_to_all) == ()
