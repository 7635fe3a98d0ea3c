"""The long-lived session: a driver pod with ``programs/session_server.py``, and a client of it.

A caller gets an answer, an error of the session (`SessionError`), or `NoAnswer`: what was asked may have been done.
"""

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Collection
from typing import Any

import yaml

from demo import cluster
from demo.shell import CommandFailed, kubectl, kubectl_json

from .history import History
from .scene import NAMESPACE, spark_config_map

PORT = 8765
START_SECONDS = 150
ALIVE_SECONDS = 10
LOOK_SECONDS = 10.0
REPEAT_SECONDS = 90.0
"""A repeated request waits so long for the next driver."""
COMMIT_UNKNOWN = "CommitUnknown"
KEEP_ALIVE = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 4}
"""A driver whose node is dead or cut off is given up after half a minute."""
PROGRAMS, RECIPE = "/opt/programs", "/opt/recipe"
EXECUTORS = 2
DRIVER_LIMIT = "1434Mi"
"""What Spark gives a Python driver of 1 GiB: long sessions of many queries have to fit (finding L2)."""
CONF = {
    "spark.master": "k8s://https://kubernetes.default.svc",
    "spark.submit.deployMode": "client",
    "spark.kubernetes.namespace": NAMESPACE,
    "spark.kubernetes.authenticate.executor.serviceAccountName": "spark",
    "spark.kubernetes.executor.podTemplateFile": f"{RECIPE}/executor-pod-template.yaml",
    "spark.kubernetes.executor.request.cores": "200m",
    "spark.executor.instances": str(EXECUTORS),
    "spark.executor.maxNumFailures": "10000",
    "spark.executor.memory": "1g",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.ui.enabled": "false",
}


class SessionError(Exception):
    """The session said that it failed; the text begins with the error's type."""


class NoAnswer(Exception):
    """No one knows what the session did."""


