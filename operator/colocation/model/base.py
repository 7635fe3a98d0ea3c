"""The base classes of the model's types, its times and limits, and how a refused value is described."""

import json
import re
import sys
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict
from pydantic_core import ErrorDetails

from .wording import first_few

COMPACT = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)
"""Of ``pydantic.dataclasses``: the wire form of ``Observed``, for types of which a large cluster has hundreds of
thousands at a time. With slots they take a quarter of a model's memory.
"""

UTC = timezone.utc  # noqa: UP017
"""`datetime.UTC`, which Python 3.10 lacks: drivers in Apache's Spark images run on it."""


class StrEnum(str, Enum):  # noqa: UP042
    """`enum.StrEnum`, which Python 3.10 lacks."""

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, format_spec: str) -> str:
        return format(str(self.value), format_spec)


_NO_FIELDS: set[str] = set()
"""Of all values; pydantic copies it before it would change it."""
Shared = Annotated[str, AfterValidator(sys.intern)]
"""A text that many values have: kept once."""
Value = TypeVar("Value")
MAX_REMEMBERED_VALUES = 16_384
_first_of_equal_ones = lru_cache(maxsize=MAX_REMEMBERED_VALUES)(lambda value: value)


def first_of_equal_ones(value: Value) -> Value:
    """The first value that is equal to this one: thousands of tables have few columns and settings between them."""
    found: Value = _first_of_equal_ones(value)
    return found


class Frozen(BaseModel):
    """An immutable value: snake_case in Python, camelCase in Kubernetes objects and JSON files.

    Unknown fields are refused, so that a misspelt field is an error.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    def model_post_init(self, context: Any, /) -> None:
        """Forget which fields were given and which are defaults: never needed, and a third of the memory."""
        object.__setattr__(self, "__pydantic_fields_set__", _NO_FIELDS)

    def to_json_dict(self) -> dict[str, object]:
        """This value as it stands in a Kubernetes object or a JSON file (camelCase keys)."""
        return self.model_dump(mode="json", by_alias=True)


class Observed(Frozen):
    """A value read from another version of ourselves (status, agent reports): unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")


MAX_BUCKETS = 65536
MAX_REPLICAS = 7
MAX_KEY_COLUMNS = 16
MAX_COLUMNS = 2000
MAX_CONDITIONS = 32
MAX_NAMESPACE_LENGTH = 63
MAX_NAME_LENGTH = 63
"""Names of groups and tables become label values, which Kubernetes limits."""
MAX_GROUP_REFERENCE_LENGTH = MAX_NAMESPACE_LENGTH + 1 + MAX_NAME_LENGTH
"""Of ``<namespace>/<group>``."""
MAX_MAP_BYTES = 3 << 18
"""Of a group's map as JSON: half of what etcd takes for an object; its tables and all else need the other half."""
MAX_SEQUENCE_BYTES = MAX_MAP_BYTES // 2
"""Of a map set by hand, which the object holds twice: in ``spec.bucketSequence`` and, carried out, in the status."""
MAX_MANIFEST_FILES = 1 << 18
"""Files of one replica of a table: agents keep some 500 bytes of memory for each that a live manifest names."""


MAX_TIME_LENGTH = 40
MAX_SECONDS = 10**11
"""Of a duration: some 3,000 years, so that no sum of a time and a duration leaves the years that Python knows."""

_TIME_OF_A_DAY = r"-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-][01][0-9]:[0-5][0-9])$"
TIME_PATTERN = r"^[1-9][0-9]{3}" + _TIME_OF_A_DAY
COMMIT_TIME_PATTERN = r"^[12][0-9]{3}" + _TIME_OF_A_DAY
_TIME = re.compile(TIME_PATTERN)
_MAX_OFFSET = timedelta(hours=18)
"""As far as Java's times go, and four hours more than any time zone."""


def parse_time(text: object) -> datetime | None:
    """A time of RFC 3339 with a time zone at most 18 hours from UTC, in UTC; None for everything else."""
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    # As Python 3.10 reads it, too: an offset of digits, and microseconds.
    microseconds, offset = (match[1] or ".")[:7].ljust(7, "0"), match[2].replace("Z", "+00:00")
    try:
        time = datetime.fromisoformat(f"{match[0][:19]}{microseconds}{offset}")
        return time.astimezone(UTC) if abs(time.utcoffset() or timedelta()) <= _MAX_OFFSET else None
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


def _is_time(pattern: str) -> AfterValidator:
    """A text of this pattern that is a time; the message states in words what the CRD states by the pattern."""
    expression = re.compile(pattern)

    def check(text: str) -> str:
        if parse_time(text) is None or not expression.fullmatch(text):
            raise ValueError("allowed is a time of RFC 3339 with a time zone, e.g. 2026-11-21T00:00:00Z")
        return sys.intern(text)

    return AfterValidator(check)


def _time_schema(pattern: str) -> Any:
    schema: JsonDict = {"format": "date-time", "pattern": pattern, "maxLength": MAX_TIME_LENGTH}
    return Field(json_schema_extra=schema)


Time = Annotated[str, _time_schema(TIME_PATTERN), _is_time(TIME_PATTERN)]
"""An RFC 3339 time with a zone, kept as it was written."""

CommitTime = Annotated[str, _time_schema(COMMIT_TIME_PATTERN), _is_time(COMMIT_TIME_PATTERN)]
"""A ``Time`` before the year 3000: durations are added to it."""


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
    return "; ".join(first_few([_problem(one, root) for one in found], MAX_LISTED))


def _problem(one: ErrorDetails, root: str) -> str:
    path = _ascii(".".join(map(str, (root, *one["loc"]))))[:MAX_PATH_CHARACTERS]
    message = _ascii(one["msg"].removeprefix("Value error, "))
    if one["type"] == "missing":
        return f"{path} is missing"
    if one["type"] == "value_error" and isinstance(one["input"], dict):  # a rule about several of its fields
        return f"{path}: {message}"
    return f"{path} is {shown(one['input'])}: {message}"


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
