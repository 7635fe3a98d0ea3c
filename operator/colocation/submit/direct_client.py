"""``--direct``: applications without a Spark operator, by the spark-on-k8s client. Slow to import, so import it late.

The client makes a ConfigMap with the executors' pod template, the driver's pod and its Service. It has no parameter
for most of what a pod template says, so the driver's pod is completed on its way to the API server; and for a dry run
nothing is sent, so what is shown is what the client really makes.
"""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import spark_on_k8s.client
import urllib3
import yaml
from kubernetes import client
from kubernetes.client import rest
from kubernetes.client.exceptions import ApiException
from spark_on_k8s.client import ExecutorInstances, PodResources, SparkOnK8S
from spark_on_k8s.k8s.sync_client import KubernetesClientManager
from spark_on_k8s.utils.app_manager import SparkAppManager

from .applications import list_pods, read_log
from .direct import TEMPLATE_FOLDER, TEMPLATE_NAME, DirectSubmission, complete_pod, mebibytes
from .spark_conf import DRIVER_ACCOUNT
from .status import ApplicationStatus, driver_pod_status

Json = dict[str, Any]
HTTP_NOT_FOUND, HTTP_CONFLICT = 404, 409


class _PodManager(SparkAppManager):
    """Makes a driver's pod as a pod: spark-on-k8s 0.12 makes a template, which newer Kubernetes clients refuse."""

    @staticmethod
    def create_spark_pod_spec(**parts: Any) -> client.V1Pod:
        template = SparkAppManager.create_spark_pod_spec(**parts)
        return client.V1Pod(metadata=template.metadata, spec=template.spec)


# ``submit_app`` takes the class from its module, there is no other way in.
spark_on_k8s.client.SparkAppManager = _PodManager


class DirectApplications:
    """One application, run without a Spark operator: its driver is a pod that nobody restarts."""

    what, runner = "Spark application", "the scheduler"
    needs = "rights to make pods, services and configmaps"

    def __init__(self, connection: client.ApiClient, submission: DirectSubmission) -> None:
        self._connection = connection
        self._core = client.CoreV1Api(connection)
        self._submission = submission

    def reference(self, name: str) -> str:
        """The driver's pod, as kubectl takes it."""
        return f"pod {driver_pod(name)}"

    def create(self, application: Json) -> str:
        """Start the driver. ``application`` is what the submission was made from; its name may be generated."""
        namespace, name = self._submission.namespace, self._submission.name
        if self._exists(namespace, name):
            raise ApiException(status=HTTP_CONFLICT, reason="AlreadyExists")
        self._remove(namespace, name)  # what a submission left that was cut off
        sender = _CompletingRest(self._connection.configuration, self._submission)
        try:
            submit(self._submission, sender, self._connection)
        except ApiException:
            self._remove(namespace, name)  # half an application would wait for ever
            raise
        return name

    def look(self, namespace: str, name: str) -> ApplicationStatus:
        """The application as its driver's pod tells it."""
        pod = self._core.read_namespaced_pod(driver_pod(name), namespace)
        executors = list_pods(self._connection, namespace, f"spark-role=executor,spark-app-selector={name}")
        dynamic = self._submission.conf.get("spark.dynamicAllocation.enabled") == "true"
        wanted = None if dynamic else self._submission.executors_wanted
        return driver_pod_status(self._connection.sanitize_for_serialization(pod), executors, wanted)

    def delete(self, namespace: str, name: str) -> None:
        """Delete the driver's pod; the executors, the Service and the ConfigMap are its own and go with it."""
        self._core.delete_namespaced_pod(driver_pod(name), namespace, propagation_policy="Foreground")

    def driver_log(self, namespace: str, pod: str) -> str:
        """The end of what the driver printed."""
        return read_log(self._connection, namespace, pod)

    def _exists(self, namespace: str, name: str) -> bool:
        try:
            self._core.read_namespaced_pod(driver_pod(name), namespace)
        except ApiException as error:
            if error.status == HTTP_NOT_FOUND:
                return False
            raise
        return True

    def _remove(self, namespace: str, name: str) -> None:
        """Delete whatever there is of an application: before its driver's pod is there, nothing has an owner."""
        deletions = (
            (self._core.delete_namespaced_pod, driver_pod(name)),
            (self._core.delete_namespaced_config_map, template_config_map(name)),
        )
        for delete, one in deletions:
            try:
                delete(one, namespace)
            except ApiException as error:
                if error.status != HTTP_NOT_FOUND:
                    raise


