"""When a table is read bucket by bucket, and the words for why not."""

import pytest

from colocation.model.freshness import Freshness
from colocation.model.group import ColocationGroupStatus, UnstableBucket
from colocation.spark.decision import ReadDecision, ReadSwitches, decide

STABLE = ColocationGroupStatus(stable=True, reason="AllReplicasComplete")
UNSTABLE = ColocationGroupStatus(
    stable=False,
    reason="NodeNotReady",
    unstable_buckets=(UnstableBucket(bucket=3, reason="NodeNotReady", message="node-2 is not ready"),),
    unstable_bucket_count=5,
)
WHY_UNSTABLE = "group is not stable: NodeNotReady; bucket 3 NodeNotReady: node-2 is not ready; and 4 more buckets"


@pytest.mark.parametrize(
    ("switches", "group", "refusal", "inconsistency", "expected"),
    [
        pytest.param(ReadSwitches(), STABLE, None, None, ReadDecision(True), id="stable"),
        pytest.param(ReadSwitches(), UNSTABLE, None, None, ReadDecision(False, WHY_UNSTABLE), id="unstable"),
        pytest.param(
            ReadSwitches(when_unstable="colocated"), UNSTABLE, None, None,
            ReadDecision(True, note=f"{WHY_UNSTABLE}; buckets are read from live replicas"), id="unstable-but-wanted",
        ),
        pytest.param(
            ReadSwitches(), ColocationGroupStatus(), None, None,
            ReadDecision(False, "group is not stable: the operator has not judged it yet"), id="not-judged",
        ),
        pytest.param(
            ReadSwitches(join_disabled=True), STABLE, None, None, ReadDecision(False, "Session disabled"),
            id="session-disabled",
        ),
        pytest.param(
            ReadSwitches(), None, None, None,
            ReadDecision(False, "Tables are not in the same group: the table is in no group"), id="no-group",
        ),
        pytest.param(
            ReadSwitches(), STABLE, "SchemaMismatch: 10 should be 8", None,
            ReadDecision(
                False, "Tables are not in the same group: the table is not accepted: SchemaMismatch: 10 should be 8"
            ),
            id="refused",
        ),
        pytest.param(
            ReadSwitches(when_unstable="colocated"), STABLE, None, "the files have 4 buckets, the group has 8",
            ReadDecision(
                False,
                "Inconsistent distribution of table and queries: the files have 4 buckets, the group has 8",
            ),
            id="other-buckets",
        ),
    ],
)
def test_decide(
    switches: ReadSwitches,
    group: ColocationGroupStatus | None,
    refusal: str | None,
    inconsistency: str | None,
    expected: ReadDecision,
) -> None:
    """A table is read bucket by bucket exactly when its group is stable, or the session says so."""
    assert decide(switches, group, refusal, inconsistency) == expected


@pytest.mark.parametrize("group", [STABLE, UNSTABLE, ColocationGroupStatus()])
def test_a_verdict_of_a_silent_operator_is_no_stable_one(group: ColocationGroupStatus) -> None:
    """``whenUnstable`` rules as it does for a group that is not stable; a session that disables joins says so."""
    silent = Freshness(message="no sign of life since noon")
    reason = "group is not stable: OperatorSilent: no sign of life since noon"
    assert decide(ReadSwitches(), group, None, None, silent) == ReadDecision(False, reason)
    kept = decide(ReadSwitches(when_unstable="colocated"), group, None, None, silent)
    assert kept == ReadDecision(True, note=f"{reason}; buckets are read from live replicas")
    assert decide(ReadSwitches(join_disabled=True), group, None, None, silent).reason == "Session disabled"
