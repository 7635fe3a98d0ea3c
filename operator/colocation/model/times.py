"""Times as they stand in Kubernetes objects: RFC 3339 with a time zone. Whoever wrote one is not trusted."""

import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

MAX_TIME_LENGTH = 40
MAX_SECONDS = 10**11
"""Of a duration: some 3,000 years, so that no sum of a time and a duration leaves the years that Python knows."""

_TIME_OF_A_DAY = r"-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-][01][0-9]:[0-5][0-9])$"
TIME_PATTERN = r"^[1-9][0-9]{3}" + _TIME_OF_A_DAY
COMMIT_TIME_PATTERN = r"^[12][0-9]{3}" + _TIME_OF_A_DAY


def parse_time(text: object) -> datetime | None:
    """An RFC 3339 time in UTC; None for everything else, and for a time without a zone."""
    if not isinstance(text, str) or len(text) > MAX_TIME_LENGTH:
        return None
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def http_date(headers: Mapping[str, str]) -> datetime | None:
    """The header ``Date`` of an HTTP answer, in UTC; None when there is none that is a time."""
    text = next((value for name, value in headers.items() if name.lower() == "date"), "")
    try:
        found = parsedate_to_datetime(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _time(pattern: str) -> tuple[FieldInfo, AfterValidator]:
    """A text of this pattern that is a time; the CRD states the pattern, the message says it in words."""
    expression = re.compile(pattern)

    def check(text: str) -> str:
        if parse_time(text) is None or not expression.fullmatch(text):
            raise ValueError("allowed is a time of RFC 3339 with a time zone, e.g. 2026-11-21T00:00:00Z")
        return sys.intern(text)

    schema: JsonDict = {"format": "date-time", "pattern": pattern, "maxLength": MAX_TIME_LENGTH}
    return Field(json_schema_extra=schema), AfterValidator(check)


Time = Annotated[str, *_time(TIME_PATTERN)]
"""An RFC 3339 time with a zone, kept as it was written."""

CommitTime = Annotated[str, *_time(COMMIT_TIME_PATTERN)]
"""A ``Time`` before the year 3000: durations are added to it."""
