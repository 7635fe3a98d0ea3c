"""Spark applications in a cluster: create, read, delete, read the driver's log. Decides nothing."""

from typing import Any, Protocol, cast

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from ..manifests.spark_pods import DRIVER_CONTAINER, SPARK_APPLICATION_LABEL
from .direct import DirectSubmission, driver_job
from .manifest import WITHOUT_OPERATOR, ApplicationKind
from .queue_holds import (
    WORKLOAD_GROUP,
    WORKLOAD_LABEL,
    WORKLOAD_PLURAL,
    WORKLOAD_VERSIONS,
    hold_of,
    is_suspended,
    queue_of,
)
from .status import (
    MOUNT_REASONS,
    ApplicationStatus,
    Obstacle,
    apache_status,
    being_set_up,
    find_obstacle,
    in_short,
    job_status,
    kubeflow_status,
    schedule_status,
    server_status,
)

Json = dict[str, Any]
LOG_LINES_READ = 5000
APACHE_NAME_LABEL = "spark.operator/spark-app-name"
KUBEFLOW_NAME_LABEL = "sparkoperator.k8s.io/app-name"
"""The operators label driver and executors with the application's name."""
HTTP_FORBIDDEN, HTTP_NOT_FOUND = 403, 404


class Applications(Protocol):
    """What running an application needs of a cluster. Errors are the client's ``ApiException``.

    ``what`` is the kind in messages; ``runner`` is who starts the driver; ``needs`` is what has to be there.
    """

    what: str
    runner: str
    needs: str

    def reference(self, name: str) -> str:
        """The application as kubectl takes it, e.g. ``pod report-driver``."""

    def create(self, application: Json) -> str:
        """Create an application; returns its name, also a generated one."""

    def look(self, namespace: str, name: str) -> ApplicationStatus:
        """An application as it is now."""

    def delete(self, namespace: str, name: str) -> None:
        """Delete an application with its pods."""

    def driver_log(self, namespace: str, pod: str, lines: int = LOG_LINES_READ) -> str:
        """The end of what the driver printed, standard output and error together."""


class KubernetesApplications:
    """The applications of one kind that a Spark operator runs."""

    def __init__(self, connection: client.ApiClient, kind: ApplicationKind) -> None:
        self.what, self.runner = kind.kind, kind.operator
        self.needs = f"{kind.operator} ({kind.resource}); {WITHOUT_OPERATOR[kind.flavour]}"
        self._kind = kind
        self._connection = connection
        self._objects = client.CustomObjectsApi(connection)

    def reference(self, name: str) -> str:
        """The application as kubectl takes it."""
        return f"{self._kind.resource} {name}"

    def create(self, application: Json) -> str:
        """Create an application; returns its name, also a generated one."""
        kind, namespace = self._kind, application["metadata"]["namespace"]
        created = cast("Json", self._objects.create_namespaced_custom_object(
            kind.group, kind.version, namespace, kind.plural, application))  # fmt: skip
        return str(created["metadata"]["name"])

    def look(self, namespace: str, name: str) -> ApplicationStatus:
        """An application as it is now."""
        kind = self._kind
        application = cast("Json", self._objects.get_namespaced_custom_object(
            kind.group, kind.version, namespace, kind.plural, name))  # fmt: skip
        if kind.flavour == "scheduled":
            return schedule_status(application)
        if kind.flavour == "connect":
            return server_status(application)
        if kind.flavour == "apache":
            pods = list_pods(self._connection, namespace, f"{APACHE_NAME_LABEL}={name}")
            status = apache_status(application, pods)
        else:
            status, pods = kubeflow_status(application), []
            status = status.with_obstacle(held_back(self._connection, application))
        if status.obstacle or status.ended:
            return status
        pods = pods or list_pods_if_allowed(self._connection, namespace, f"{KUBEFLOW_NAME_LABEL}={name}")
        return status.with_obstacle(find_obstacle(pods, set_up_failure(self._connection, namespace, pods), namespace))

    def delete(self, namespace: str, name: str) -> None:
        """Delete an application; the API server lets its pods go first."""
        kind = self._kind
        self._objects.delete_namespaced_custom_object(
            kind.group, kind.version, namespace, kind.plural, name, propagation_policy="Foreground"
        )

    def driver_log(self, namespace: str, pod: str, lines: int = LOG_LINES_READ) -> str:
        """The end of what the driver printed."""
        return read_log(self._connection, namespace, pod, lines)


def list_pods(connection: client.ApiClient, namespace: str, selector: str) -> list[Json]:
    """The pods with these labels, as JSON."""
    found = client.CoreV1Api(connection).list_namespaced_pod(namespace, label_selector=selector)
    return cast("list[Json]", connection.sanitize_for_serialization(found)["items"])


def list_pods_if_allowed(connection: client.ApiClient, namespace: str, selector: str) -> list[Json]:
    """The pods with these labels; none without the right to list them."""
    try:
        return list_pods(connection, namespace, selector)
    except ApiException as error:
        if error.status != HTTP_FORBIDDEN:
            raise
        return []


def held_back(connection: client.ApiClient, application: Json) -> Obstacle | None:
    """What holds a SparkApplication or a Job back, if it is suspended."""
    if not is_suspended(application):
        return None
    workloads = list_workloads_if_allowed(connection, application["metadata"]) if queue_of(application) else []
    return hold_of(application, workloads)


