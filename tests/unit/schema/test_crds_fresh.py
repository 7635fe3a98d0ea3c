"""The committed CRDs are what the model makes."""

import re
from pathlib import Path

import pytest

from colocation.model.spark_types import canonical_type, is_key_type
from colocation.schema import crds
from colocation.schema.crd_rules import COLUMN_TYPE_PATTERN, KEY_TYPE_PATTERN, UNHASHABLE_TYPES
from tests.contract.cases import cases

FOLDER = Path(__file__).parents[3] / "crds"


def test_committed_files_are_fresh() -> None:
    """After a change of the model: `python -m colocation.schema.crds`."""
    committed = {path.name: path.read_text() for path in FOLDER.glob("*.yaml")}
    assert committed == crds.files()


TYPES = [
    case["type"]
    for case in cases("types")
    if "a decimal needs" not in case.get("error", "") and case["name"] != "nothing but blanks in an array"
]
"""The pattern lets decimals pass that are too wide, and nested types without a content."""


@pytest.mark.parametrize("name", TYPES)
def test_patterns_agree_with_the_model(name: str) -> None:
    """The API server allows exactly the types that the model knows, and as keys those that Spark can hash."""
    assert bool(re.match(COLUMN_TYPE_PATTERN.replace("^(?i)", "(?ia)^"), name)) is _is_type(name)
    if _is_type(name):
        assert bool(re.match(KEY_TYPE_PATTERN, name.lower(), re.ASCII)) is is_key_type(name)
        assert name.strip().lower().startswith(UNHASHABLE_TYPES) is not is_key_type(name)


def _is_type(name: str) -> bool:
    try:
        canonical_type(name)
    except ValueError:
        return False
    return True


def test_schemas_are_structural() -> None:
    """No reference, union or constant is left: the API server takes none."""
    for crd in (crds.group_crd(), crds.table_crd()):
        text = crds.render(crd)
        assert not re.search(r"\$ref|anyOf|const:|exclusiveMinimum: \d", text)