def driver_pod(name: str) -> str:
    """The pod's name, as spark-on-k8s makes it."""
    return f"{name}-driver"


def template_config_map(name: str) -> str:
    """The ConfigMap with the executors' pod template."""
    return f"{name}-executor-template"


def render(submission: DirectSubmission) -> list[Json]:
    """The objects that a submission makes, in order. Nothing is sent to anybody."""
    recorder = _RecordingRest(client.Configuration(), submission)
    submit(submission, recorder, client.ApiClient(client.Configuration()))
    return recorder.created


def submit(submission: DirectSubmission, sender: rest.RESTClientObject, connection: client.ApiClient) -> None:
    """Let spark-on-k8s make the driver, every request going through ``sender``. Errors are the client's."""
    conf = submission.conf
    SparkOnK8S(k8s_client_manager=_Connections(connection, sender)).submit_app(
        image=submission.image,
        app_path=submission.main_file,
        namespace=submission.namespace,
        service_account=conf[DRIVER_ACCOUNT],
        app_name=submission.name,
        app_id_suffix=lambda: "",
        spark_conf=conf,
        class_name=submission.main_class or "",
        packages=[],
        app_arguments=list(submission.arguments),
        app_waiter="no_wait",
        image_pull_policy=conf.get("spark.kubernetes.container.image.pullPolicy", "IfNotPresent"),
        ui_reverse_proxy=False,
        driver_resources=_sizes(conf, "driver"),
        executor_resources=_sizes(conf, "executor"),
        executor_instances=ExecutorInstances(initial=submission.executors_wanted),
        should_print=False,
        driver_ephemeral_configmaps_volumes=[_template_volume(submission)],
        executor_pod_template_path=f"{TEMPLATE_FOLDER}/{TEMPLATE_NAME}",
    )


def _sizes(conf: dict[str, str], role: str) -> PodResources:
    return PodResources(
        cpu=int(conf[f"spark.{role}.cores"]),
        memory=mebibytes(conf[f"spark.{role}.memory"]),
        memory_overhead=mebibytes(conf[f"spark.{role}.memoryOverhead"]),
    )


def _template_volume(submission: DirectSubmission) -> Json:
    text = yaml.safe_dump(submission.executor_template, sort_keys=False)
    return {
        "name": template_config_map(submission.name),
        "mount_path": TEMPLATE_FOLDER,
        "sources": [{"name": TEMPLATE_NAME, "text": text}],
    }


class _Connections(KubernetesClientManager):
    """Gives spark-on-k8s our connection, with another sender of requests."""

    def __init__(self, connection: client.ApiClient, sender: rest.RESTClientObject) -> None:
        super().__init__()
        self._connection, self._sender = connection, sender

    @contextmanager
    def client(self) -> Iterator[client.ApiClient]:
        one = client.ApiClient(self._connection.configuration)
        one.rest_client = self._sender
        yield one


class _CompletingRest(rest.RESTClientObject):
    """Sends requests; the driver's pod is completed with its template first."""

    def __init__(self, configuration: client.Configuration, submission: DirectSubmission) -> None:
        super().__init__(configuration)
        self._submission = submission

    def request(self, method: str, url: str, *positional: Any, **named: Any) -> Any:
        if method == "POST" and url.endswith("/pods"):
            named["body"] = complete_pod(named["body"], self._submission.driver_template)
        return self.send(method, url, *positional, **named)

    def send(self, method: str, url: str, *positional: Any, **named: Any) -> Any:
        """Send one request as it is."""
        return super().request(method, url, *positional, **named)


class _RecordingRest(_CompletingRest):
    """Keeps what is created instead of sending it, and answers as the API server would."""

    def __init__(self, configuration: client.Configuration, submission: DirectSubmission) -> None:
        super().__init__(configuration, submission)
        self.created: list[Json] = []

    def send(self, method: str, url: str, *positional: Any, **named: Any) -> Any:
        """Keep one request."""
        body: Json = named.get("body") or {}
        kinds = {"pods": "Pod", "services": "Service", "configmaps": "ConfigMap"}
        if method == "POST":
            self.created.append({"apiVersion": "v1", "kind": kinds[url.rpartition("/")[2]], **body})
        answer = json.dumps({**body, "metadata": {**body.get("metadata", {}), "uid": "given-by-the-cluster"}})
        headers = {"Content-Type": "application/json"}
        return rest.RESTResponse(urllib3.HTTPResponse(io.BytesIO(answer.encode()), status=201, headers=headers))
