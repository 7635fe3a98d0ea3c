"""Which ConfigMaps for Spark are written: those that differ, at once; and all of them again, a few a minute.

ConfigMaps are not watched, as all groups' would be many. Writing them again mends what somebody changed, and renews
``operator.json``: the sign of life by which readers without rights on the Lease know that the operator's verdicts
hold. The sign states how long it is valid: until its ConfigMap's turn comes again.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ..model.reader_rules import SignOfLife
from ..reconcile.actions import WriteConfigMap
from ..state.parse import format_time

RENEWALS_PER_MINUTE = 20
"""Over all groups: each is a request to the API server, also while nothing happens."""
MIN_AGE = timedelta(seconds=60)
"""A ConfigMap that was written more recently is not written again."""
MIN_VALID_SECONDS = 120.0
LATE_FACTOR = 1.5
LATE_SECONDS = 30.0
"""A turn may come so much later than it should: passes may be long, and requests may fail."""

_INTERVAL = timedelta(minutes=1) / RENEWALS_PER_MINUTE
_Key = tuple[str, str]


@dataclass(frozen=True)
class _Written:
    """As it was written last, or tried to be."""

    action: WriteConfigMap
    at: datetime
    expires_at: datetime


class ConfigMapWrites:
    """What this operator has written.

    Args:
        lease_namespace: where the operator's Lease is.
    """

    def __init__(self, lease_namespace: str) -> None:
        self._lease_namespace = lease_namespace
        self._written: dict[_Key, _Written] = {}
        self._wanted = 0
        self._renewed_at: datetime | None = None

    def begin(self, wanted: Iterable[WriteConfigMap]) -> None:
        """A pass wants these; others are forgotten."""
        keys = {_key(action) for action in wanted}
        self._written = {key: one for key, one in self._written.items() if key in keys}
        self._wanted = len(keys)

    def is_written(self, action: WriteConfigMap) -> bool:
        """Whether the ConfigMap has this content already."""
        known = self._written.get(_key(action))
        return known is not None and (known.action.content, known.action.owners) == (action.content, action.owners)

    def signed(self, action: WriteConfigMap, renewed_at: datetime) -> WriteConfigMap:
        """The action with a sign of life of that time."""
        sign = SignOfLife(
            renew_time=format_time(renewed_at), valid_seconds=self.valid_seconds, lease_namespace=self._lease_namespace
        )
        return replace(action, sign=sign)

    def wrote(self, action: WriteConfigMap, now: datetime) -> None:
        """It was written."""
        self._written[_key(action)] = _Written(action, now, now + timedelta(seconds=self.valid_seconds))

    def failed(self, action: WriteConfigMap, now: datetime) -> None:
        """It could not be written again; it waits for its next turn."""
        known = self._written.get(_key(action))
        if known is not None:
            self._written[_key(action)] = replace(known, at=now)

    def due(self, now: datetime) -> tuple[WriteConfigMap, ...]:
        """Those whose turn it is to be written again: the ones whose signs end first."""
        since = self._renewed_at or now
        allowed = min((now - since) // _INTERVAL, RENEWALS_PER_MINUTE)
        self._renewed_at = now if allowed == RENEWALS_PER_MINUTE else since + allowed * _INTERVAL
        if allowed <= 0:
            return ()
        old = (one for one in self._written.values() if now - one.at >= MIN_AGE)
        return tuple(one.action for one in heapq.nsmallest(allowed, old, key=lambda one: (one.expires_at, one.at)))

    @property
    def valid_seconds(self) -> float:
        """How long a sign of life that is written now has to hold, until its ConfigMap is written again."""
        turn_seconds = max(MIN_AGE.total_seconds(), self._wanted * _INTERVAL.total_seconds())
        return max(MIN_VALID_SECONDS, turn_seconds * LATE_FACTOR + LATE_SECONDS)


def _key(action: WriteConfigMap) -> _Key:
    """One group has several, in namespaces of their own."""
    return action.group.uid, action.content.placement.namespace
