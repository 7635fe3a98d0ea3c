"""The description of the API: complete, and the committed file is it."""

import re
from pathlib import Path
from typing import Any

from colocation.admin_api import openapi
from colocation.admin_api.openapi import document, render

REPOSITORY = Path(__file__).resolve().parents[3]
METHODS = {"get", "post", "delete"}


def references(value: Any) -> set[str]:
    """Every ``$ref`` in a document."""
    if isinstance(value, list):
        return set().union(*map(references, value))
    if not isinstance(value, dict):
        return set()
    return {value["$ref"]} if "$ref" in value else set().union(*map(references, value.values()))


def test_committed_file_is_fresh() -> None:
    """`python -m colocation.admin_api.openapi` makes it."""
    assert (REPOSITORY / openapi.DOCUMENT).read_text() == render()


def test_requests_are_those_of_the_reference() -> None:
    """The table of docs/reference/admin-api.md names the same methods and paths."""
    described = {
        (method.upper(), path) for path, item in document()["paths"].items() for method in item if method in METHODS
    }
    text = (REPOSITORY / "docs" / "reference" / "admin-api.md").read_text()
    assert described == set(re.findall(r"^\| `([A-Z]+) (/api/[\w/.]+)", text, re.MULTILINE))


def test_every_reference_leads_somewhere() -> None:
    """No part is named that is not there, and none is there that is not named."""
    described = document()
    parts = {
        f"#/components/{kind}/{name}"
        for kind in ("schemas", "responses", "parameters")
        for name in described["components"][kind]
    }
    assert references(described) == parts
