"""The AdmissionReview of ``admission.k8s.io/v1``: the question parsed, the answer rendered. Pure."""

import base64
import json
from typing import Any, Literal

from pydantic import Field, field_validator
from pydantic_core import from_json

from ..model.base import Frozen, Observed

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
HTTP_UNPROCESSABLE = 422
MAX_VALUES = 300_000
"""Parsed, four bytes may take 100 of memory, and no other thread runs meanwhile. A group with the largest map that its
status holds, as it is and as it will be, has some 210,000 values."""
MAX_NAME = 253

JsonObject = dict[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class Resource(Observed):
    """Of which kind the object is."""

    group: str = Field("", max_length=MAX_NAME)
    version: str = Field("", max_length=MAX_NAME)
    resource: str = Field("", max_length=MAX_NAME)


class Review(Observed):
    """One question. ``object`` is empty on deletion, ``old_object`` on creation."""

    uid: str = Field(max_length=MAX_NAME)
    operation: Operation
    resource: Resource
    namespace: str = Field("", max_length=MAX_NAME)
    name: str = Field("", max_length=MAX_NAME)
    object: JsonObject | None = None
    old_object: JsonObject | None = None

    @field_validator("object", "old_object")
    @classmethod
    def _has_metadata(cls, value: JsonObject | None) -> JsonObject | None:
        """Of the shape that the API server itself holds all objects to."""
        metadata = (value or {}).get("metadata") or {}
        if not isinstance(metadata, dict):
            raise ValueError(f"metadata is {metadata!r:.80}; allowed: a mapping")
        for name in ("labels", "annotations"):
            if not isinstance(metadata.get(name) or {}, dict):
                raise ValueError(f"metadata.{name} is {metadata[name]!r:.80}; allowed: a mapping")
        return value

    @property
    def changes_spec(self) -> bool:
        """Whether the object is new, or its spec is another than it was."""
        before, after = self.old_object or {}, self.object or {}
        return self.operation == "CREATE" or before.get("spec") != after.get("spec")


class Verdict(Frozen):
    """One answer. ``patch``: JSON Patch operations; ``reason`` and ``message``: why it is not allowed."""

    allowed: bool = True
    reason: str = ""
    message: str = ""
    patch: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = Field((), description="Shown to the user, who goes on.")

    @classmethod
    def denied(cls, reason: str, message: str) -> "Verdict":
        """The object is refused, in the operator's words."""
        return cls(allowed=False, reason=reason, message=message)


def parse_body(body: bytes) -> Review:
    """The question in a request's body.

    Raises:
        ValueError: it is no JSON (too deep or no Unicode, too), has too many values, or is no AdmissionReview of v1.
    """
    values = sum(body.count(mark) for mark in (b"[", b"{", b","))
    if values > MAX_VALUES:
        raise ValueError(f"the body has up to {values:,} values; allowed: {MAX_VALUES:,}; make the object smaller")
    return parse_review(from_json(body, allow_inf_nan=False))


def parse_review(body: object) -> Review:
    """The question in a request's body, parsed.

    Raises:
        ValueError: it is no AdmissionReview of v1.
    """
    found = (body.get("apiVersion"), body.get("kind")) if isinstance(body, dict) else None
    if not isinstance(body, dict) or found != (API_VERSION, KIND):
        raise ValueError(f"the body is {found or type(body).__name__}; allowed: {KIND}, {API_VERSION}")
    return Review.model_validate(body.get("request") or {})


def render_verdict(review: Review, verdict: Verdict) -> JsonObject:
    """The answer as a response's body."""
    response: JsonObject = {"uid": review.uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = {
            "status": "Failure", "code": HTTP_UNPROCESSABLE, "reason": verdict.reason, "message": verdict.message,
        }  # fmt: skip
    if verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(verdict.patch).encode()).decode()
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}
