"""What an ended application's driver printed, read with patience: a log that cannot be read changes no outcome."""

import json
from collections.abc import Callable

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from ..model.base import Frozen
from .applications import Applications

POLL_SECONDS = 1.0
FAILED_READS_ALLOWED = 30
"""So many reads in a row may fail for a passing reason (a restarting API server or kubelet)."""
HTTP_NOT_FOUND, HTTP_TOO_MANY_REQUESTS, HTTP_SERVER_ERROR = 404, 429, 500

Sleep = Callable[[float], None]


class DriverLog(Frozen):
    """The end of a log. ``problem``: why there is none, empty when there is one."""

    text: str = ""
    problem: str = ""


def read_patiently(applications: Applications, namespace: str, pod: str | None, sleep: Sleep) -> DriverLog:
    """The driver's log; passing errors are waited through. Raises nothing: the application has ended all the same.

    ``pod``: the driver's; None where it is not known. ``sleep``: lets seconds pass.
    """
    if not pod:
        return DriverLog(problem="its driver's pod is not known")
    problem = ""
    for _ in range(FAILED_READS_ALLOWED):
        try:
            text = applications.driver_log(namespace, pod)
            return DriverLog(text=text, problem="" if text.strip() else f"the log of its driver {pod} is empty")
        except Exception as error:  # noqa: BLE001 - a write that is reported as failed would be repeated
            problem = f"the log of its driver {pod}: {said_by(error)}"
            if getattr(error, "status", None) == HTTP_NOT_FOUND:
                problem = f"the pod of its driver, {pod}, is gone"
            if not is_passing(error):
                return DriverLog(problem=problem)
        sleep(POLL_SECONDS)
    return DriverLog(problem=problem)


def is_passing(error: Exception) -> bool:
    """Whether an error of the API server, or on the way to it, may go away by itself."""
    if isinstance(error, ApiException):
        return error.status is None or error.status == HTTP_TOO_MANY_REQUESTS or error.status >= HTTP_SERVER_ERROR
    return isinstance(error, HTTPError)


def said_by(error: Exception) -> str:
    """An error in one line: the API server's message, if it has one."""
    if not isinstance(error, ApiException):
        return " ".join(str(error).split()) or type(error).__name__
    return f"the cluster answered {error.status}: {status_message(error) or error.reason or 'no reason given'}"


def status_message(error: ApiException) -> str:
    """The message of the Status with which the API server refused a request; may be empty."""
    try:
        status = json.loads(error.body or "")
    except ValueError:
        return ""
    return str(status.get("message", "")) if isinstance(status, dict) else ""
