"""Reads the operator's snapshot through a port-forward to its pod.

The operator serves it on its pod's loopback only: whoever may ``create pods/portforward`` in its namespace may read it.
"""

import http.client
import json
import socket
from typing import Any, cast

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward
from pydantic import ValidationError

from ..model.names import APP_NAME, LABEL_COMPONENT, LABEL_NAME
from ..model.snapshot import Snapshot
from .errors import CommandFailed, validation_message

SNAPSHOT_PORT = 8082
SNAPSHOT_PATH = "/v1/snapshot"
TIMEOUT_SECONDS = 30.0


def fetch_snapshot(connection: client.ApiClient, namespace: str) -> Snapshot:
    """The operator's newest snapshot.

    Raises:
        CommandFailed: the operator does not run in ``namespace``, or does not answer.
    """
    core = client.CoreV1Api(connection)
    pod = _operator_pod(core, namespace)
    connect = core.connect_get_namespaced_pod_portforward
    try:
        forward: Any = portforward(connect, pod, namespace, ports=str(SNAPSHOT_PORT))
        status, body = _get(cast("socket.socket", forward.socket(SNAPSHOT_PORT)))
    except (ApiException, OSError, http.client.HTTPException) as error:
        raise CommandFailed(f"the operator's pod {pod} in {namespace!r} does not answer: {_cause(error)}") from error
    if status != http.client.OK:
        raise CommandFailed(f"the operator answered {status} to {SNAPSHOT_PATH}: {body[:200].decode(errors='replace')}")
    try:
        return Snapshot.model_validate_json(body)
    except ValidationError as error:
        raise CommandFailed(validation_message(error, "the operator's snapshot (is it of another version?)")) from error


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


def _get(stream: socket.socket) -> tuple[int, bytes]:
    """One HTTP GET over an open stream."""
    stream.settimeout(TIMEOUT_SECONDS)
    connection = http.client.HTTPConnection("127.0.0.1", SNAPSHOT_PORT)
    connection.sock = stream
    try:
        connection.request("GET", SNAPSHOT_PATH, headers={"Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
