"""Error messages and exit codes of commands: 1 failed, 2 wrong usage (0 done)."""

import errno
import re

import click
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from pydantic import ValidationError
from urllib3.exceptions import HTTPError, SSLError

from ..model.wording import first_few
from ..submit.manifest import ManifestError
from ..submit.run import RunError, is_passing, status_message
from .terminal.output import tell

FAILED, WRONG_USAGE = 1, 2
MAX_PROBLEMS = 20
_ERROR_NUMBER = re.compile(r"\[Errno -?\d+\] ")
_LACKS_RIGHT = re.compile(r'User "[^"]*" cannot ')
"""In RBAC's refusals; admission refuses with the same status."""
HTTP_UNAUTHORIZED, HTTP_FORBIDDEN, HTTP_NOT_FOUND, HTTP_CONFLICT = 401, 403, 404, 409


class CommandFailed(click.ClickException):
    """The command could not do what was asked; the message has the reason and what to do."""

    exit_code = FAILED

    def show(self, file: object = None) -> None:
        tell(f"error: {self.message}", err=True)


class WrongUsage(CommandFailed):
    """What was given cannot be used: an unreadable file, a manifest that contradicts itself."""

    exit_code = WRONG_USAGE


def may_pass(error: Exception) -> bool:
    """Whether what kept a command from looking at the cluster may go away by itself, as when something restarts there.

    A missing right does not pass.
    """
    if not isinstance(error, CommandFailed):
        return is_passing(error)
    cause = error.__cause__
    return is_passing(cause) if isinstance(cause, ApiException) else not getattr(cause, "forbidden", False)


def is_forbidden(error: Exception) -> bool:
    """Whether a right is missing."""
    cause = error.__cause__ if isinstance(error, CommandFailed) else error
    return getattr(cause, "status", None) == HTTP_FORBIDDEN or bool(getattr(cause, "forbidden", False))


def failure_of(error: Exception) -> CommandFailed | None:
    """The message for an error of the layers below; None for an error that has none."""
    match error:
        case ManifestError():
            return WrongUsage(str(error))
        case ValidationError():
            return CommandFailed(validation_message(error, "an object of the cluster (of another version?)"))
        case RunError():
            return CommandFailed(str(error))
        case ApiException():
            return CommandFailed(api_message(error))
        case ConfigException():
            return CommandFailed(
                f"no cluster is configured ({error}): set KUBECONFIG, or --context to a context of your kubeconfig"
            )
        case OSError() if error.errno not in (None, errno.EPIPE):  # click ends quietly on a closed pipe
            where = f"{error.filename}: " if error.filename else ""
            return CommandFailed(f"{where}{error.strerror}")
        case HTTPError():
            return CommandFailed(f"the cluster cannot be reached: {connection_message(error)}")
    return None


def said_by(error: Exception) -> str:
    """A failure in one line, for a command that goes on: its own, or of the layers below."""
    known = error if isinstance(error, CommandFailed) else failure_of(error)
    return known.message if known else str(error)


def connection_message(error: Exception) -> str:
    """Which API server did not answer, why, and what to check."""
    pool, cause = getattr(error, "pool", None), getattr(error, "reason", None) or error
    host = getattr(pool, "host", None)
    server = f"https://{host}:{pool.port}" if pool is not None and host else "the API server"
    advice = "check the network"
    if isinstance(cause, SSLError):
        cause, advice = cause.args[0] if cause.args else cause, "check its certificate-authority-data in the kubeconfig"
    why = _ERROR_NUMBER.sub("", str(cause).rpartition(": ")[2]) or type(cause).__name__
    return f"{server}: {why}; {advice}, or choose another cluster (KUBECONFIG, --context)"


def api_message(error: ApiException) -> str:
    """What the API server said, in a line, and what to do about it."""
    said = status_message(error) or error.reason or str(error)
    if error.status == HTTP_UNAUTHORIZED:
        return (
            f"the cluster does not accept your credentials: {said}; they may have expired: log in again, choose "
            "another --context, or ask the cluster's administrator for access"
        )
    if error.status == HTTP_FORBIDDEN and not _LACKS_RIGHT.search(said):
        return f"the cluster refuses it: {said}"  # a quota, a policy, or a webhook
    if error.status == HTTP_FORBIDDEN:
        advice = "`colocation doctor -n NAMESPACE` lists rights that you lack, and their roles"
        return f"you may not do this: {said}; {advice}"
    return f"the cluster answered {error.status}: {said}"


def validation_message(error: ValidationError, what: str) -> str:
    """Every wrong field of a document by its path, with what it holds: ``groups[0].spec.buckets: … (given 0)``."""
    problems = [f"{field_path(item['loc'])}: {item['msg']} (given {item['input']!r:.80})" for item in error.errors()]
    return f"{what} is not valid:\n  " + "\n  ".join(first_few(problems, MAX_PROBLEMS))


def field_path(location: tuple[int | str, ...]) -> str:
    """``groups[0].spec.buckets``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".") or "the document"
