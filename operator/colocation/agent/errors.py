"""From causes to HTTP answers: one table, so that a cause has one status and one word everywhere."""

from aiohttp import web

from colocation.common.review_bounds import TooManyReviews
from colocation.model.agent import STALE_ORDER, STALE_TERM, UNKNOWN_QUESTION
from colocation.model.conditions import Reason
from colocation.storage import errors as storage
from colocation.storage.hashing import FileChanged

from .authorizer import AuthenticationUnavailable
from .conversation import StaleOrder, StaleTerm
from .question import UnknownQuestion


class Refusal(Exception):
    """A request that is not served. ``reason`` is one word, ``message`` says what is allowed and what to do.

    ``fields`` stand beside them in the body.
    """

    def __init__(self, status: int, reason: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.headers = headers or {}
        self.fields: dict[str, int] = {}


_STATUS_AND_REASON: dict[type[Exception], tuple[int, str]] = {
    storage.InvalidPath: (400, "InvalidPath"),
    storage.NotHeld: (404, "NotFound"),
    storage.FileCorrupt: (404, Reason.REPLICA_CORRUPT.value),
    storage.ManifestMissing: (404, "ManifestMissing"),
    storage.ContentConflict: (409, "ContentConflict"),
    storage.DigestDiffers: (422, "DigestDiffers"),
    storage.NoRoom: (507, Reason.INSUFFICIENT_SPACE.value),
    StaleTerm: (409, STALE_TERM),
    StaleOrder: (409, STALE_ORDER),
    UnknownQuestion: (409, UNKNOWN_QUESTION),
    FileChanged: (503, "FileChanged"),
    AuthenticationUnavailable: (503, "AuthenticationUnavailable"),
    TooManyReviews: (429, "TooManyReviews"),
}

REVIEWS_RETRY_AFTER_SECONDS = 2

EXPECTED_ERRORS = tuple(_STATUS_AND_REASON)


def refusal_of(error: Exception) -> Refusal:
    """The refusal for one of ``EXPECTED_ERRORS``."""
    status, reason = _STATUS_AND_REASON[type(error)]
    refusal = Refusal(status, reason, str(error))
    if isinstance(error, StaleTerm):
        refusal.fields["term"] = error.term
    if isinstance(error, TooManyReviews | AuthenticationUnavailable):
        refusal.headers["Retry-After"] = str(REVIEWS_RETRY_AFTER_SECONDS)
    return refusal


def error_response(refusal: Refusal) -> web.Response:
    """The JSON answer for a refusal."""
    body = {"error": refusal.reason, "message": refusal.message, **refusal.fields}
    return web.json_response(body, status=refusal.status, headers=refusal.headers)
