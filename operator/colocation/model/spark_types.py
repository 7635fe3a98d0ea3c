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
    "dec": "decimal",
    "numeric": "decimal",
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
_COLLATED = re.compile(r"^string collate (\w+)$", re.IGNORECASE)
_DECIMAL = re.compile(r"^decimal\((\d+)(?:,(\d+))?\)$")
_CHARACTER = re.compile(r"^(?:varchar|char|character)\(\d+\)$")
_NESTED = re.compile(r"^(?:array|map|struct)<.+>$")


@lru_cache(maxsize=4096)
def canonical_type(name: str) -> str:
    """The one spelling of a Spark SQL type: ``LONG`` -> ``bigint``, ``numeric`` -> ``decimal(10,0)``.

    ``varchar(n)``, ``char(n)`` and ``string`` become ``string``: Spark hashes them alike, and Doris treats
    VARCHAR and STRING as equal.

    Raises:
        ValueError: the name is not a Spark SQL type.
    """
    text = name.strip()
    compact = re.sub(r"\s+", "", text).lower()
    if _NESTED.match(compact):
        return text
    spaced = " ".join(text.lower().split())
    if spaced in _INTERVALS:
        return spaced
    if collated := _COLLATED.match(text):
        return f"string collate {collated[1]}"
    if _CHARACTER.match(compact):
        return "string"
    base, _, arguments = compact.partition("(")
    compact = _ALIASES.get(base, base) + (f"({arguments}" if arguments else "")
    if compact == "decimal":
        return "decimal(10,0)"
    decimal = _DECIMAL.match(compact)
    if decimal:
        precision, scale = int(decimal[1]), int(decimal[2] or 0)
        if not (1 <= precision <= 38 and scale <= precision):
            raise ValueError(f"type {name!r}: a decimal needs a precision of 1 to 38 and a scale of 0 to the precision")
        return f"decimal({precision},{scale})"
    if compact in _SIMPLE_TYPES:
        return compact
    raise ValueError(f"type {name!r} is not a Spark SQL type; allowed: {', '.join(sorted(_SIMPLE_TYPES))}, "
                     "decimal(p,s), varchar(n), char(n), string collate c, interval year to month, "
                     "interval day to second, array<…>, map<…>, struct<…>")


def is_key_type(name: str) -> bool:
    """Whether a column of this type may be part of a bucket key (Spark hashes it without a collation)."""
    return canonical_type(name).partition("(")[0] in _KEY_TYPES
