"""The API server's clock. What is kept for a while (a table's history, a Lease) is counted by it in every program."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from ..model.base import http_date


def _local_time() -> datetime:
    return datetime.now(UTC)


class ServerClock:
    """The time by the ``Date`` of the API server's answers, which is whole seconds; it goes on between them.

    A node whose own clock is a day ahead would drop every table's history, and its Lease would be one of tomorrow.

    Args:
        local: this machine's clock, for as long as no answer came.
        monotonic: seconds that never go back.
    """

    def __init__(
        self, local: Callable[[], datetime] = _local_time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._local = local
        self._monotonic = monotonic
        self._heard: tuple[datetime, float] | None = None

    @property
    def is_known(self) -> bool:
        """Whether an answer has said the time."""
        return self._heard is not None

    def hear(self, headers: Mapping[str, str]) -> None:
        """Of an answer; one that does not say the time changes nothing."""
        shown = http_date(headers)
        if shown is not None:
            self._heard = shown, self._monotonic()

    def now(self) -> datetime:
        """The time, in UTC."""
        if self._heard is None:
            return self._local()
        shown, at = self._heard
        return shown + timedelta(seconds=self._monotonic() - at)
