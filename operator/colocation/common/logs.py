"""Log lines of operator and agents: text for people, or one JSON object a line for machines; and audit lines.

An audit line tells one action that was carried out or refused: its event, and fields with what it was done to, for whom
and why. Reasons are the words of ``model.conditions.Reason``.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, TextIO

from .control_characters import in_lines, in_one_line

LogFormat = Literal["text", "json"]
LOG_FORMATS: tuple[LogFormat, ...] = ("text", "json")
FORMAT_VARIABLE = "COLOCATION_LOG_FORMAT"

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

_FIELDS = "audit_fields"
"""The attribute of a log record that holds an audit line's fields."""


def configure(log_format: str = "text", level: int | str = logging.INFO, stream: TextIO | None = None) -> None:
    """Write all logs of this process to ``stream`` (standard error) in one format.

    Raises:
        ValueError: another format than ``text`` and ``json``.
    """
    if log_format not in LOG_FORMATS:
        raise ValueError(f"log format {log_format!r} is not allowed; allowed: {', '.join(LOG_FORMATS)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)


def audit(logger: logging.Logger, event: str, **fields: object) -> None:
    """Log one action: its event, one word, and its fields. Fields that are None are left out."""
    known = {name: value for name, value in fields.items() if value is not None}
    logger.info("%s", event, extra={_FIELDS: {"event": event, **known}})


class TextFormatter(logging.Formatter):
    """``time level logger message``; an audit line's message is ``audit event=… field=…``.

    A message holds what others sent: it stays in one line, so that it forges no other. Tracebacks keep their lines.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name in logging.Formatter
        """See ``logging.Formatter``."""
        fields = getattr(record, _FIELDS, None)
        if fields is not None:
            record.message = "audit " + " ".join(f"{name}={_text(value)}" for name, value in fields.items())
        record.message = in_one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 - the name in logging.Formatter
        """See ``logging.Formatter``."""
        return in_lines(super().formatException(ei))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (RFC 3339, UTC), level, logger, message, an audit line's fields, the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """See ``logging.Formatter``."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, object] = {
            "time": at, "level": record.levelname, "logger": record.name, "message": record.getMessage(),
        }  # fmt: skip
        fields = getattr(record, _FIELDS, None)
        if fields is not None:
            line["audit"] = fields
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _text(value: object) -> str:
    """A field's value as one word, or quoted as JSON does."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if text and not set(text) & set(" \t\r\n\"=") and text.isprintable() else json.dumps(text)
