"""The decision colocated or not, as submission prints it."""

import pytest

from colocation.model.reader_rules import Liveness
from colocation.submit import ManifestError, decide, prepare

from .applications_under_test import apache_application, sales_group, spark_application

LOST_NODE = sales_group(stable=False, reason="NodeNotReady", message="bucket 3: node-2 is not ready.")
WHY = "group is not stable: NodeNotReady: bucket 3: node-2 is not ready"
ALL_LIVE = LOST_NODE.model_copy(update={"liveness": Liveness(is_whole=True)})
BUCKET_LOST = LOST_NODE.model_copy(update={"liveness": Liveness(message="NoLiveReplica: bucket 3")})
KEPT = f"colocate: true, note: {WHY}; buckets are read from live replicas"
EIGHT = sales_group(buckets=8)
FEW = (
    "group shop/sales has 8 buckets, the application 32 cores: only large files that are sorted by the bucket key are "
    "read by more than 8 tasks"
)


@pytest.mark.parametrize(
    ("group", "conf", "words"),
    [
        pytest.param(sales_group(), {}, "colocate: true", id="stable"),
        pytest.param(LOST_NODE, {}, f"colocate: false, reason: {WHY}", id="not stable, nothing known of replicas"),
        pytest.param(ALL_LIVE, {}, KEPT, id="not stable, each bucket lives"),
        pytest.param(ALL_LIVE, {"spark.colocation.whenUnstable": "live"}, KEPT, id="the default spelt out"),
        pytest.param(
            BUCKET_LOST, {}, f"colocate: false, reason: {WHY}; NoLiveReplica: bucket 3", id="a bucket has no replica"),
        pytest.param(
            ALL_LIVE, {"spark.colocation.whenUnstable": "shuffle"}, f"colocate: false, reason: {WHY}",
            id="Doris' and StarRocks' rule"),
        pytest.param(
            LOST_NODE, {"spark.colocation.whenUnstable": "colocated"}, KEPT,
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


@pytest.mark.parametrize("group", [sales_group(), LOST_NODE, ALL_LIVE, BUCKET_LOST])
@pytest.mark.parametrize("make", [spark_application, apache_application])
def test_nothing_of_the_moment_is_put_into_the_application(group, make) -> None:
    """What was submitted in a bad second is not degraded for good; a decision that an earlier release froze goes."""
    frozen = {"spark.colocation.degradeReason": "group is not stable: NodeGone"}
    prepared = prepare(make(sparkConf=frozen), group).application
    assert prepared["spec"] == prepare(make(), sales_group()).application["spec"]


@pytest.mark.parametrize(
    ("application", "expected"),
    [
        pytest.param(spark_application(executor={"instances": 8, "cores": 4}), FEW, id="Kubeflow's fields"),
        pytest.param(
            spark_application(executor={}, sparkConf={"spark.executor.instances": "8", "spark.executor.cores": "4"}),
            FEW, id="configuration"),
        pytest.param(
            spark_application(executor={"cores": 4}, dynamicAllocation={"enabled": True, "maxExecutors": 8}), FEW,
            id="dynamic allocation"),
        pytest.param(
            apache_application(sparkConf={"spark.executor.instances": "8", "spark.executor.cores": "4"}), FEW,
            id="Apache"),
        pytest.param(spark_application(executor={"instances": 2, "cores": 4}), "", id="as many buckets as cores"),
    ],
)  # fmt: skip
def test_fewer_buckets_than_cores_are_remarked_upon(application, expected) -> None:
    """More cores than buckets scan no faster; the decision stays colocated."""
    decision = prepare(application, EIGHT).decision
    assert (decision.colocated, decision.note) == (True, expected)


@pytest.mark.parametrize("key", ["spark.colocation.whenUnstable", "spark.colocation.disableColocateJoin"])
def test_a_switch_takes_its_words_only(key: str) -> None:
    """A misspelt switch is refused, not taken for the default."""
    with pytest.raises(ManifestError, match=f"{key} is 'maybe'; allowed: "):
        decide(LOST_NODE, {key: "maybe"})