def list_workloads_if_allowed(connection: client.ApiClient, metadata: Json) -> list[Json] | None:
    """Kueue's Workloads of an application; None without the right to list them."""
    objects, selector = client.CustomObjectsApi(connection), f"{WORKLOAD_LABEL}={metadata['uid']}"
    for version in WORKLOAD_VERSIONS:
        try:
            found = cast("Json", objects.list_namespaced_custom_object(
                WORKLOAD_GROUP, version, metadata["namespace"], WORKLOAD_PLURAL, label_selector=selector))  # fmt: skip
            return cast("list[Json]", found["items"])
        except ApiException as error:
            if error.status == HTTP_FORBIDDEN:
                return None
            if error.status != HTTP_NOT_FOUND:
                raise
    return []


def set_up_failure(connection: client.ApiClient, namespace: str, pods: list[Json]) -> str:
    """Why a pod that has its node is not set up, such as a volume of a missing Secret; only its events say it."""
    pod = being_set_up(pods)
    if pod is None:
        return ""
    found = warnings_about(connection, namespace, pod["metadata"]["uid"])
    return next((in_short(f"{reason}: {message}") for reason, message in found if reason in MOUNT_REASONS), "")


def warnings_about(connection: client.ApiClient, namespace: str, uid: str) -> list[tuple[str, str]]:
    """Reason and message of the events that warn about an object, newest first; none without the right to list them."""
    selector = f"involvedObject.uid={uid},type=Warning"
    try:
        events: list[Any] = client.CoreV1Api(connection).list_namespaced_event(namespace, field_selector=selector).items
    except ApiException as error:
        if error.status != HTTP_FORBIDDEN:
            raise
        return []
    newest_first = sorted(events, key=lambda one: str(one.last_timestamp or one.event_time or ""), reverse=True)
    return [(str(one.reason or ""), str(one.message or "")) for one in newest_first]


def read_log(connection: client.ApiClient, namespace: str, pod: str, lines: int) -> str:
    """The end of what the driver printed in its pod, standard output and error together."""
    found = client.CoreV1Api(connection).read_namespaced_pod(pod, namespace)
    return read_log_of(connection, cast("Json", connection.sanitize_for_serialization(found)), lines)


def read_log_of(connection: client.ApiClient, pod: Json, lines: int, answer_seconds: float | None = None) -> str:
    """The same of a pod that was read, as JSON. ``answer_seconds``: waits no longer for its kubelet."""
    # Sidecars have logs too; Spark's container is the named one, else the first, as Spark chooses.
    names = [container["name"] for container in pod["spec"]["containers"]]
    container = DRIVER_CONTAINER if DRIVER_CONTAINER in names else names[0]
    # Not preloaded: the client guesses a type from the text, and would take a log of one JSON document for no text.
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    response: Any = client.CoreV1Api(connection).read_namespaced_pod_log(
        name, namespace, container=container, tail_lines=lines, _preload_content=False, _request_timeout=answer_seconds
    )
    return str(response.data.decode("utf-8", errors="replace"))


class DirectApplications:
    """One application, run without a Spark operator: its driver is a Job's pod, which is not restarted."""

    what, runner = "Spark application", "Kubernetes' Job controller"
    needs = "Kubernetes' Jobs (batch/v1)"

    def __init__(self, connection: client.ApiClient, submission: DirectSubmission) -> None:
        self._connection = connection
        self._jobs = client.BatchV1Api(connection)
        self._submission = submission

    def reference(self, name: str) -> str:
        """The Job, as kubectl takes it."""
        return f"job {name}"

    def create(self, application: Json) -> str:
        """Create the Job. ``application`` is what the submission was made from; its name may be generated."""
        self._jobs.create_namespaced_job(self._submission.namespace, cast("Any", driver_job(self._submission)))
        return self._submission.name

    def look(self, namespace: str, name: str) -> ApplicationStatus:
        """The application as its Job and its pods tell it."""
        job = cast("Json", self._connection.sanitize_for_serialization(self._jobs.read_namespaced_job(name, namespace)))
        pods = list_pods(self._connection, namespace, f"{SPARK_APPLICATION_LABEL}={name}")
        dynamic = self._submission.conf.get("spark.dynamicAllocation.enabled") == "true"
        executors = None if dynamic else self._submission.executors_wanted
        if hold := held_back(self._connection, job):
            return job_status(job, [], executors).with_obstacle(hold)
        failure = set_up_failure(self._connection, namespace, pods) if pods else self._refusal(job["metadata"])
        return job_status(job, pods, executors, failure)

    def _refusal(self, job: Json) -> str:
        """Why the Job's pod could not be made, such as a quota or Pod Security; which only the Job's events report."""
        warnings = warnings_about(self._connection, job["namespace"], job["uid"])
        return next((message for reason, message in warnings if reason == "FailedCreate"), "")

    def delete(self, namespace: str, name: str) -> None:
        """Delete the Job; its pod goes first, and the executors, which the pod owns, with it."""
        self._jobs.delete_namespaced_job(name, namespace, propagation_policy="Foreground")

    def driver_log(self, namespace: str, pod: str, lines: int = LOG_LINES_READ) -> str:
        """The end of what the driver printed."""
        return read_log(self._connection, namespace, pod, lines)
