"""What is wrong with a value that somebody wrote, in words: the field, what it holds, what is allowed."""

import json
from collections.abc import Collection

from pydantic import ValidationError
from pydantic_core import ErrorDetails

MAX_LISTED = 3
MAX_SHOWN_CHARACTERS = 60
MAX_PATH_CHARACTERS = 120


def problems_of(error: ValidationError, root: str, fields: Collection[str] | None = None) -> str:
    """One line, short and in ASCII whatever was given; empty when nothing is wrong.

    ``root`` is the field that was parsed, e.g. ``status``; ``fields`` are those of it that count, None = all.
    """
    found = [
        one
        for one in error.errors(include_url=False, include_context=False)
        if fields is None or not one["loc"] or one["loc"][0] in fields
    ]
    listed = [_problem(one, root) for one in found[:MAX_LISTED]]
    more = [f"and {len(found) - MAX_LISTED} more"] if len(found) > MAX_LISTED else []
    return "; ".join([*listed, *more])


def _problem(one: ErrorDetails, root: str) -> str:
    path = _ascii(".".join(map(str, (root, *one["loc"]))))[:MAX_PATH_CHARACTERS]
    message = _ascii(one["msg"].removeprefix("Value error, "))
    return f"{path} is missing" if one["type"] == "missing" else f"{path} is {shown(one['input'])}: {message}"


def shown(value: object) -> str:
    """A value in a message: shortened, and only of what kind it is when it is large."""
    if isinstance(value, str):
        text = value if len(value) <= MAX_SHOWN_CHARACTERS else value[:MAX_SHOWN_CHARACTERS] + "..."
        return json.dumps(text)
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    return json.dumps(value, default=lambda other: type(other).__name__)


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
