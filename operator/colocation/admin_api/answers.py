"""JSON answers, each on a line of its own, as they are read in terminals too."""

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from .errors import Refusal


def answer(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer with this body."""
    return web.Response(
        text=json.dumps(body) + "\n", status=status, headers=headers, content_type="application/json"
    )


def refused(refusal: Refusal) -> web.Response:
    """The answer for a refusal."""
    body = {"status": "FAILED", "error": refusal.reason, "message": refusal.message}
    return answer(body, refusal.status, refusal.headers)
