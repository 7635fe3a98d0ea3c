"""The committed CRDs are what the model makes."""

import re
from pathlib import Path

import pytest

from colocation.model.spark_types import is_key_type
from colocation.schema import crds
from colocation.schema.crd_rules import KEY_TYPE_PATTERN, UNHASHABLE_TYPES
from tests.contract.cases import cases

FOLDER = Path(__file__).parents[3] / "crds"


def test_committed_files_are_fresh() -> None:
    """After a change of the model: `python -m colocation.schema.crds`."""
    committed = {path.name: path.read_text() for path in FOLDER.glob("*.yaml")}
    assert committed == crds.files()


@pytest.mark.parametrize("name", [case["type"] for case in cases("types") if "expected" in case])
def test_key_types_agree_with_the_model(name: str) -> None:
    """The API server allows as keys exactly the types that Spark can hash."""
    assert bool(re.match(KEY_TYPE_PATTERN, name.lower(), re.ASCII)) is is_key_type(name)
    assert name.strip().lower().startswith(UNHASHABLE_TYPES) is not is_key_type(name)


def test_schemas_are_structural() -> None:
    """No reference, union or constant is left: the API server takes none."""
    for crd in (crds.group_crd(), crds.table_crd()):
        text = crds.render(crd)
        assert not re.search(r"\$ref|anyOf|const:|exclusiveMinimum: \d", text)
