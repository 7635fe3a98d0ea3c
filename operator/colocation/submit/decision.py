"""Colocated or not, decided once, when an application is submitted."""

from collections.abc import Mapping

from ..model.base import Frozen
from .errors import ManifestError
from .group_view import GroupView

WHEN_UNSTABLE = "spark.colocation.whenUnstable"
DEGRADE_REASON = "spark.colocation.degradeReason"
DISABLE_COLOCATE_JOIN = "spark.colocation.disableColocateJoin"


class Decision(Frozen):
    """Whether joins of the group's tables run without a shuffle. ``reason`` says why not, or under which reserve."""

    colocated: bool
    reason: str = ""

    def __str__(self) -> str:
        """In the words of Doris' EXPLAIN: ``colocate: true`` or ``colocate: false, reason: …``."""
        text = f"colocate: {str(self.colocated).lower()}"
        return f"{text}, reason: {self.reason}" if self.reason else text


def decide(group: GroupView, conf: Mapping[str, str]) -> Decision:
    """The seeds' rule: only a stable group joins without a shuffle; ``whenUnstable=colocated`` keeps the bucketed plan.

    ``conf`` is the application's Spark configuration.

    Raises:
        ManifestError: a switch has a value that is not allowed.
    """
    if switch(conf, DISABLE_COLOCATE_JOIN, ("true", "false"), default="false") == "true":
        return Decision(colocated=False, reason="Session disabled")
    if group.stable:
        return Decision(colocated=True)
    not_stable = f"group is not stable: {group.instability}"
    if switch(conf, WHEN_UNSTABLE, ("shuffle", "colocated"), default="shuffle") == "colocated":
        return Decision(colocated=True, reason=f"{WHEN_UNSTABLE}=colocated, on the live replicas; {not_stable}")
    return Decision(colocated=False, reason=not_stable)


def switch(conf: Mapping[str, str], key: str, allowed: tuple[str, ...], *, default: str) -> str:
    """The value of a configuration key that takes one of a few words.

    Raises:
        ManifestError: it holds another word.
    """
    value = conf.get(key, default)
    if value not in allowed:
        raise ManifestError(f"{key} is {value!r}; allowed: {', '.join(allowed)}")
    return value
