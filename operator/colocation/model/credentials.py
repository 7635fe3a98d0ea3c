"""The claims of a ServiceAccount token, and the shape of an agent's certificate.

A token is a JWT (RFC 7519): three parts in base64url, of which the second holds the claims as JSON. Nothing here checks
its signature: the claims are good for refusing a request, never for trusting one. Agents ask for exactly this
certificate, and the operator approves nothing else.
"""

import base64
import json
import math
from collections.abc import Sequence
from typing import NamedTuple

from .names import AGENT_TLS_SERVER_NAME, agent_certificate_name

MAX_TOKEN_CHARACTERS = 1 << 14


class Claims(NamedTuple):
    """``aud``, ``iat`` and ``exp``; moments in seconds since 1970, as the issuer's clock goes."""

    audiences: frozenset[str]
    issued_at: float | None
    expires_at: float


def claims_of(token: str) -> Claims | None:
    """The claims; None when the text is no JWT with an audience and an end."""
    parts = token.split(".")
    if len(token) > MAX_TOKEN_CHARACTERS or len(parts) != 3 or not all(parts):
        return None
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        return None
    if not isinstance(claims, dict):
        return None
    audiences, expires_at = _texts(claims.get("aud")), _moment(claims.get("exp"))
    if not audiences or expires_at is None:
        return None
    return Claims(audiences, _moment(claims.get("iat")), expires_at)


def _texts(value: object) -> frozenset[str]:
    values = value if isinstance(value, list) else [value]
    return frozenset(one for one in values if isinstance(one, str))


def _moment(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        moment = float(value)
    except OverflowError:
        return None
    return moment if math.isfinite(moment) else None


ORGANIZATION = "colocation.dev"
"""The whole subject: names are in the subject alternative name only."""
USAGES = ("digital signature", "server auth")
"""``spec.usages`` of the CertificateSigningRequest."""
DAY_SECONDS = 86400
DEFAULT_LIFETIME_SECONDS = 90 * DAY_SECONDS
MIN_LIFETIME_SECONDS = 600
"""The API server takes no shorter ``spec.expirationSeconds``."""
MAX_REQUEST_BYTES = 1 << 14
MAX_CHAIN_BYTES = 1 << 16


def certificate_names(node: str) -> Sequence[str]:
    """DNS names: the node's, on which today's clients insist, and the shared one of those of the release before."""
    return agent_certificate_name(node), AGENT_TLS_SERVER_NAME
