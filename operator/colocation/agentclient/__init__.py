"""The one HTTPS client of the node agents: synchronous, pooled, safe to share between threads."""

from .client import AgentClient, FileStream, check_digest
from .errors import (
    AgentError,
    BadRequest,
    Conflict,
    DigestMismatch,
    Forbidden,
    InsufficientStorage,
    NotFound,
    RangeNotSatisfiable,
    StaleOrder,
    StaleTerm,
    Unauthorized,
    UnknownQuestion,
    Unreachable,
    error_of_response,
)
from .transport import CallerCredentials, Credentials, Timeouts

__all__ = [
    "AgentClient",
    "AgentError",
    "BadRequest",
    "CallerCredentials",
    "Conflict",
    "Credentials",
    "DigestMismatch",
    "FileStream",
    "Forbidden",
    "InsufficientStorage",
    "NotFound",
    "RangeNotSatisfiable",
    "StaleOrder",
    "StaleTerm",
    "Timeouts",
    "Unauthorized",
    "UnknownQuestion",
    "Unreachable",
    "check_digest",
    "error_of_response",
]
