"""What the front's error log tells: a file could not be read, or ended too early; a worker was killed; all else is only
logged.
"""

import asyncio
import logging
import re

from colocation.storage.errors import InvalidPath, StorageError
from colocation.storage.folders import UNREADABLE_MEDIUM

from .damage import DamageChecks
from .errors import Refusal
from .reads import RunningReads
from .targets import decoded_segments, file_target

MAX_LOGGED_AT_ONCE = 20
"""Of the lines that come together: a flood of requests makes no flood of lines."""

_LINE = re.compile(r"\S+ \S+ \[(?P<level>\w+)\] \d+#\d+: (?:\*\d+ )?(?P<message>.*)")
_NUMBERS = "|".join(str(number) for number in sorted(UNREADABLE_MEDIUM))
_SUSPICIOUS = re.compile(
    rf"""(?:
        (?:sendfile|pread|preadv|read|open|openat|fstat|fstatat)\(\)[ ](?:"[^"]*"[ ])?failed[ ]\((?:{_NUMBERS}):[^,]*\)
        |(?:pread|preadv|read)\(\)[ ]read[ ]only[ ]-?\d+[ ]of[ ]\d+[ ]from[ ]"[^"]*"
        |sendfile\(\)[ ]reported[ ]that[ ]"[^"]*"[ ]was[ ]truncated[ ]at[ ]\d+
    ).*,[ ]request:[ ]"GET[ ](?P<target>/v1/files/[^ "]+)[ ]HTTP/""",
    re.VERBOSE,
)
"""The disk fails at this place, or the file is shorter than when it was opened."""
_LEVELS = {"info": logging.INFO, "notice": logging.INFO, "warn": logging.WARNING}
_KILLED = re.compile(r"worker process \d+ exited on signal")

_log = logging.getLogger(__name__)


class FrontErrors:
    """Takes the lines. Used on the event loop only."""

    def __init__(self, reads: RunningReads, damage: DamageChecks) -> None:
        self._reads = reads
        self._damage = damage
        self._checks: set[asyncio.Task[None]] = set()

    def take_lines(self, lines: list[str]) -> None:
        """See ``front.running_front``."""
        matches = [_LINE.fullmatch(line) for line in lines]
        for line, match in zip(lines[:MAX_LOGGED_AT_ONCE], matches, strict=False):
            level = _LEVELS.get(match["level"], logging.ERROR) if match else logging.ERROR
            _log.log(level, "nginx: %s", match["message"] if match else line)
        if len(lines) > MAX_LOGGED_AT_ONCE:
            _log.warning("nginx: %d more lines", len(lines) - MAX_LOGGED_AT_ONCE)
        for match in matches:
            if match is not None:
                self._act_on(match["message"])

    def _act_on(self, message: str) -> None:
        if _KILLED.match(message):
            self._reads.forget()
        suspicious = _SUSPICIOUS.match(message)
        if suspicious is not None:
            check = asyncio.create_task(self._check(suspicious["target"]))
            self._checks.add(check)
            check.add_done_callback(self._checks.discard)

    async def _check(self, raw_target: str) -> None:
        """The agent reads the file itself: a line in a log is no proof."""
        try:
            target = file_target(decoded_segments(raw_target)[2:])
            await self._damage.suspect(*target)
        except (Refusal, InvalidPath, StorageError, OSError) as error:
            _log.warning("%s was not checked: %s", raw_target, error)
