"""Reads the operator's snapshot through a port-forward to its pod.

The operator serves it on its pod's loopback only: whoever may ``create pods/portforward`` in its namespace may read it.
"""

import http.client
from typing import Any, TypeVar

from kubernetes import client
from pydantic import BaseModel, ValidationError

from ..model.adoption import Folders
from ..model.names import APP_NAME, LABEL_COMPONENT, LABEL_LEADS, LABEL_NAME
from ..model.snapshot import Snapshot
from .errors import CommandFailed, validation_message
from .pod_port import TIMEOUT_SECONDS, PodPort, PodUnreachable

SNAPSHOT_PORT = 8082
SNAPSHOT_PATH = "/v1/snapshot"
FOLDERS_PATH = "/v1/folders"
HASHING_SECONDS = 1800.0
"""The agents may have to hash files before the operator can answer."""
Answer = TypeVar("Answer", bound=BaseModel)


def fetch_snapshot(connection: client.ApiClient, namespace: str) -> Snapshot:
    """The operator's newest snapshot.

    Raises:
        CommandFailed: the operator does not run in ``namespace``, or does not answer.
    """
    return _fetch(connection, namespace, SNAPSHOT_PATH, Snapshot, TIMEOUT_SECONDS)


def fetch_folders(connection: client.ApiClient, namespace: str) -> Folders:
    """The folders of lost tables and commits on the nodes.

    Raises:
        CommandFailed: as for ``fetch_snapshot``.
    """
    return _fetch(connection, namespace, FOLDERS_PATH, Folders, HASHING_SECONDS)


def _fetch(
    connection: client.ApiClient, namespace: str, path: str, kind: type[Answer], timeout_seconds: float
) -> Answer:
    pod = _operator_pod(client.CoreV1Api(connection), namespace)
    port = PodPort(connection, namespace, pod, SNAPSHOT_PORT)
    try:
        status, body = port.get(path, {"Connection": "close"}, timeout_seconds)
    except PodUnreachable as error:
        raise CommandFailed(f"the operator's pod {pod} in {namespace!r} does not answer: {error}") from error
    finally:
        port.close()
    if status != http.client.OK:
        raise CommandFailed(f"the operator answered {status} to {path}: {body[:200].decode(errors='replace')}")
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        message = validation_message(error, f"the operator's {kind.__name__.lower()} (is it of another version?)")
        raise CommandFailed(message) from error


def _operator_pod(core: "client.CoreV1Api", namespace: str) -> str:
    selector = f"{LABEL_NAME}={APP_NAME},{LABEL_COMPONENT}=operator"
    pods: list[Any] = core.list_namespaced_pod(namespace, label_selector=selector).items
    running = sorted(
        (not _leads(pod), not _is_ready(pod), str(pod.metadata.name))  # one that stands by knows nothing
        for pod in pods
        if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
    )
    if not running:
        raise CommandFailed(
            f"no operator runs in namespace {namespace!r}: name its namespace with --operator-namespace, or see why: "
            f"kubectl get pods -n {namespace} -l {selector}"
        )
    return running[0][-1]


def _leads(pod: Any) -> bool:
    return bool((pod.metadata.labels or {}).get(LABEL_LEADS) == "true")


def _is_ready(pod: Any) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions or ())