class Session:
    """One driver after the other: when one is lost, ``revive`` starts the next."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._lock, self._books = threading.Lock(), threading.Lock()
        self._number = 0
        self._address = ""
        self._asking: set[int] = set()
        self._unknown: dict[int, set[int]] = {}
        self._looked_at = 0.0

    @property
    def pod(self) -> str:
        """The present driver's."""
        return f"session-{self._number}"

    def ask(self, operation: int, seconds: float, /, attempts: int = 1, **request: Any) -> Any:
        """The answer to a request of an operation; one that may be repeated is, as long as its outcome is unknown.

        Raises:
            SessionError: the session reports that it failed, and no attempt may have done it.
            NoAnswer: the last attempt's.
        """
        problem: SessionError | NoAnswer | None = None
        self._asking.add(operation)
        try:
            for attempt in range(attempts):
                if attempt:
                    self._wait_until_alive(REPEAT_SECONDS)
                try:
                    return self._ask_once(operation, seconds, request)
                except SessionError as error:
                    if problem is None and COMMIT_UNKNOWN not in str(error):
                        raise
                    problem = error
                except NoAnswer as error:
                    problem = error
        finally:
            self._asking.discard(operation)
        raise NoAnswer(str(problem)) from problem

    def _ask_once(self, operation: int, seconds: float, request: dict[str, Any]) -> Any:
        number, began_at = self._number, time.monotonic()
        try:
            answer = self._request("POST", seconds, {**request, "operation": operation})
        except (OSError, ValueError, http.client.HTTPException) as error:  # also half an answer
            with self._books:
                self._unknown.setdefault(operation, set()).add(number)
            lasted = time.monotonic() - began_at
            what = "NoAnswerInTime" if lasted >= seconds - 1 else "SessionLost"
            said = f"{what}: session-{number}, after {lasted:.0f} s: {type(error).__name__}: {error}"
            raise NoAnswer(said) from error
        if "error" in answer:
            raise SessionError(answer["error"])
        return answer["ok"]

    def _wait_until_alive(self, seconds: float) -> None:
        """Somebody else revives it."""
        deadline = time.monotonic() + seconds
        while not self.is_alive() and time.monotonic() < deadline:
            time.sleep(1)

    def is_alive(self) -> bool:
        """Whether the driver answers at all."""
        return self._running() is not None

    def give_up(self) -> None:
        """The present driver can do nothing any more, though it answers: ``revive`` is to start another."""
        self._address = ""

    def settle_finished(self) -> None:
        """Note of which operations without an answer no driver knows any more: they can do nothing any more."""
        with self._books:
            drivers = set().union(*self._unknown.values())
        running = self._running() if self._number in drivers else None
        if running is not None:
            self._settle({self._number}, but=running)
        if drivers - {self._number} and time.monotonic() - self._looked_at > LOOK_SECONDS:
            self._looked_at = time.monotonic()
            with contextlib.suppress(CommandFailed):
                self._settle(drivers - self._pods())

    def _settle(self, drivers: set[int], but: Collection[int] = ()) -> None:
        """These drivers work on no operations any more but on some."""
        with self._books:
            for operation, doubtful in self._unknown.items():
                if operation not in but:
                    doubtful -= drivers
            settled = sorted(one for one, left in self._unknown.items() if not left and one not in self._asking)
            for one in settled:
                del self._unknown[one]
        if settled:
            self._history.note("runner", "seen", "settled", 0, numbers=settled)

    def _running(self) -> set[int] | None:
        """The operations that run; None: no answer."""
        try:
            return set(self._request("GET", ALIVE_SECONDS, None)["running"])
        except (OSError, ValueError, http.client.HTTPException):
            return None

    def _request(self, method: str, seconds: float, body: dict[str, Any] | None) -> dict[str, Any]:
        """One request. A peer that is gone without a word is found out by the kernel's probes."""
        if not self._address:
            raise ConnectionRefusedError("there is no session")
        connection = http.client.HTTPConnection(self._address, PORT, timeout=ALIVE_SECONDS)
        with contextlib.closing(connection):
            connection.connect()
            for option, value in KEEP_ALIVE.items():
                connection.sock.setsockopt(socket.IPPROTO_TCP, option, value)
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.sock.settimeout(seconds)
            connection.request(method, "/", body=json.dumps(body) if body else None)
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
            return answer

    def revive(self, stop: threading.Event) -> None:
        """Start another driver unless the present one lives; tries until ``stop``. One thread at a time."""
        with self._lock:
            while not stop.is_set() and not self.is_alive():
                with contextlib.suppress(CommandFailed, TimeoutError):
                    self._replace(stop)
                    self._history.note("runner", "seen", "session", 0, pod=self.pod)
                stop.wait(2)

    def _replace(self, stop: threading.Event) -> None:
        self._end_all(stop)
        recipe = spark_config_map()
        if recipe is None:
            raise TimeoutError("the group has no ConfigMap")
        self._number += 1
        kubectl("apply", "-f", "-", "--request-timeout=30s", stdin=yaml.safe_dump(driver_pod(self.pod, recipe)))
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and not stop.is_set():
            status = kubectl_json("get", "pod", self.pod, "-n", NAMESPACE, "--request-timeout=20s")["status"]
            self._address = status.get("podIP", "")
            if self._address and self.is_alive():
                return
            if status.get("phase") in ("Failed", "Succeeded"):
                break
            stop.wait(1)
        raise TimeoutError(f"{self.pod} does not serve")

    def _end_all(self, stop: threading.Event) -> None:
        """Delete what is left of earlier drivers. What they were asked is settled once they are really gone.

        None is asked again, though one that was cut off may answer later: its token ends with its pod (seed 14142135).
        """
        self.give_up()
        kubectl("delete", "pods", "-l", "chaos=session", "-n", NAMESPACE, "--wait=false", "--grace-period=1",
                "--request-timeout=30s")  # fmt: skip
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not stop.is_set():
            left = self._pods()
            self._settle(set(range(self._number + 1)) - left)
            if not left:
                return
            stop.wait(1)

    def _pods(self) -> set[int]:
        """Numbers of the drivers that may still run; of the others the last requests have had a second."""
        pods = kubectl_json("get", "pods", "-l", "chaos=session", "-n", NAMESPACE, "--request-timeout=20s")
        return {int(pod["metadata"]["name"].removeprefix("session-")) for pod in pods["items"]}


def driver_pod(name: str, recipe: dict[str, str]) -> dict[str, Any]:
    """The operator's template for drivers, with our program in it."""
    pod: dict[str, Any] = yaml.safe_load(recipe["driver-pod-template.yaml"])
    pod["metadata"] |= {"name": name, "namespace": NAMESPACE}
    pod["metadata"]["labels"]["chaos"] = "session"
    conf = {**CONF, "spark.kubernetes.driver.pod.name": name, "spark.kubernetes.container.image": cluster.SPARK_IMAGE}
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    where = ["--conf", "spark.driver.host=$(POD_IP)", "--conf", "spark.driver.bindAddress=$(POD_IP)"]
    container = pod["spec"]["containers"][0]
    container |= {
        "image": cluster.SPARK_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": ["spark-submit", "--properties-file", f"{RECIPE}/spark-defaults.conf", *settings, *where,
                 f"{PROGRAMS}/session_server.py"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}, "limits": {"memory": DRIVER_LIMIT}},
    }  # fmt: skip
    container["volumeMounts"] += [{"name": "program", "mountPath": PROGRAMS}, {"name": "recipe", "mountPath": RECIPE}]
    pod["spec"]["volumes"] += [{"name": "program", "configMap": {"name": "session-program"}},
                               {"name": "recipe", "configMap": {"name": "base-spark"}}]  # fmt: skip
    return pod | {"spec": {**pod["spec"], "serviceAccountName": "spark", "restartPolicy": "Never"}}
