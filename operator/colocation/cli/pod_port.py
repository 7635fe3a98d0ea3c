"""HTTP with what listens on a pod's loopback, through a port-forward.

Whoever may ``create pods/portforward`` in the pod's namespace gets there: Kubernetes' own rights decide, and nothing is
exposed on the network.
"""

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any, cast

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward

from .errors import HTTP_FORBIDDEN

TIMEOUT_SECONDS = 30.0


class PodUnreachable(Exception):
    """The pod does not answer at this port; ``forbidden``: one may not reach it, and waiting will not help."""

    def __init__(self, message: str, *, forbidden: bool = False) -> None:
        super().__init__(message)
        self.forbidden = forbidden


class PodPort:
    """A port of a pod. The connection is made when it is needed, kept, and made anew after a failure."""

    def __init__(self, connection: client.ApiClient, namespace: str, pod: str, port: int) -> None:
        self._core = client.CoreV1Api(connection)
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
        except (ApiException, OSError, http.client.HTTPException) as error:
            self.close()
            # The client packs whatever went wrong into an ApiException without a status, also the user's Ctrl-C.
            if isinstance(error.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            forbidden = getattr(error.__context__, "status_code", None) == HTTP_FORBIDDEN
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
        connect = self._core.connect_get_namespaced_pod_portforward
        forward: Any = portforward(connect, self._pod, self._namespace, ports=str(self._port))
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        # Else it would connect by itself, to this machine, where the forwarded connection has ended.
        connection.auto_open = 0
        connection.sock = cast("socket.socket", forward.socket(self._port))
        return connection


def _cause(error: Exception) -> str:
    """A failed port-forward's cause: the client packs the whole answer into one text, the message at its end."""
    if not isinstance(error, ApiException):
        return str(error) or type(error).__name__
    words = str(error.reason or error).split(" -+-+- ")
    try:
        return str(json.loads(words[-1])["message"])
    except (ValueError, KeyError, TypeError):
        return words[0]
