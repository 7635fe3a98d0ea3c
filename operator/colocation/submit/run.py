"""Creates an application, waits for its end, and reads its driver's log and result."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubernetes.client.exceptions import ApiException
from pydantic import Field
from urllib3.exceptions import HTTPError

from ..model.base import Frozen
from ..model.driver_output import WriteProgress, find_progress, without_progress
from ..model.wording import in_words
from .clients import Applications
from .driver_error import find_error
from .status import ApplicationStatus, Obstacle, obstacle, refused_executors

POLL_SECONDS = 1.0
FAILED_READS_ALLOWED = 30
"""This many reads in a row may fail for a passing reason (a restarting API server or kubelet)."""
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
        except Exception as error:  # noqa: BLE001 - a user who sees an error repeats a write that succeeded
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
        return " ".join(in_words(error).split())
    return f"the cluster answered {error.status}: {status_message(error) or error.reason or 'no reason given'}"


def status_message(error: ApiException) -> str:
    """The message of the Status with which the API server refused a request; may be empty."""
    try:
        status = json.loads(error.body or "")
    except ValueError:
        return ""
    return str(status.get("message", "")) if isinstance(status, dict) else ""


RESULT_MARK = "COLOCATION_RESULT "
LOG_TAIL_LINES = 40
PROGRESS_LOG_LINES = 300
"""The end of a running driver's log in which its progress is looked for, once per poll."""
UNANSWERED_SECONDS = 300
"""For this long polls may fail for a passing reason (an API server that is away) before the wait gives up."""
DELETION_POLLS = 60
STUCK_SECONDS = 60
"""For this long something lasting, such as a missing Secret, may keep an application from running."""
NO_ROOM_SECONDS = 600
"""For this long it may wait for room on the nodes or in a quota, unless the caller sets a timeout."""
HTTP_CONFLICT = 409


class RunError(RuntimeError):
    """An application that cannot be created, or whose end cannot be awaited; the message has what to do."""


class StillRunning(RunError):
    """The application has not ended in the time that was allowed for it."""


class Stuck(RunError):
    """The application does not run, and waiting will not help. It still exists; the message has what it waits for."""


class Progress(Frozen):
    """An application on its way. ``state`` as its operator calls it, empty until the operator has seen the application.

    ``error``: what went wrong with an attempt, while its operator may try again. ``driver_pod``: None while there is
    none. ``write``: of a load or compaction, once its driver reports. ``end``: None until the application has ended.
    """

    name: str
    runner: str
    state: str
    error: str = ""
    executors_running: int = 0
    executors_wanted: int | None = None
    elapsed_seconds: float = 0.0
    driver_pod: str | None = None
    write: WriteProgress | None = None
    end: ApplicationStatus | None = None


class Outcome(Frozen):
    """How an application ended. ``result`` is what the driver printed after ``COLOCATION_RESULT``, if it did."""

    what: str = Field(description="The kind of object, for people.")
    reference: str = Field(description="The object for kubectl.")
    namespace: str
    name: str
    succeeded: bool
    state: str
    error: str = Field("", description="What the Spark operator reports about the failure.")
    driver_error: str = Field("", description="The driver's last exception, one line.")
    result: dict[str, Any] | None = None
    log_problem: str = Field("", description="Why the driver's log, or the result in it, could not be read.")
    log_tail: tuple[str, ...] = Field((), description="The end of a failed driver's log that names no exception.")
    driver_pod: str | None = None


def create(applications: Applications, application: Mapping[str, Any], *, replace: bool, sleep: Sleep) -> str:
    """Create the application and return its name. ``replace`` deletes a finished one of the same name first.

    Raises:
        RunError: one of the same name exists (and is running, or ``replace`` was not asked), or the operator that
            runs such applications is not installed.
    """
    body = dict(application)
    namespace, name = body["metadata"]["namespace"], body["metadata"].get("name")
    what = applications.what
    try:
        return applications.create(body)
    except ApiException as error:
        if error.status == HTTP_NOT_FOUND:
            raise RunError(
                f"the cluster answers 404: the application needs namespace {namespace!r} and {applications.needs}"
            ) from error
        if error.status != HTTP_CONFLICT or name is None:
            raise
    existing = applications.look(namespace, name)
    if not existing.ended:
        raise RunError(
            f"{what} {name!r} exists in {namespace!r} and is {existing.state or 'NEW'}: wait for its end "
            f"(kubectl get {applications.reference(name)} -n {namespace} --watch), end it (kubectl delete "
            f"{applications.reference(name)} -n {namespace}), or give this one another name"
        )
    if not replace:
        raise RunError(
            f"{what} {name!r} exists in {namespace!r} and has ended ({existing.state}): --replace deletes it and "
            "submits again, or give this one another name"
        )
    applications.delete(namespace, name)
    _await_deletion(applications, namespace, name, sleep)
    return applications.create(body)


def _await_deletion(applications: Applications, namespace: str, name: str, sleep: Sleep) -> None:
    for _ in range(DELETION_POLLS):
        try:
            applications.look(namespace, name)
        except ApiException as error:
            if error.status == HTTP_NOT_FOUND:
                return
            raise
        sleep(POLL_SECONDS)
    raise RunError(
        f"{applications.what} {name!r} in {namespace!r} is still being deleted after "
        f"{DELETION_POLLS * POLL_SECONDS:g} s: look at its finalizers"
    )


