"""The decision colocated or not at submission. It is for people; the application does not obey it.

Spark's sessions decide for themselves, by the group as it is when they plan.
"""

from collections.abc import Mapping

from ..model.base import Frozen
from ..model.reader_rules import few_buckets
from .errors import ManifestError
from .group_view import GroupView

WHEN_UNSTABLE = "spark.colocation.whenUnstable"
DISABLE_COLOCATE_JOIN = "spark.colocation.disableColocateJoin"


class Decision(Frozen):
    """Whether joins of the group's tables run without a shuffle; ``reason``: why not; ``note``: what qualifies it."""

    colocated: bool
    reason: str = ""
    note: str = ""

    def __str__(self) -> str:
        """In explain's words: ``colocate: true``, ``colocate: true, note: …`` or ``colocate: false, reason: …``."""
        text = f"colocate: {str(self.colocated).lower()}"
        text = f"{text}, reason: {self.reason}" if self.reason else text
        return f"{text}, note: {self.note}" if self.note else text


def decide(group: GroupView, conf: Mapping[str, str], cores: int = 0) -> Decision:
    """What an application that starts now would get: as Spark's sessions decide, in the operator's words.

    Args:
        group: as it is now.
        conf: the application's Spark configuration.
        cores: that its executors have together; 0 = not known.

    Raises:
        ManifestError: a switch has a value that is not allowed.
    """
    if switch(conf, DISABLE_COLOCATE_JOIN, ("true", "false"), default="false") == "true":
        return Decision(colocated=False, reason="Session disabled")
    remark = few_buckets(group.full_name, group.buckets, cores) if group.buckets else ""
    when_unstable = switch(conf, WHEN_UNSTABLE, ("live", "shuffle", "colocated"), default="live")
    if group.stable:
        return Decision(colocated=True, note=remark)
    not_stable = f"group is not stable: {group.instability}"
    if when_unstable == "colocated" or (when_unstable == "live" and group.liveness.is_whole):
        notes = (f"{not_stable}; buckets are read from live replicas", remark)
        return Decision(colocated=True, note="; ".join(filter(None, notes)))
    dead = group.liveness.message if when_unstable == "live" else ""
    return Decision(colocated=False, reason="; ".join(filter(None, (not_stable, dead))))


def switch(conf: Mapping[str, str], key: str, allowed: tuple[str, ...], *, default: str) -> str:
    """The value of a configuration key that takes one of a few words.

    Raises:
        ManifestError: it holds another word.
    """
    value = conf.get(key, default)
    if value not in allowed:
        raise ManifestError(f"{key} is {value!r}; allowed: {', '.join(allowed)}")
    return value
