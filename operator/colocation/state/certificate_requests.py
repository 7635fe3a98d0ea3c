"""CertificateSigningRequests as Kubernetes' JSON -> a type. No parser raises: others write these objects, too."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JsonObject = dict[str, Any]

POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"
NODE_NAME = "authentication.kubernetes.io/node-name"


@dataclass(frozen=True)
class CertificateRequest:
    """A CertificateSigningRequest. ``user`` and ``extra`` are the requester's, as the API server authenticated it.

    ``pem``: empty when it is no Base64. ``lifetime_seconds``: as asked for; None = whatever the signer gives.
    ``is_closed``: it was denied, has failed, is deleted, or has its certificate.
    """

    name: str
    uid: str
    resource_version: str
    signer: str
    user: str
    extra: Mapping[str, tuple[str, ...]]
    pem: bytes
    usages: tuple[str, ...]
    lifetime_seconds: int | None
    is_approved: bool
    is_closed: bool


def parse_certificate_request(body: JsonObject) -> CertificateRequest:
    """The request; what is missing or of another type is empty."""
    metadata, spec, status = (_object(body, field) for field in ("metadata", "spec", "status"))
    listed = status.get("conditions")
    objects = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    conditions = {_text(one.get("type")) for one in objects}
    lifetime = spec.get("expirationSeconds")
    return CertificateRequest(
        name=_text(metadata.get("name")),
        uid=_text(metadata.get("uid")),
        resource_version=_text(metadata.get("resourceVersion")),
        signer=_text(spec.get("signerName")),
        user=_text(spec.get("username")),
        extra={key: _texts(values) for key, values in _object(spec, "extra").items()},
        pem=_bytes(spec.get("request")),
        usages=_texts(spec.get("usages")),
        lifetime_seconds=lifetime if isinstance(lifetime, int) else None,
        is_approved="Approved" in conditions,
        is_closed=bool(
            conditions & {"Denied", "Failed"} or status.get("certificate") or metadata.get("deletionTimestamp")
        ),
    )


def _object(body: JsonObject, field: str) -> JsonObject:
    value = body.get(field)
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _bytes(value: object) -> bytes:
    try:
        return base64.b64decode(_text(value), validate=True)
    except (binascii.Error, ValueError):
        return b""
