"""The rules that Python and the catalog in Java share, word for word: one file of cases for both.

Java's side is ``ReaderRulesTest``, which also has the file's ``decisions``: the catalog alone takes them.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from colocation.model.freshness import judge_freshness
from colocation.model.parallelism import configured_cores, few_buckets
from colocation.model.times import parse_time

RULES: dict[str, list[dict[str, Any]]] = json.loads(Path(__file__).with_name("reader_rules.json").read_text())


@pytest.mark.parametrize("case", RULES["cores"], ids=lambda case: case["id"])
def test_how_many_cores_an_application_has(case: dict[str, Any]) -> None:
    """By its configuration, on Kubernetes."""
    assert configured_cores(case["conf"]) == case["cores"]


@pytest.mark.parametrize("case", RULES["fewBuckets"], ids=lambda case: case["id"])
def test_a_group_with_fewer_buckets_than_cores_is_remarked_upon(case: dict[str, Any]) -> None:
    """With both numbers."""
    note = few_buckets(case["group"], case["buckets"], case["cores"])
    assert note == case["note"]


@pytest.mark.parametrize("case", RULES["freshness"], ids=lambda case: case["id"])
def test_whether_a_verdict_holds(case: dict[str, Any]) -> None:
    """By the operator's last sign of life, valid for 20 s."""
    now = parse_time(case["now"])
    assert now is not None
    assert judge_freshness(case["renewTime"], 20.0, now, "Lease x").message == case["message"]
