"""A cluster's SparkApplications in memory, with a script of states."""

from collections.abc import Sequence
from typing import Any

from kubernetes.client.exceptions import ApiException

from colocation.submit.status import ApplicationStatus, kubeflow_status

Step = str | Exception | ApplicationStatus


class FakeApplications:
    """Each look at an application plays the next step: a state, a status, or an error to raise. The last one stays."""

    what, runner, needs = "SparkApplication", "Kubeflow's Spark operator", "Kubeflow's Spark operator"

    def __init__(self, steps: Sequence[Step] = (), log: str = "", error_message: str = "") -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.deleted: list[str] = []
        self._steps = list(steps)
        self._log = log
        self._error_message = error_message

        self._deletion: ApiException | None = None

    def play(self, *steps: Step) -> None:
        """From now on."""
        self._steps = list(steps)

    def refuse_deletion(self, error: ApiException) -> None:
        """As for somebody without the right."""
        self._deletion = error

    def reference(self, name: str) -> str:
        return f"sparkapplications.sparkoperator.k8s.io {name}"

    def create(self, application: dict[str, Any]) -> str:
        metadata = application["metadata"]
        name = metadata.get("name") or metadata["generateName"] + "x7k2p"
        if name in self.objects:
            raise ApiException(status=409, reason="AlreadyExists")
        self.objects[name] = {**application, "metadata": {**metadata, "name": name}, "status": {}}
        return str(name)

    def look(self, namespace: str, name: str) -> ApplicationStatus:
        if name not in self.objects:
            raise ApiException(status=404, reason="Not Found")
        if self._steps:
            step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
            if isinstance(step, Exception):
                raise step
            if isinstance(step, ApplicationStatus):
                return step
            self.objects[name]["status"] = {
                "applicationState": {"state": step, "errorMessage": self._error_message},
                "driverInfo": {"podName": f"{name}-driver"},
                "executorState": {"exec-1": "RUNNING", "exec-2": "PENDING"},
            }
        return kubeflow_status(self.objects[name])

    def delete(self, namespace: str, name: str) -> None:
        if self._deletion:
            raise self._deletion
        self.deleted.append(name)
        del self.objects[name]

    def driver_log(self, namespace: str, pod: str, lines: int = 5000) -> str:
        return self._log


class VirtualTime:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
