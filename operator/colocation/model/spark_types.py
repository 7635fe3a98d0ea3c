"""Spark SQL type names: one spelling per type, and which types may be bucket keys.

Source of the aliases: Spark's SQL reference, "Data Types". Types of a colocation group are compared after
this normalisation (Doris compares ``distributionColTypes`` one by one; VARCHAR and STRING are equal there).
"""

import re
from functools import lru_cache
from itertools import combinations

_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "timestamp_ltz": "timestamp",
}

_KEY_TYPES = frozenset(
    (
        *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal"),
        *("string", "binary", "date", "timestamp", "timestamp_ntz"),
    )
)

_SIMPLE_TYPES = _KEY_TYPES | {"variant", "void", "interval"}

_UNITS = (("year", "month"), ("day", "hour", "minute", "second"))
_INTERVALS = frozenset(f"interval {unit}" for units in _UNITS for unit in units) | frozenset(
    f"interval {first} to {last}" for units in _UNITS for first, last in combinations(units, 2)
)
TYPES_WITHOUT_ARGUMENTS = _SIMPLE_TYPES | _INTERVALS | set(_ALIASES) | {"dec", "numeric"}
"""Every spelling of a type that neither has arguments nor a collation, in lower case, with one blank between words."""

ALLOWED_TYPES = (
    f"{', '.join(sorted(_SIMPLE_TYPES))}, decimal(p,s), varchar(n), char(n), string collate c, "
    "interval year to month, interval day to second, array<…>, map<…>, struct<…>"
)
_BLANKS = " \t\n\r\f\v"
"""Of ASCII, as digits are: Spark's parser knows no others."""
_COLLATED = re.compile(r"string collate (\w+)", re.IGNORECASE | re.ASCII)
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?: ?\( ?0*([0-9]+) ?(?:, ?0*([0-9]+) ?)?\))?")
_CHARACTER = re.compile(r"(?:varchar|char|character) ?\( ?[0-9]+ ?\)")
_NESTED = re.compile(r"(?:array|map|struct) ?<.*[^ ].*>", re.DOTALL)
_MAX_PRECISION = 38


@lru_cache(maxsize=4096)
def canonical_type(name: str) -> str:
    """The one spelling of a Spark SQL type: ``LONG`` -> ``bigint``, ``numeric`` -> ``decimal(10,0)``.

    ``varchar(n)``, ``char(n)`` and ``string`` become ``string``: Spark hashes them alike, and Doris treats
    VARCHAR and STRING as equal.

    Raises:
        ValueError: the name is not a Spark SQL type.
    """
    text = name.strip(_BLANKS)
    spaced = re.sub(f"[{_BLANKS}]+", " ", text).lower()
    if _NESTED.fullmatch(spaced):
        return text
    if spaced in _INTERVALS:
        return spaced
    if collated := _COLLATED.fullmatch(text):
        return f"string collate {collated[1]}"
    if _CHARACTER.fullmatch(spaced):
        return "string"
    if decimal := _DECIMAL.fullmatch(spaced):
        return _decimal(name, decimal[1], decimal[2])
    simple = _ALIASES.get(spaced, spaced)
    if simple in _SIMPLE_TYPES and simple != "decimal":
        return simple
    raise ValueError(f"type {name!r} is not a Spark SQL type; allowed: {ALLOWED_TYPES}")


def _decimal(name: str, precision: str | None, scale: str | None) -> str:
    """Of digits without leading zeros; None: not given."""
    if precision is None:
        return "decimal(10,0)"
    if len(precision) <= 2 and 1 <= int(precision) <= _MAX_PRECISION:
        behind_point = scale or "0"
        if len(behind_point) <= 2 and int(behind_point) <= int(precision):
            return f"decimal({precision},{behind_point})"
    raise ValueError(f"type {name!r}: a decimal needs a precision of 1 to 38 and a scale of 0 to the precision")


def is_key_type(name: str) -> bool:
    """Whether a column of this type may be part of a bucket key (Spark hashes it without a collation)."""
    return canonical_type(name).partition("(")[0] in _KEY_TYPES
