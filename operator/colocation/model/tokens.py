"""What a ServiceAccount token says of itself. Nobody has checked it: it is good for refusing, never for trust.

A token is a JWT (RFC 7519): three parts in base64url, of which the second one holds the claims as JSON.
"""

import base64
import json
import math
from typing import NamedTuple

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
