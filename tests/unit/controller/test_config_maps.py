"""When ConfigMaps for Spark are renewed: all in turn, a few a minute. (What a pass writes: tests/simulation.)"""

from datetime import datetime, timedelta

import pytest

from colocation.controller.config_map_writes import RENEWALS_PER_MINUTE, ConfigMapWrites
from colocation.manifests.config_map import SparkConfigMap
from colocation.manifests.spark_pods import SparkPlacement
from colocation.reconcile.actions import Owner, WriteConfigMap

from ..state.objects import NOW, identity, seconds


def written(number: int) -> WriteConfigMap:
    placement = SparkPlacement(
        namespace="shop", group=f"g{number}", group_namespace=None, data_root="/data", spark_image=None
    )
    content = SparkConfigMap(placement=placement, agent_urls={}, ca_certificate="")
    return WriteConfigMap(identity(f"g{number}", uid=f"uid-{number}"), content, (Owner("Group", "g", "uid"),))


@pytest.mark.parametrize("groups", [1, 20, 100, 1000])
@pytest.mark.parametrize("pass_seconds", [5, 17])
def test_signs_hold_until_they_are_renewed(groups: int, pass_seconds: int) -> None:
    """However many groups there are, made at once or one after another, and never above the rate."""
    one, now, actions = ConfigMapWrites("colocation"), NOW, [written(number) for number in range(groups)]
    ends: dict[str, datetime] = {}
    renewals: list[datetime] = []

    def write(action: WriteConfigMap) -> None:
        sign = one.signed(action, now).sign
        assert sign is not None
        one.wrote(action, now)
        ends[action.group.uid] = now + timedelta(seconds=sign.valid_seconds)

    for step in range(900):
        wanted = actions[: 10 + 5 * step]
        one.begin(wanted)
        for action in wanted:
            if not one.is_written(action):
                write(action)
        for action in one.due(now):
            write(action)
            renewals.append(now)
        assert all(end >= now for end in ends.values())
        now += seconds(pass_seconds)
    for start in renewals[:: max(1, len(renewals) // 50)]:
        assert sum(start <= at < start + seconds(60) for at in renewals) <= RENEWALS_PER_MINUTE + pass_seconds // 3 + 1


def test_content_decides_whether_it_is_written_and_not_the_sign() -> None:
    """Else every pass would write all of them."""
    one, action = ConfigMapWrites("colocation"), written(1)
    one.begin([action])
    one.wrote(one.signed(action, NOW), NOW)
    assert one.is_written(one.signed(action, NOW + seconds(100)))
    other = WriteConfigMap(action.group, action.content, ())
    assert not one.is_written(other)


def test_one_that_cannot_be_renewed_holds_up_no_other() -> None:
    """Its namespace is full, or it is owned by somebody else: the others take their turns."""
    one, actions = ConfigMapWrites("colocation"), [written(number) for number in range(3)]
    one.begin(actions)
    for action in actions:
        one.wrote(action, NOW)
    turns: list[str] = []
    for step in range(100):
        now = NOW + seconds(60 + 3 * step)
        for action in one.due(now):
            turns.append(action.group.name)
            (one.failed if action.group.name == "g0" else one.wrote)(action, now)
    assert min(turns.count("g1"), turns.count("g2")) >= 4
