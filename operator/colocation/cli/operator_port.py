"""Reads the operator's snapshot through a port-forward to its pod.

The operator serves it on its pod's loopback only: whoever may ``create pods/portforward`` in its namespace may read it.
"""

import http.client
import json
import socket
from typing import Any, TypeVar, cast

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward
from pydantic import BaseModel, ValidationError

from ..model.adoption import Orphans
from ..model.names import APP_NAME, LABEL_COMPONENT, LABEL_NAME
from ..model.snapshot import Snapshot
from .errors import CommandFailed, validation_message

SNAPSHOT_PORT = 8082
SNAPSHOT_PATH = "/v1/snapshot"
ORPHANS_PATH = "/v1/orphans"
TIMEOUT_SECONDS = 30.0
HASHING_SECONDS = 1800.0
"""The agents may have to hash files before the operator can answer."""
Answer = TypeVar("Answer", bound=BaseModel)


def fetch_snapshot(connection: client.ApiClient, namespace: str) -> Snapshot:
    """The operator's newest snapshot.

    Raises:
        CommandFailed: the operator does not run in ``namespace``, or does not answer.
    """
    return _fetch(connection, namespace, SNAPSHOT_PATH, Snapshot, TIMEOUT_SECONDS)


def fetch_orphans(connection: client.ApiClient, namespace: str) -> Orphans:
    """The folders on the nodes that no table has.

    Raises:
        CommandFailed: as for ``fetch_snapshot``.
    """
    return _fetch(connection, namespace, ORPHANS_PATH, Orphans, HASHING_SECONDS)


def _fetch(
    connection: client.ApiClient, namespace: str, path: str, kind: type[Answer], timeout_seconds: float
) -> Answer:
    core = client.CoreV1Api(connection)
    pod = _operator_pod(core, namespace)
    connect = core.connect_get_namespaced_pod_portforward
    try:
        forward: Any = portforward(connect, pod, namespace, ports=str(SNAPSHOT_PORT))
        status, body = _get(cast("socket.socket", forward.socket(SNAPSHOT_PORT)), path, timeout_seconds)
    except (ApiException, OSError, http.client.HTTPException) as error:
        raise CommandFailed(f"the operator's pod {pod} in {namespace!r} does not answer: {_cause(error)}") from error
    if status != http.client.OK:
        raise CommandFailed(f"the operator answered {status} to {path}: {body[:200].decode(errors='replace')}")
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        message = validation_message(error, f"the operator's {kind.__name__.lower()} (is it of another version?)")
        raise CommandFailed(message) from error


def _operator_pod(core: client.CoreV1Api, namespace: str) -> str:
    selector = f"{LABEL_NAME}={APP_NAME},{LABEL_COMPONENT}=operator"
    pods: list[Any] = core.list_namespaced_pod(namespace, label_selector=selector).items
    running = sorted(
        str(pod.metadata.name)
        for pod in pods
        if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
    )
    if not running:
        raise CommandFailed(
            f"no operator runs in namespace {namespace!r}: name its namespace by --operator-namespace, or look at "
            f"kubectl get pods -n {namespace} -l {selector}"
        )
    return running[0]


def _cause(error: Exception) -> str:
    """A failed port-forward's cause: the client packs the whole answer into one text, the message at its end."""
    if not isinstance(error, ApiException):
        return str(error)
    words = str(error.reason or error).split(" -+-+- ")
    try:
        return str(json.loads(words[-1])["message"])
    except (ValueError, KeyError, TypeError):
        return words[0]


def _get(stream: socket.socket, path: str, timeout_seconds: float) -> tuple[int, bytes]:
    """One HTTP GET over an open stream."""
    stream.settimeout(timeout_seconds)
    connection = http.client.HTTPConnection("127.0.0.1", SNAPSHOT_PORT)
    connection.sock = stream
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
