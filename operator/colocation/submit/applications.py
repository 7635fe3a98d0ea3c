"""SparkApplications in a cluster: create, look, delete, read the driver's log. No decision is made here."""

from typing import Any, Protocol, cast

from kubernetes import client

GROUP, VERSION, PLURAL = "sparkoperator.k8s.io", "v1beta2", "sparkapplications"
LOG_LINES_READ = 5000


class Applications(Protocol):
    """What running an application needs of a cluster."""

    def create(self, application: dict[str, Any]) -> dict[str, Any]: ...

    def get(self, namespace: str, name: str) -> dict[str, Any]: ...

    def delete(self, namespace: str, name: str) -> None: ...

    def driver_log(self, namespace: str, pod: str) -> str: ...


class KubernetesApplications:
    """Kubeflow's SparkApplications by the Kubernetes API. Errors are the client's ``ApiException``."""

    def __init__(self, connection: client.ApiClient) -> None:
        self._objects = client.CustomObjectsApi(connection)
        self._core = client.CoreV1Api(connection)

    def create(self, application: dict[str, Any]) -> dict[str, Any]:
        """Create an application; returns it with its name, also a generated one."""
        namespace = application["metadata"]["namespace"]
        return cast(
            "dict[str, Any]",
            self._objects.create_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, application),
        )

    def get(self, namespace: str, name: str) -> dict[str, Any]:
        """An application as it is now."""
        return cast(
            "dict[str, Any]", self._objects.get_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, name)
        )

    def delete(self, namespace: str, name: str) -> None:
        """Delete an application and wait in the API server for its pods to go first."""
        self._objects.delete_namespaced_custom_object(
            GROUP, VERSION, namespace, PLURAL, name, propagation_policy="Foreground"
        )

    def driver_log(self, namespace: str, pod: str) -> str:
        """The end of what the driver printed, standard output and error together."""
        # Not preloaded: the client guesses a type from the text, and would take a log of one JSON document for no text.
        response: Any = self._core.read_namespaced_pod_log(
            pod, namespace, tail_lines=LOG_LINES_READ, _preload_content=False
        )
        return str(response.data.decode("utf-8", errors="replace"))
