"""A status of which parts cannot be understood -> all that can be, and a message about the rest.

A status is written by several hands: a bad word of one must not hide what the others wrote.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from .base import Observed, problems_of, shown
from .table import ColocatedTableStatus

Status = TypeVar("Status", bound=Observed)

LISTS_OF_SEPARATE_ITEMS = frozenset(
    ("history", "commits", "conditions", "members", "recycled", "unstableBuckets", "failingTargets")
)
"""An item of these can be left out; of other lists every item has its place."""
FIELDS_OF_LOADERS: Mapping[type[Observed], frozenset[str]] = {
    ColocatedTableStatus: frozenset(("snapshot", "history", "commits"))
}
"""The operator writes the other fields again in every pass, so bad values in them are no fault of the object."""
MAX_MESSAGE_CHARACTERS = 1000


def salvage(kind: type[Status], given: object) -> tuple[Status, str]:
    """The status, and what is wrong with the fields that are left out of it ("" = nothing that lasts)."""
    if given is None:
        return kind(), ""
    try:
        return kind.model_validate(given), ""
    except ValidationError as error:
        if not isinstance(given, dict):
            return kind(), f"status is {shown(given)}; allowed: an object"
        message = problems_of(error, "status", FIELDS_OF_LOADERS.get(kind))[:MAX_MESSAGE_CHARACTERS]
    return kind.model_validate(_valid_fields(kind, given)), message


def _valid_fields(kind: type[Observed], given: dict[str, Any]) -> dict[str, Any]:
    """The fields that are valid by themselves. No validator of a status looks at two fields."""
    kept: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        alias = field.alias or name
        value = given.get(alias)
        if alias in LISTS_OF_SEPARATE_ITEMS and isinstance(value, list):
            value = _valid_items(kind, alias, value)
        if alias in given and _is_valid(kind, alias, value):
            kept[alias] = value
    return kept


def _valid_items(kind: type[Observed], alias: str, items: list[Any]) -> list[Any]:
    """The valid ones, as many as the field may hold, the first ones first."""
    valid = [item for item in items if _is_valid(kind, alias, [item])]
    field = next(field for name, field in kind.model_fields.items() if (field.alias or name) == alias)
    largest = next((one.max_length for one in field.metadata if hasattr(one, "max_length")), None)
    return valid[:largest]


def _is_valid(kind: type[Observed], alias: str, value: object) -> bool:
    try:
        kind.model_validate({alias: value})
    except ValidationError:
        return False
    return True
