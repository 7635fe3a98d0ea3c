"""Log lines: text for people, JSON for machines, audit lines in both."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from colocation.common.logs import audit, configure

LOGGER = logging.getLogger("colocation.test")


@pytest.fixture(autouse=True)
def handlers_stay() -> Iterator[None]:
    """The root logger is left as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def written(log_format: str, **fields: object) -> str:
    """What one audit line looks like."""
    stream = io.StringIO()
    configure(log_format, stream=stream)
    audit(LOGGER, "DropBucket", **fields)
    return stream.getvalue()


def test_an_audit_line_as_json() -> None:
    """One object a line, with the fields as they are."""
    line = json.loads(written("json", namespace="shop", bucket=3, reason=None, manifests=["a b"]))
    assert (line["level"], line["logger"], line["message"]) == ("INFO", "colocation.test", "DropBucket")
    assert line["audit"] == {"event": "DropBucket", "namespace": "shop", "bucket": 3, "manifests": ["a b"]}
    assert line["time"].endswith("Z")


def test_an_audit_line_as_text() -> None:
    """key=value; whatever could be taken for another field or line is quoted."""
    text = written("text", namespace="shop", bucket=3, message="a=1\nb")
    assert text.endswith('INFO colocation.test audit event=DropBucket namespace=shop bucket=3 message="a=1\\nb"\n')


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_ordinary_lines_and_tracebacks(log_format: str) -> None:
    """Both formats take messages with arguments, and exceptions."""
    stream = io.StringIO()
    configure(log_format, logging.WARNING, stream)
    try:
        raise ValueError("broken")
    except ValueError:
        LOGGER.exception("%s failed", "a step")
    LOGGER.info("not logged at this level")
    assert "a step failed" in stream.getvalue()
    assert "ValueError: broken" in stream.getvalue()
    assert "not logged" not in stream.getvalue()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_what_others_sent_forges_no_line(log_format: str) -> None:
    """Control characters are escaped, those of a traceback but its newlines."""
    stream = io.StringIO()
    configure(log_format, stream=stream)
    LOGGER.warning("PUT %s: refused", "/v1/x\r\n2026 INFO colocation.agent all is well\x1b[2J\u202e\x9b")
    [line] = stream.getvalue().splitlines()
    assert "\\r\\n2026 INFO" in line
    assert line.isascii() and line.isprintable()
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        LOGGER.exception("failed")
    assert "\x1b" not in stream.getvalue()
    if log_format == "text":
        assert stream.getvalue().splitlines()[-1] == "ValueError: \\x1b[2J"


def test_an_unknown_format_is_refused() -> None:
    """With what is allowed."""
    with pytest.raises(ValueError, match="allowed: text, json"):
        configure("xml")
