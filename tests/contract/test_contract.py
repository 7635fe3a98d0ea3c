"""Python's side of the rules that Java states, too; ``ContractTest`` and its kin check the same files."""

from collections.abc import Callable, Iterator

import pytest

from colocation.model.base import parse_time
from colocation.model.group import ColocationGroupStatus
from colocation.model.reader_rules import configured_cores, few_buckets, judge_freshness, liveness
from colocation.model.spark_types import canonical_type
from tests.contract.cases import Case, cases, rules


def _freshness(case: Case) -> str:
    now = parse_time(case["now"])
    assert now is not None
    return judge_freshness(case["renewTime"], case["validSeconds"], now, "Lease x").message


def _liveness(case: Case) -> object:
    found = liveness(ColocationGroupStatus.model_validate(case["status"]), case["ready"])
    return {"isWhole": found.is_whole, "message": found.message}


RULES: dict[str, Callable[[Case], object]] = {
    "types": lambda case: canonical_type(case["type"]),
    "freshness": _freshness,
    "liveness": _liveness,
    "configured-cores": lambda case: configured_cores(case["conf"]),
    "few-buckets": lambda case: few_buckets(case["group"], case["buckets"], case["cores"]),
}
"""What Python makes of a case; a ``ValueError`` where the rule refuses it."""


def _all_cases() -> Iterator[object]:
    for rule in rules():
        yield from (pytest.param(rule, case, id=f"{rule}: {case['name']}") for case in cases(rule))


@pytest.mark.parametrize(("rule", "case"), list(_all_cases()))
def test_a_rule_gives_what_its_case_expects(rule: str, case: Case) -> None:
    """Java's tests expect the same."""
    if "error" not in case:
        assert RULES[rule](case) == case["expected"]
        return
    with pytest.raises(ValueError) as refusal:
        RULES[rule](case)
    assert case["error"] in str(refusal.value)


@pytest.mark.parametrize("rule", rules())
def test_cases_have_names_of_their_own(rule: str) -> None:
    """A failure names one case."""
    names = [case["name"] for case in cases(rule)]
    assert names
    assert len(set(names)) == len(names)


def test_every_rule_is_checked() -> None:
    """No file of cases is left unread."""
    assert rules() == sorted(RULES)
