"""Errors of requests to an agent: one class per outcome that callers treat differently."""

import json
from typing import ClassVar

from colocation.model.agent import STALE_ORDER, STALE_TERM, UNKNOWN_QUESTION


class AgentError(Exception):
    """An agent refused or failed a request.

    Attributes:
        status: the HTTP status; 0 without an answer.
        reason: one word for the cause, as the agent gave it (``error`` of its JSON).
        message: what was given, what is allowed, what to do.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}" if self.status == 0 else f"{self.status} {self.reason}: {self.message}"

    @property
    def may_pass(self) -> bool:
        """Whether another attempt, here or at the agent's next address, may succeed."""
        return self.status in RETRIABLE_STATUSES


class BadRequest(AgentError):
    """400: a name or path is not allowed, or the body is not understood."""


class Unauthorized(AgentError):
    """401: no token, or one that the API server does not accept for this audience."""


class Forbidden(AgentError):
    """403: the token's owner may not do this."""


class NotFound(AgentError):
    """404: the agent does not hold this file or manifest."""


class Conflict(AgentError):
    """409: other content is already published under this path, or one of the subclasses."""


class StaleOrder(Conflict):
    """409: a part of a deletion's proof does not hold at the agent; nothing was deleted. The message names the part."""


class UnknownQuestion(Conflict):
    """409: the agent does not remember the question that this one is based on; ask in full."""


class StaleTerm(Conflict):
    """409: the agent has heard of an operator with a newer term.

    Attributes:
        term: that newer term; 0 when the agent did not give it.
    """

    def __init__(self, status: int, reason: str, message: str, term: int = 0) -> None:
        super().__init__(status, reason, message)
        self.term = term


class RangeNotSatisfiable(AgentError):
    """416: the range begins at or after the file's end."""


class DigestMismatch(AgentError):
    """422: the received content does not have the announced digest; ``status`` 0: this side received it."""


class InsufficientStorage(AgentError):
    """507: the node's disk has no room, or would fall below its headroom."""


class Unreachable(AgentError):
    """No complete answer: not connected, timed out, cut off, or TLS refused. ``status`` is 0."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)


_BY_REASON: dict[str, type[AgentError]] = {
    STALE_ORDER: StaleOrder,
    UNKNOWN_QUESTION: UnknownQuestion,
}

_BY_STATUS: dict[int, type[AgentError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    416: RangeNotSatisfiable,
    422: DigestMismatch,
    507: InsufficientStorage,
}

NO_ANSWER = 0
WRONG_NODE = 421

RETRIABLE_STATUSES: frozenset[int] = frozenset({NO_ANSWER, WRONG_NODE, 429, 502, 503, 504})
"""Statuses that another attempt may change: the agent starts or stops, cannot ask the API server, or has another
address by now.
"""


class _Body:
    """The fields of an agent's error body."""

    REASON: ClassVar[str] = "error"
    MESSAGE: ClassVar[str] = "message"
    TERM: ClassVar[str] = "term"


def error_of_response(status: int, body: bytes) -> AgentError:
    """The error for an answer with this status; a body that is not an agent's JSON is quoted."""
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        content = {_Body.MESSAGE: body[:200].decode(errors="replace")}
    reason = str(content.get(_Body.REASON, f"Http{status}"))
    message = str(content.get(_Body.MESSAGE, "the agent gave no message"))
    if status == 409 and reason == STALE_TERM:
        term = content.get(_Body.TERM)
        return StaleTerm(status, reason, message, term if isinstance(term, int) else 0)
    error_class = _BY_REASON.get(reason) if status == 409 else None
    error_class = error_class or _BY_STATUS.get(status, AgentError)
    return error_class(status, reason, message)
