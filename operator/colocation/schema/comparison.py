"""What the cluster's CRDs lack of this release's: fields that the API server drops without a word."""

from collections.abc import Iterator, Mapping
from typing import Any

JsonObject = Mapping[str, Any]


def missing_fields(wanted: JsonObject, found: JsonObject) -> tuple[str, ...]:
    """``spec.x``, ``status.y.z``, ...: fields of the one CRD that the other does not have; the topmost of each branch.

    Raises:
        KeyError, TypeError, IndexError: one of them is no CRD.
    """
    return tuple(sorted(_missing(_schema(wanted), _schema(found), "")))


def _schema(definition: JsonObject) -> JsonObject:
    schema: JsonObject = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _missing(wanted: JsonObject, found: JsonObject, path: str) -> Iterator[str]:
    if found.get("x-kubernetes-preserve-unknown-fields"):
        return
    known = found.get("properties") or {}
    for name, field in (wanted.get("properties") or {}).items():
        if name in known:
            yield from _missing(field, known[name], f"{path}{name}.")
        else:
            yield f"{path}{name}"
    for below in ("items", "additionalProperties"):
        one, other = wanted.get(below), found.get(below)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _missing(one, other, path)
