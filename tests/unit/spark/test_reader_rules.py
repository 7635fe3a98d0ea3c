"""The rules that readers in Python and the catalog in Java share, word for word: one file of cases for both.

Java's side is ``ReaderRulesTest``.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from colocation.model.freshness import Freshness, judge_freshness
from colocation.model.group import ColocationGroupStatus
from colocation.model.parallelism import configured_cores, few_buckets
from colocation.model.times import parse_time
from colocation.spark.decision import ReadDecision, ReadSwitches, decide

RULES: dict[str, list[dict[str, Any]]] = json.loads(Path(__file__).with_name("reader_rules.json").read_text())


@pytest.mark.parametrize("case", RULES["decisions"], ids=lambda case: case["id"])
def test_how_a_table_is_read(case: dict[str, Any]) -> None:
    """Bucket by bucket or not, and why."""
    group = None if case["group"] is None else ColocationGroupStatus.model_validate(_without_nulls(case["group"]))
    decision = decide(
        ReadSwitches(**case.get("switches", {})), group, case.get("refusal"), case.get("inconsistency"),
        Freshness(message=case.get("silence", "")), case.get("ready", ()),
    )
    assert decision == ReadDecision(**case["expected"])


@pytest.mark.parametrize("case", RULES["cores"], ids=lambda case: case["id"])
def test_how_many_cores_an_application_has(case: dict[str, Any]) -> None:
    """By its configuration, on Kubernetes."""
    assert configured_cores(case["conf"]) == case["cores"]


@pytest.mark.parametrize("case", RULES["fewBuckets"], ids=lambda case: case["id"])
def test_a_group_with_fewer_buckets_than_cores_is_remarked_upon(case: dict[str, Any]) -> None:
    """Beside whatever else qualifies a bucketed reading; an ordinary one has as many tasks as it likes."""
    note = few_buckets(case["group"], case["buckets"], case["cores"])
    assert note == case["note"]
    assert ReadDecision(True, note="a").noting(note).note == ("a; " + note if note else "a")
    assert ReadDecision(True).noting(note).note == note
    assert ReadDecision(False, "b").noting(note) == ReadDecision(False, "b")


@pytest.mark.parametrize("case", RULES["freshness"], ids=lambda case: case["id"])
def test_whether_a_verdict_holds(case: dict[str, Any]) -> None:
    """By the operator's last sign of life, valid for 20 s."""
    now = parse_time(case["now"])
    assert now is not None
    assert judge_freshness(case["renewTime"], 20.0, now, "Lease x").message == case["message"]


def _without_nulls(status: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in status.items() if value is not None}
