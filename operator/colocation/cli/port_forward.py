"""HTTP through a port-forward to a port on a pod's loopback, and the operator's snapshot read that way.

Anyone who may ``create pods/portforward`` in the pod's namespace can connect: Kubernetes' own rights decide, and
nothing is exposed on the network.
"""

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import websocket
from kubernetes import client
from kubernetes.stream import ws_client
from pydantic import BaseModel, ValidationError

from ..model.adoption import Folders
from ..model.names import APP_NAME, LABEL_COMPONENT, LABEL_LEADS, LABEL_NAME
from ..model.snapshot import Snapshot
from ..model.wording import in_words
from .errors import HTTP_FORBIDDEN, CommandFailed, validation_message

TIMEOUT_SECONDS = 30.0
CONNECT_SECONDS = 15.0


class PodUnreachable(Exception):
    """The pod does not answer at this port; ``forbidden``: a right is missing, and waiting will not help."""

    def __init__(self, message: str, *, forbidden: bool = False) -> None:
        super().__init__(message)
        self.forbidden = forbidden


class OperatorUnreachable(CommandFailed):
    """The operator's pod does not answer, or is not ready to; another attempt may succeed."""


class Forward(ws_client.PortForward):
    """The client's port-forward, whose thread ends quietly when the connection does, however that ends.

    The client's own thread would print a traceback to the terminal, for example when a TLS connection is cut, and leave
    the reader waiting. Here the reader sees the end of the connection at once.
    """

    def _proxy(self) -> None:
        try:
            super()._proxy()
        except Exception as error:  # noqa: BLE001 - whatever ends the thread ends the connection; the reader reports it
            for port in self.local_ports.values():
                port.error = port.error or str(error)
                port.python.close()


def open_forward(connection: client.ApiClient, namespace: str, pod: str, port: int) -> "socket.socket":
    """A connection to a port of a pod.

    Raises:
        WebSocketException: the API server refuses it.
        OSError: the API server cannot be reached.
    """
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/portforward"
    query = [("ports", str(port))]
    _, url, headers, *_ = connection.param_serialize("GET", path, query_params=query, auth_settings=["BearerToken"])
    websocket.setdefaulttimeout(CONNECT_SECONDS)
    made = ws_client.create_websocket(connection.configuration, ws_client.get_websocket_url(url), headers)
    return cast("socket.socket", Forward(made, [port]).socket(port))


class PodPort:
    """A port of a pod. The connection is made when it is needed, kept, and made again after a failure."""

    def __init__(self, connection: client.ApiClient, namespace: str, pod: str, port: int) -> None:
        self._connection = connection
        self._namespace, self._pod, self._port = namespace, pod, port
        self._http: http.client.HTTPConnection | None = None

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> tuple[int, bytes]:
        """One HTTP GET: status and body.

        Raises:
            PodUnreachable: nothing listens there, the connection broke, or the port-forward is refused.
        """
        try:
            connection = self._http = self._http or self._connect()
            connection.sock.settimeout(timeout_seconds)
            connection.request("GET", path, headers=dict(headers or {}))
            answer = connection.getresponse()
            body = answer.read()
        except (websocket.WebSocketException, OSError, http.client.HTTPException) as error:
            self.close()
            forbidden = getattr(error, "status_code", None) == HTTP_FORBIDDEN
            raise PodUnreachable(_cause(error), forbidden=forbidden) from error
        if answer.will_close:
            self.close()
        return answer.status, body

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._http:
            self._http.close()
        self._http = None

    def _connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        # Else it would connect by itself, to this machine, where the forwarded connection has ended.
        connection.auto_open = 0
        connection.sock = open_forward(self._connection, self._namespace, self._pod, self._port)
        return connection


def _cause(error: Exception) -> str:
    """Why a connection failed: of one that the API server refused, the message of its answer."""
    otherwise = in_words(error).split(" -+-+- ", maxsplit=1)[0]
    return _message_of(getattr(error, "resp_body", None), otherwise)


def _message_of(body: Any, otherwise: str) -> str:
    """The message of an API server's or operator's answer; ``otherwise`` where the body has none."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, TypeError, LookupError):
        return otherwise


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
        CommandFailed: as for ``fetch_snapshot``; ``OperatorUnreachable`` if another attempt may succeed.
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
        kind_of_error = CommandFailed if error.forbidden else OperatorUnreachable
        raise kind_of_error(f"the operator's pod {pod} in {namespace!r} does not answer: {error}") from error
    finally:
        port.close()
    return _read(path, status, body, kind)


def _read(path: str, status: int, body: bytes, kind: type[Answer]) -> Answer:
    if status != http.client.OK:
        kind_of_error = OperatorUnreachable if status >= http.client.INTERNAL_SERVER_ERROR else CommandFailed
        message = _message_of(body, body[:200].decode(errors="replace"))
        raise kind_of_error(f"the operator answered {status} to {path}: {message}")
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        message = validation_message(error, f"the operator's {kind.__name__.lower()} (is it of another version?)")
        raise CommandFailed(message) from error


def _operator_pod(core: "client.CoreV1Api", namespace: str) -> str:
    selector = f"{LABEL_NAME}={APP_NAME},{LABEL_COMPONENT}=operator"
    pods: list[Any] = core.list_namespaced_pod(namespace, label_selector=selector).items
    running = sorted(
        (not _leads(pod), not _is_ready(pod), str(pod.metadata.name))  # a standby has no snapshot
        for pod in pods
        if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
    )
    if not pods:
        raise CommandFailed(
            f"no operator runs in namespace {namespace!r}: install the chart: docs/how-to/install.md#install; if it "
            "runs in another namespace, name that with --operator-namespace; if it is installed here, it may be scaled "
            f"to 0: kubectl get deployments -n {namespace}"
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
