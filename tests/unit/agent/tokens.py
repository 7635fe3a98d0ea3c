"""Tokens that look like a ServiceAccount's: three parts, with an invalid signature."""

import base64
import json


def part(content: object) -> str:
    """A part of a JWT."""
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def token(audience: object = "colocation.dev", expires_at: object = 2e9, **claims: object) -> str:
    """A token with these claims."""
    content = {"aud": audience, "exp": expires_at, **claims}
    return f"{part({'alg': 'RS256'})}.{part(content)}.c2lnbmF0dXJl"
