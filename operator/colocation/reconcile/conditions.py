"""Conditions by the kstatus convention; the time of a condition moves only when its status does."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple

from ..model.conditions import Condition, ConditionType, EventReason
from ..state.objects import Identity
from ..state.parse import format_time
from .actions import PostEvent


class Verdict(NamedTuple):
    """What is true now of one aspect of an object."""

    type: ConditionType
    status: bool
    reason: str
    message: str


def conditions(
    before: Iterable[Condition], verdicts: Iterable[Verdict], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The object's conditions after these verdicts on its spec's ``generation``."""
    known = {condition.type: condition for condition in before}
    return tuple(_condition(known.get(verdict.type), verdict, generation, now) for verdict in verdicts)


def _condition(before: Condition | None, verdict: Verdict, generation: int, now: datetime) -> Condition:
    status: Literal["True", "False"] = "True" if verdict.status else "False"
    unchanged = before is not None and before.status == status
    return Condition(
        type=verdict.type,
        status=status,
        reason=verdict.reason,
        message=verdict.message,
        last_transition_time=before.last_transition_time if before and unchanged else format_time(now),
        observed_generation=generation,
    )


def stalled_event(
    kind: str, identity: Identity, before: Iterable[Condition], after: Iterable[Condition]
) -> Iterator[PostEvent]:
    """An Event when an object becomes ``Stalled``, or stays so for another reason."""
    known = next((one for one in before if one.type == ConditionType.STALLED and one.status == "True"), None)
    stalled = next((one for one in after if one.type == ConditionType.STALLED and one.status == "True"), None)
    if stalled and (known is None or known.reason != stalled.reason):
        yield PostEvent(kind, identity, "Warning", EventReason.STALLED, f"{stalled.reason}: {stalled.message}")
