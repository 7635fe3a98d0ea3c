"""What a table's status has while its group does not exist."""

from dataclasses import replace

import pytest

from colocation.reconcile.actions import CreateGroup, WriteTableStatus

from ..state.objects import table
from .scenes import actions_of, decided, quiet_observation

LAYOUT = {"buckets": 2, "replicas": 2}


@pytest.mark.parametrize(
    ("group_name", "spec", "made", "refusals", "hint"),
    [
        pytest.param("stock", LAYOUT, ["stock"], [], "", id="the group is being made"),
        pytest.param("stock", {}, [], [{"NoGroup"}], "group stock does not exist", id="a group of unknown buckets"),
        pytest.param("", {}, [], [{"NoGroup"}], "colocateWith is empty", id="a group of its own, of unknown buckets"),
    ],
)
def test_a_table_whose_group_cannot_be_made_is_refused(
    group_name: str, spec: dict[str, object], made: list[str], refusals: list[set[str]], hint: str
) -> None:
    """At once: its owner has no other way to learn what to do."""
    quiet = quiet_observation("orders")
    orphan = table("orphan", group_name, files=None, **spec)
    decision = decided(replace(quiet, tables=(*quiet.tables, orphan)))
    assert [one.name for one in actions_of(decision, CreateGroup)] == made
    written = [one.status for one in actions_of(decision, WriteTableStatus) if one.table == orphan.identity]
    assert [{one["reason"] for one in status["conditions"]} for status in written] == refusals
    assert all(one["message"].startswith(hint) for status in written for one in status["conditions"])
