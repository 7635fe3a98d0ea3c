"""What the runner puts back before all is to be well."""

from typing import Any

import pytest

from . import scene
from .work import refusing


@pytest.mark.parametrize(
    ("replicas", "named", "accepted", "expected"),
    [
        pytest.param(scene.REPLICAS + 1, "base", False, ["base"], id="raised before the table was accepted"),
        pytest.param(scene.REPLICAS + 1, "base", True, [], id="raised after the table was accepted"),
        pytest.param(scene.REPLICAS, "base", False, [], id="refused for another reason"),
        pytest.param(scene.REPLICAS + 1, "", False, [], id="the table names no group"),
    ],
)
def test_only_groups_whose_replicas_keep_a_table_out(
    replicas: int, named: str, accepted: bool, expected: list[str]
) -> None:
    groups: list[dict[str, Any]] = [{"metadata": {"name": "base"}, "spec": {"replicas": replicas}}]
    tables = [{"spec": {"colocateWith": named}, "status": {"accepted": accepted}}]
    assert refusing(groups, tables) == expected
