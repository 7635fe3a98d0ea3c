"""Spark applications in a cluster: create, look, delete, read the driver's log. No decision is made here."""

from typing import Any, Protocol, cast

from kubernetes import client

from ..manifests.spark_pods import DRIVER_CONTAINER
from .kinds import ApplicationKind
from .status import ApplicationStatus, apache_status, kubeflow_status, schedule_status

Json = dict[str, Any]
LOG_LINES_READ = 5000
APACHE_NAME_LABEL = "spark.operator/spark-app-name"
"""Apache's operator labels driver and executors with the application's name."""


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
        self.needs = f"{kind.operator} ({kind.resource}); --direct runs applications without any"
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
        if kind.flavour == "apache":
            return apache_status(application, list_pods(self._connection, namespace, f"{APACHE_NAME_LABEL}={name}"))
        return schedule_status(application) if kind.flavour == "scheduled" else kubeflow_status(application)

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


def read_log(connection: client.ApiClient, namespace: str, pod: str, lines: int) -> str:
    """The end of what the driver printed in its pod, standard output and error together."""
    core = client.CoreV1Api(connection)
    # Sidecars have logs too; Spark's container is the named one, else the first, as Spark chooses.
    found: Any = core.read_namespaced_pod(pod, namespace)
    names = [container.name for container in found.spec.containers]
    container = DRIVER_CONTAINER if DRIVER_CONTAINER in names else names[0]
    # Not preloaded: the client guesses a type from the text, and would take a log of one JSON document for no text.
    response: Any = core.read_namespaced_pod_log(
        pod, namespace, container=container, tail_lines=lines, _preload_content=False
    )
    return str(response.data.decode("utf-8", errors="replace"))
