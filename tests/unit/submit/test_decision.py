"""The decision colocated or not, and how the driver is told of it."""

import pytest

from colocation.submit import ManifestError, decide, prepare

from .applications_under_test import sales_group, spark_application

LOST_NODE = sales_group(stable=False, reason="NodeNotReady", message="bucket 3: node-2 is not ready")
WHY = "group is not stable: NodeNotReady: bucket 3: node-2 is not ready"


@pytest.mark.parametrize(
    ("group", "conf", "words"),
    [
        pytest.param(sales_group(), {}, "colocate: true", id="stable"),
        pytest.param(LOST_NODE, {}, f"colocate: false, reason: {WHY}", id="not stable"),
        pytest.param(
            LOST_NODE, {"spark.colocation.whenUnstable": "shuffle"}, f"colocate: false, reason: {WHY}",
            id="not stable, the default spelt out"),
        pytest.param(
            LOST_NODE, {"spark.colocation.whenUnstable": "colocated"},
            f"colocate: true, reason: spark.colocation.whenUnstable=colocated, on the live replicas; {WHY}",
            id="not stable, bucketed plan wanted all the same"),
        pytest.param(
            sales_group(), {"spark.colocation.disableColocateJoin": "true"},
            "colocate: false, reason: Session disabled", id="switched off"),
        pytest.param(
            sales_group(stable=False, reason=""), {},
            "colocate: false, reason: group is not stable: the operator has not reported on it yet", id="new group"),
    ],
)  # fmt: skip
def test_the_decision_is_said_in_explains_words(group, conf, words) -> None:
    """`colocate: true`, or `colocate: false, reason: …` with the operator's reason unchanged."""
    assert str(decide(group, conf)) == words


@pytest.mark.parametrize(
    ("group", "conf", "told"),
    [
        pytest.param(sales_group(), {}, None, id="stable"),
        pytest.param(LOST_NODE, {}, WHY, id="not stable"),
        pytest.param(LOST_NODE, {"spark.colocation.whenUnstable": "colocated"}, None, id="colocated all the same"),
    ],
)
def test_the_driver_is_told_why_it_degrades(group, conf, told) -> None:
    """The reason travels as configuration, so the driver's explain says what the submitter said."""
    prepared = prepare(spark_application(sparkConf=conf), group)
    assert prepared.application["spec"]["sparkConf"].get("spark.colocation.degradeReason") == told


@pytest.mark.parametrize("key", ["spark.colocation.whenUnstable", "spark.colocation.disableColocateJoin"])
def test_a_switch_takes_its_words_only(key: str) -> None:
    """A misspelt switch is refused, not taken for the default."""
    with pytest.raises(ManifestError, match=f"{key} is 'maybe'; allowed: "):
        decide(LOST_NODE, {key: "maybe"})
