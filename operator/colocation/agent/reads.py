"""The files that the front is sending now: how many, for whom, and how many bytes were sent in the end."""

import re
from collections import Counter, OrderedDict
from collections.abc import Callable

from .errors import Refusal
from .metrics import Metrics

MAX_READS_OF_ACCOUNT = 512
"""At once. A slow reader costs the front its buffers, and nobody else anything."""
MAX_REMEMBERED_ENDS = 4096

_SENT_LINE = re.compile(r"([0-9a-f]{32}) (\d+)")


class RunningReads:
    """Used on the event loop only. ``changed`` is called when reads have begun or ended."""

    def __init__(self, metrics: Metrics, changed: Callable[[], None]) -> None:
        self._metrics = metrics
        self._changed = changed
        self._accounts: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._ended_before: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def check(self, account: str) -> None:
        """Refuse another read of an account that has too many.

        Raises:
            Refusal: 429.
        """
        if self._counts[account] >= MAX_READS_OF_ACCOUNT:
            message = f"{account} reads {self._counts[account]} files of this node now, as many as allowed; ask later"
            raise Refusal(429, "Busy", message, {"Retry-After": "1"})

    def begin(self, request_id: str, account: str) -> None:
        """The front is told to send a file."""
        if request_id in self._ended_before:  # the caller has gone before the answer
            del self._ended_before[request_id]
            return
        self._accounts[request_id] = account
        self._counts[account] += 1
        self._changed()

    def take_lines(self, lines: list[str]) -> None:
        """Lines of the front's log, one per request for a file that has ended."""
        for line in lines:
            match = _SENT_LINE.fullmatch(line)
            if match is not None:
                self._end(match[1], int(match[2]))
        self._changed()

    def forget(self) -> None:
        """A process of the front was killed, and its lines were lost."""
        self._accounts.clear()
        self._counts.clear()
        self._changed()

    def _end(self, request_id: str, sent_bytes: int) -> None:
        account = self._accounts.pop(request_id, None)
        if account is None:
            self._ended_before[request_id] = None
            if len(self._ended_before) > MAX_REMEMBERED_ENDS:
                self._ended_before.popitem(last=False)
            return
        self._metrics.count_sent(account, sent_bytes)
        self._counts[account] -= 1
        if not self._counts[account]:
            del self._counts[account]
