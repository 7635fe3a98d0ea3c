"""How long a verdict holds: as long as the operator shows that it lives, and no longer. Pure.

``status.stable`` stands in the group after its operator has died, so a reader asks for the last sign of life of the
operator: the Lease by which it leads, or, without rights on that, the key ``operator.json`` of the group's ConfigMap.
A verdict older than that sign's duration is *unknown*: the group counts as not stable, reason ``OperatorSilent``.

Two clocks are compared: the operator's, which wrote the time, and the API server's, by which the reader judges. They
may differ by ``ALLOWED_SKEW_SECONDS``.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from pydantic import Field, ValidationError

from .base import Frozen, Observed
from .conditions import Reason
from .names import LEASE_NAME
from .times import parse_time

SIGN_OF_LIFE_KEY = "operator.json"
"""Of the ConfigMap ``<group>-spark``."""
ALLOWED_SKEW_SECONDS = 20
MAX_VALID_SECONDS = 10**7
"""Of a sign in a ConfigMap, which an operator of very many groups renews rarely; some 115 days."""


class SignOfLife(Observed):
    """``operator.json``: what the operator says of itself beside each group; its JSON is ``to_json_dict()``."""

    renew_time: str = Field(description="When the operator last said that it lives; RFC 3339.")
    valid_seconds: float = Field(gt=0, le=MAX_VALID_SECONDS, description="So long after that time its verdicts hold.")
    lease_namespace: str = Field("", description="Where its Lease is, which is renewed more often than this.")
    lease_name: str = LEASE_NAME


class Freshness(Frozen):
    """Whether the operator's verdicts hold now. ``message``: since when not, in words; empty = they hold."""

    message: str = ""

    @property
    def is_current(self) -> bool:
        """Whether they hold."""
        return not self.message

    @property
    def explanation(self) -> str:
        """``OperatorSilent: <message>``; empty when they hold."""
        return f"{Reason.OPERATOR_SILENT}: {self.message}" if self.message else ""


CURRENT = Freshness()


def read_sign_of_life(data: Mapping[str, str]) -> SignOfLife | None:
    """The sign of life in a ConfigMap's data; None when it has none: an older operator's.

    Raises:
        ValueError: it has one that says nothing.
    """
    text = data.get(SIGN_OF_LIFE_KEY)
    if text is None:
        return None
    try:
        return SignOfLife.model_validate_json(text)
    except ValidationError as error:
        raise ValueError(f"{SIGN_OF_LIFE_KEY} of the group's ConfigMap cannot be read: {text[:200]!r}") from error


def judge_freshness(renew_time: str, valid_seconds: float, now: datetime, witness: str) -> Freshness:
    """Whether verdicts of an operator that last gave a sign of life at ``renew_time`` hold at ``now``.

    Args:
        renew_time: as it was written, RFC 3339.
        valid_seconds: how long they hold after it.
        now: the time, with a zone; the API server's own where it is known.
        witness: what was read, for the message.
    """
    renewed_at = parse_time(renew_time)
    if renewed_at is None:
        message = f"{witness} does not say when the operator was last alive: {renew_time!r} is not a time"
        return Freshness(message=message)
    ahead_seconds = (renewed_at - now).total_seconds()
    if ahead_seconds > ALLOWED_SKEW_SECONDS:
        return Freshness(
            message=f"{witness} was renewed at {renew_time}, which is in the future by more than the allowed "
            f"{ALLOWED_SKEW_SECONDS} s: correct the clocks of the API servers' nodes"
        )
    if now - renewed_at > timedelta(seconds=valid_seconds + ALLOWED_SKEW_SECONDS):
        return Freshness(
            message=f"the operator has given no sign of life since {renew_time} ({witness}); what it reported on "
            "the group may be out of date"
        )
    return CURRENT
