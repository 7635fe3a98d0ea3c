"""Requests that are not served, and the answers that say so."""

from collections.abc import Mapping

from ..kube.api import ApiError


class Refusal(Exception):
    """A request that is not served. ``reason`` is one word, ``message`` names what is allowed and what to do."""

    def __init__(self, status: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.headers = headers or {}


def refusal_of(error: ApiError) -> Refusal:
    """The answer when the API server did not do its part; its own error is in the operator's log."""
    code = error.status or "no answer"
    return Refusal(503, "ApiServerUnavailable", f"the Kubernetes API server did not do its part ({code}); try again")
