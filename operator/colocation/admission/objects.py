"""Objects under review, made whole: a new one lacks what the API server fills in when it stores it."""

from typing import Any

from .review import Review

NOT_STORED = {"uid": "under-review", "resourceVersion": "0", "creationTimestamp": "9999-12-31T00:00:00Z"}
"""Of an object that is new: the youngest of all, so that it never decides over those that are there."""


def as_stored(review: Review, body: dict[str, Any]) -> dict[str, Any]:
    """The object as the parsers of stored objects expect it."""
    given = {key: value for key, value in (body.get("metadata") or {}).items() if value}
    named = {"namespace": review.namespace, "name": review.name or given.get("generateName", "")}
    return {**body, "metadata": {**NOT_STORED, **named, **given}}
