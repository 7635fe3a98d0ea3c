"""Whether a table is read bucket by bucket, or in the ordinary way and why. Pure; the reasons are Doris's words.

A row's bucket is a property of the data, so a bucketed plan is right at any time; this only decides whether it pays.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from colocation.model.conditions import Reason
from colocation.model.freshness import CURRENT, Freshness
from colocation.model.group import ColocationGroupStatus
from colocation.model.liveness import MAX_NAMED_BUCKETS, Liveness, liveness

SESSION_DISABLED = "Session disabled"
NOT_STABLE = "group is not stable"
NO_GROUP = "Tables are not in the same group"
INCONSISTENT = "Inconsistent distribution of table and queries"

WhenUnstable = Literal["live", "shuffle", "colocated"]
"""How tables of a group that is not stable are read: bucket by bucket as long as every bucket has a live replica, in
the ordinary way (the rule of Doris and StarRocks), or bucket by bucket whatever is known."""


@dataclass(frozen=True)
class ReadSwitches:
    """What the session asked for."""

    join_disabled: bool = False
    when_unstable: WhenUnstable = "live"


@dataclass(frozen=True)
class ReadDecision:
    """``bucketed`` False: Spark sees an ordinary table, for ``reason``. ``note`` qualifies a bucketed read."""

    bucketed: bool
    reason: str = ""
    note: str = ""

    def noting(self, remark: str) -> "ReadDecision":
        """The same with one more note, where it reads buckets and there is something to remark."""
        if not self.bucketed or not remark:
            return self
        return replace(self, note=f"{self.note}; {remark}" if self.note else remark)


def decide(
    switches: ReadSwitches,
    group: ColocationGroupStatus | None,
    refusal: str | None,
    inconsistency: str | None,
    freshness: Freshness = CURRENT,
    ready: Collection[str] = (),
) -> ReadDecision:
    """How to read a table.

    Args:
        switches: the session's.
        group: the group's status; None when the table is in no group.
        refusal: why the operator refuses the table; None when it is accepted.
        inconsistency: how the table's files differ from the group's schema; None when they do not.
        freshness: whether the operator's verdict on the group holds; one that does not is no stable one, and tells of
            no live replica.
        ready: nodes whose agents are ready, as the group's ConfigMap tells.
    """
    if switches.join_disabled:
        return ReadDecision(False, SESSION_DISABLED)
    if group is None:
        return ReadDecision(False, f"{NO_GROUP}: the table is in no group")
    if refusal is not None:
        return ReadDecision(False, f"{NO_GROUP}: the table is not accepted: {refusal}")
    if inconsistency is not None:
        return ReadDecision(False, f"{INCONSISTENT}: {inconsistency}")
    unstable = freshness.explanation or _instability(group)
    if not unstable:
        return ReadDecision(True)
    reason = f"{NOT_STABLE}: {unstable}"
    judges = switches.when_unstable == "live" and freshness.is_current
    alive = liveness(group, ready) if judges else Liveness(is_whole=switches.when_unstable == "colocated")
    if alive.is_whole:
        return ReadDecision(True, note=f"{reason}; buckets are read from live replicas")
    return ReadDecision(False, f"{reason}; {alive.message}" if alive.message else reason)


def _instability(group: ColocationGroupStatus) -> str:
    """Why the group is not stable, with its first buckets; empty when it is."""
    if group.stable:
        return ""
    if group.stable is None:
        return "the operator has not judged it yet"
    named = [f"bucket {bucket.bucket} {bucket.reason}: {bucket.message}".rstrip(": ")
             for bucket in group.unstable_buckets[:MAX_NAMED_BUCKETS]]
    total = group.unstable_bucket_count or len(group.unstable_buckets)
    if total > len(named):
        named.append(f"and {total - len(named)} more buckets" if named else f"{total} buckets")
    return "; ".join([group.reason or Reason.REPLICA_MISSING, *named])