def watch(
    applications: Applications, namespace: str, name: str, *, timeout_seconds: float | None, clock: Callable[[], float],
    sleep: Sleep, tells_progress: bool = False,
) -> Iterator[Progress]:
    """The application's progress, once per poll, until it has ended; the last one is the end.

    ``tells_progress``: its driver prints how far its write is.

    Raises:
        RunError: the timeout passed, the application was deleted or cannot run, or the cluster does not answer.
    """
    start = answered_at = clock()
    stuck_since: float | None = None
    write: WriteProgress | None = None
    while True:
        elapsed = clock() - start
        try:
            status = _look(applications, namespace, name)
            answered_at = clock()
            if tells_progress and status.executors_running and not status.ended:
                write = find_progress(_end_of_log(applications, namespace, status.driver_pod)) or write
            is_stuck = status.obstacle is not None and not status.obstacle.is_queued
            stuck_since = (answered_at if stuck_since is None else stuck_since) if is_stuck else None
            yield progress_of(name, applications.runner, status, elapsed).model_copy(update={"write": write})
            if status.ended:
                return
        except (ApiException, HTTPError) as error:
            if not is_passing(error) or clock() - answered_at > UNANSWERED_SECONDS:
                raise _lost(error, applications, namespace, name) from error
        else:
            _check_obstacle(applications, name, status.obstacle, clock() - (stuck_since or 0), timeout_seconds)
        if timeout_seconds is not None and elapsed > timeout_seconds:
            raise StillRunning(
                f"{applications.what} {name!r} has not ended after {timeout_seconds:g} s; it goes on. Watch it: "
                f"kubectl get {applications.reference(name)} -n {namespace} --watch"
            )
        sleep(POLL_SECONDS)


def _look(applications: Applications, namespace: str, name: str) -> ApplicationStatus:
    """The application as it is now; of a driver that waits for executors, also whether they are refused."""
    status = applications.look(namespace, name)
    if status.ended or status.has_executors or status.obstacle:
        return status
    refusal = refused_executors(_end_of_log(applications, namespace, status.driver_pod))
    return status.with_obstacle(obstacle(refusal, namespace) if refusal else None)


def _end_of_log(applications: Applications, namespace: str, pod: str | None) -> str:
    try:
        return applications.driver_log(namespace, pod, PROGRESS_LOG_LINES) if pod else ""
    except (ApiException, HTTPError):
        return ""  # the log is not there yet, or one may not read it; the wait goes on without


def _check_obstacle(
    applications: Applications, name: str, found: Obstacle | None, seconds: float, timeout_seconds: float | None
) -> None:
    """Raise Stuck when an obstacle has been there for longer than it may; of room, the caller's timeout decides.

    A queue may hold an application back without a limit.
    """
    if found is None or found.is_partial or found.is_queued:
        return
    limit = STUCK_SECONDS if found.is_lasting else NO_ROOM_SECONDS
    if seconds > limit and (found.is_lasting or timeout_seconds is None):
        advice = f"; {found.advice}" if found.advice else ""
        raise Stuck(f"{applications.what} {name!r} does not run since {seconds:.0f} s: {found.message}{advice}")


def _lost(error: Exception, applications: Applications, namespace: str, name: str) -> RunError:
    what = applications.what
    if isinstance(error, ApiException) and error.status == HTTP_NOT_FOUND:
        return RunError(f"{what} {name!r} in {namespace!r} was deleted while it ran")
    return RunError(
        f"the cluster does not say how {what} {name!r} in {namespace!r} goes on: {said_by(error)}; it may run on, and "
        f"commit what it writes: look before you repeat it (kubectl get {applications.reference(name)} -n {namespace})"
    )


def outcome(
    applications: Applications, namespace: str, name: str, status: ApplicationStatus, *, sleep: Sleep
) -> Outcome:
    """How an application ended, with its driver's result, or when it failed, with the error in its log.

    A log that cannot be read does not make a success a failure: a user who repeats the application repeats its writes.

    Args:
        status: the last one that ``watch`` saw.
        sleep: lets seconds pass between attempts to read the log.
    """
    log = read_patiently(applications, namespace, status.driver_pod, sleep)
    problem, result = log.problem, None
    try:
        result = find_result(log.text)
    except RunError as error:
        problem = str(error)
    succeeded = status.phase == "succeeded"
    driver_error = "" if succeeded else find_error(log.text)
    lines = [] if succeeded or driver_error else without_progress(log.text.splitlines())
    return Outcome(
        what=applications.what,
        reference=applications.reference(name),
        namespace=namespace,
        name=name,
        succeeded=succeeded,
        state=status.state,
        error=status.error,
        driver_error=driver_error,
        result=result,
        log_problem=problem,
        log_tail=tuple(lines[-LOG_TAIL_LINES:]),
        driver_pod=status.driver_pod,
    )


def progress_of(name: str, runner: str, status: ApplicationStatus, elapsed_seconds: float) -> Progress:
    """An application's progress as its status tells it."""
    return Progress(
        name=name,
        runner=runner,
        state=status.state,
        error="" if status.ended else status.error,
        executors_running=status.executors_running,
        executors_wanted=status.executors_wanted,
        elapsed_seconds=elapsed_seconds,
        driver_pod=status.driver_pod,
        end=status if status.ended else None,
    )


def find_result(log: str) -> dict[str, Any] | None:
    """The last result line of a driver's log, or None.

    Raises:
        RunError: the line is no JSON object.
    """
    lines = [line for line in log.splitlines() if RESULT_MARK in line]
    if not lines:
        return None
    text = lines[-1].split(RESULT_MARK, 1)[1]
    try:
        result = json.loads(text)
    except ValueError as error:
        raise RunError(f"the driver's result is not JSON: {text[:200]!r}") from error
    if not isinstance(result, dict):
        raise RunError(f"the driver's result is not a JSON object: {text[:200]!r}")
    return result
