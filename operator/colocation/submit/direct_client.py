"""``--direct``: applications without a Spark operator, each a Job whose pod is the driver."""

from typing import Any, cast

from kubernetes import client

from ..manifests.spark_pods import SPARK_APPLICATION_LABEL
from .applications import LOG_LINES_READ, list_pods, read_log, set_up_failure, warnings_about
from .direct import DirectSubmission, driver_job
from .status import ApplicationStatus, job_status

Json = dict[str, Any]


class DirectApplications:
    """One application, run without a Spark operator: its driver is a Job's pod, which is never restarted."""

    what, runner = "Spark application", "Kubernetes' Job controller"
    needs = "Kubernetes' Jobs (batch/v1)"

    def __init__(self, connection: client.ApiClient, submission: DirectSubmission) -> None:
        self._connection = connection
        self._jobs = client.BatchV1Api(connection)
        self._submission = submission

    def reference(self, name: str) -> str:
        """The Job, as kubectl takes it."""
        return f"job {name}"

    def create(self, application: Json) -> str:
        """Create the Job. ``application`` is what the submission was made from; its name may be generated."""
        self._jobs.create_namespaced_job(self._submission.namespace, cast("Any", driver_job(self._submission)))
        return self._submission.name

    def look(self, namespace: str, name: str) -> ApplicationStatus:
        """The application as its Job and its pods tell it."""
        job = cast("Json", self._connection.sanitize_for_serialization(self._jobs.read_namespaced_job(name, namespace)))
        pods = list_pods(self._connection, namespace, f"{SPARK_APPLICATION_LABEL}={name}")
        dynamic = self._submission.conf.get("spark.dynamicAllocation.enabled") == "true"
        failure = set_up_failure(self._connection, namespace, pods) if pods else self._refusal(job["metadata"])
        return job_status(job, pods, None if dynamic else self._submission.executors_wanted, failure)

    def _refusal(self, job: Json) -> str:
        """Why the Job's pod could not be made, such as a quota or Pod Security; only the Job's events say it."""
        warnings = warnings_about(self._connection, job["namespace"], job["uid"])
        return next((message for reason, message in warnings if reason == "FailedCreate"), "")

    def delete(self, namespace: str, name: str) -> None:
        """Delete the Job; its pod goes first, and the executors, which the pod owns, with it."""
        self._jobs.delete_namespaced_job(name, namespace, propagation_policy="Foreground")

    def driver_log(self, namespace: str, pod: str, lines: int = LOG_LINES_READ) -> str:
        """The end of what the driver printed."""
        return read_log(self._connection, namespace, pod, lines)
