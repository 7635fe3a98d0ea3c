"""The base class of every type in the model, and what the types need that there are hundreds of thousands of."""

import sys
from functools import lru_cache
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

COMPACT = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)
"""Of ``pydantic.dataclasses``: the wire form of ``Observed``, for types of which a large cluster has hundreds of
thousands at a time. With slots they take a quarter of a model's memory.
"""

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

    Unknown fields are refused so that a misspelt field is an error and not silence.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    def model_post_init(self, context: Any, /) -> None:
        """Forget which fields were given and which are defaults: nobody asks, and it is a third of a value's memory."""
        object.__setattr__(self, "__pydantic_fields_set__", _NO_FIELDS)

    def to_json_dict(self) -> dict[str, object]:
        """This value as it stands in a Kubernetes object or a JSON file (camelCase keys)."""
        return self.model_dump(mode="json", by_alias=True)


class Observed(Frozen):
    """A value read from another version of ourselves (status, agent reports): unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")
