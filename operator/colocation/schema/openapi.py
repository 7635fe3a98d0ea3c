"""Kubernetes' structural schemas from pydantic's JSON schemas.

A CRD may hold no ``$ref``, no ``anyOf`` of types, no ``const``, no ``exclusiveMinimum`` number, and the cost of its CEL
rules is estimated from the largest sizes that it states; hence one translation for every type of the model.
"""

from typing import Any

from pydantic import BaseModel

JsonObject = dict[str, Any]

_INTEGER_FORMAT = "int64"
_COPIED = (
    *("description", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
    *("enum", "pattern", "format"),
)


def structural_schema(model: type[BaseModel]) -> JsonObject:
    """The model's structural schema, with the names that stand in Kubernetes objects (camelCase)."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _flatten(schema, schema.get("$defs", {}))


def _flatten(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    if "$ref" in schema:
        referenced = definitions[schema["$ref"].rsplit("/", 1)[-1]]
        schema = {**referenced, **{key: value for key, value in schema.items() if key != "$ref"}}
    if "anyOf" in schema:
        return _nullable(schema, definitions)
    result = {key: schema[key] for key in _COPIED if key in schema}
    if "description" in result:
        result["description"] = result["description"].replace("``", "")  # kubectl explain shows plain text
    if "const" in schema:
        result["enum"] = [schema["const"]]
    if "default" in schema:
        result["default"] = schema["default"]
    _copy_exclusive_bound(schema, result)
    result["type"] = schema["type"]
    if schema["type"] == "object":
        _flatten_object(schema, definitions, result)
    elif schema["type"] == "array":
        result["items"] = _flatten(schema["items"], definitions)
    elif schema["type"] == "integer":
        result["format"] = _INTEGER_FORMAT
    return result


def _nullable(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """pydantic's ``X | None``; a null default is left out: absent and null mean the same."""
    variants = [variant for variant in schema["anyOf"] if variant.get("type") != "null"]
    if len(variants) != 1:
        raise ValueError(f"a structural schema allows one type or null, not {schema['anyOf']}")
    outer = {key: value for key, value in schema.items() if key != "anyOf" and not (key == "default" and value is None)}
    return {**_flatten({**variants[0], **outer}, definitions), "nullable": True}


def _copy_exclusive_bound(schema: JsonObject, result: JsonObject) -> None:
    """OpenAPI 3.0 spells an exclusive bound as a bound and a boolean."""
    if "exclusiveMinimum" in schema:
        result["minimum"] = schema["exclusiveMinimum"]
        result["exclusiveMinimum"] = True


def _flatten_object(schema: JsonObject, definitions: JsonObject, result: JsonObject) -> None:
    if "properties" in schema:
        result["properties"] = {name: _flatten(part, definitions) for name, part in schema["properties"].items()}
    elif isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = _flatten(schema["additionalProperties"], definitions)
    if schema.get("required"):
        result["required"] = sorted(schema["required"])


def without_defaults(schema: JsonObject) -> JsonObject:
    """A status has none: what the operator has not said yet stays unsaid."""
    return {
        key: without_defaults(value) if isinstance(value, dict) else value
        for key, value in schema.items()
        if key != "default"
    }
