"""The base class of every type in the model."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Frozen(BaseModel):
    """An immutable value: snake_case in Python, camelCase in Kubernetes objects and JSON files.

    Unknown fields are refused so that a misspelt field is an error and not silence.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    def to_json_dict(self) -> dict[str, object]:
        """This value as it stands in a Kubernetes object or a JSON file (camelCase keys)."""
        return self.model_dump(mode="json", by_alias=True)


class Observed(Frozen):
    """A value read from another version of ourselves (status, agent reports): unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")
