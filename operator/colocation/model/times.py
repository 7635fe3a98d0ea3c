"""Times as objects of the cluster hold them: RFC 3339 text, which anybody may have written."""

from datetime import UTC, datetime


def parse_rfc3339(text: str) -> datetime:
    """The time, in UTC.

    Raises:
        ValueError: no such time, or one without a zone, which nobody can compare with another.
    """
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no zone; allowed: RFC 3339, for example 2026-11-21T04:00:00Z")
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is out of range") from error
