"""The reference pages say all that there is."""

import re
from pathlib import Path

from colocation.model.conditions import ConditionType, EventReason, Reason
from colocation.schema import reference

ROOT = Path(__file__).parents[3]
CONDITIONS = (ROOT / "docs/reference/conditions.md").read_text()


def test_kinds_are_fresh() -> None:
    """After a change of the model: `python -m colocation.schema.reference`."""
    assert (ROOT / "docs/reference/kinds.md").read_text() == reference.render()


def test_every_reason_is_explained_in_order() -> None:
    """The order is that of severity, as the planner chooses a group's one reason."""
    section = CONDITIONS.partition("## Reasons")[2].partition("## Events")[0]
    assert re.findall(r"^\| `(\w+)`", section, re.MULTILINE) == [reason.value for reason in Reason]


def test_every_condition_is_explained() -> None:
    """Of both kinds."""
    for condition in ConditionType:
        assert f"| `{condition}` |" in CONDITIONS


def test_every_event_is_explained() -> None:
    """Its type lets the operator post no other."""
    table = CONDITIONS.partition("## Events")[2]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert explained == {reason.value for reason in EventReason}

