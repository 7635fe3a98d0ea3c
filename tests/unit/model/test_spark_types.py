"""Names of types: ``type_names.json`` says what Python and Java (``ReaderRulesTest``) know them as; null is no type."""

import json
from pathlib import Path
from typing import Any

import pytest

from colocation.model import spark_types
from colocation.model.spark_types import canonical_type
from colocation.model.table import Column, columns_digest

NAMES: dict[str, Any] = json.loads(Path(__file__).with_name("type_names.json").read_text())


@pytest.mark.parametrize(("name", "canonical"), NAMES["canonical"].items())
def test_one_spelling_per_type(name: str, canonical: str | None) -> None:
    """Java's reader has the same cases."""
    if canonical is not None:
        assert canonical_type(name) == canonical
        return
    with pytest.raises(ValueError, match=r"type .* is not a Spark SQL type; allowed: bigint"):
        canonical_type(name)


@pytest.mark.parametrize("name", NAMES["tooWide"])
def test_decimals_that_spark_has_not(name: str) -> None:
    """The API server's pattern lets them pass."""
    with pytest.raises(ValueError, match="a decimal needs a precision of 1 to 38"):
        canonical_type(name)


def test_the_list_of_types() -> None:
    """Java's is the same."""
    assert sorted(spark_types._SIMPLE_TYPES) == NAMES["simple"]


def test_a_comment_changes_nothing_that_files_have_to_fit() -> None:
    """A group that took a table before there were comments knows its columns still."""
    told = Column(name="k", type="bigint", comment="the key")
    assert columns_digest([told]) == columns_digest([Column(name="k", type="bigint")]) == "a693c29805acfd37"
