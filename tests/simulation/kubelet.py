"""Runs clone Jobs on their nodes: as `colocation.clone` does, file by file, verified, or not at all."""

import json
from typing import TYPE_CHECKING, Any

from colocation.kube.api import CLONE_PODS, JOBS
from colocation.model.agent import CloneProgress
from colocation.model.clone import CloneSpec, spec_from_environment
from colocation.state.parse import format_time

from .disks import File, files_in

if TYPE_CHECKING:
    from .world import Machine, World

JsonObject = dict[str, Any]

NO_IMAGE = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "clone:gone"'}


class Kubelet:
    """The kubelets of all nodes. ``fail_rate`` and ``hang_rate``: of a Job, per look."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.files_per_look = 2
        self.fail_rate = 0.0
        self.hang_rate = 0.0
        self._progress: dict[str, tuple[CloneProgress, str]] = {}
        self._specs: dict[str, CloneSpec] = {}

    def progress_on(self, node: str) -> tuple[CloneProgress, ...]:
        """What an agent reads of the clones under way on its node."""
        return tuple(progress for _, (progress, target) in sorted(self._progress.items()) if target == node)

    def run_jobs(self) -> None:
        """Let every Job whose node is up go on for a moment."""
        bodies = self._world.api.peek(JOBS)
        names = {body["metadata"]["uid"] for body in bodies}
        for uid in self._progress.keys() - names:
            self._end_progress(uid)
        for pod in self._world.api.peek(CLONE_PODS):
            if _job_of(pod) not in names:
                self._world.api.remove(CLONE_PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
        for body in bodies:
            if not body.get("status", {}).get("conditions"):
                self._run(body)

    def _run(self, body: JsonObject) -> None:
        world, spec = self._world, self._spec(body)
        machine = world.machines.get(spec.target)
        if machine is None or not machine.is_up:
            return
        pod = self._pod_of(body)
        if machine.holds_jobs:
            if pod is None and not body.get("status", {}).get("startTime"):
                self._report(body, {"phase": "Pending", "containerStatuses": [{"state": {"waiting": NO_IMAGE}}]})
        elif not body.get("status", {}).get("startTime"):
            self._write(body, {"startTime": format_time(world.api_wall.now()), "active": 1, "ready": 1})
            if pod:
                self._report(body, {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]})
        elif pod and pod["status"]["phase"] == "Failed":
            self._end(body, "Failed")
        elif machine.sick:
            self._fail(body, "CloneFailed: the disk does not take it")
        elif world.random.random() < self.fail_rate:
            self._end(body, "Failed")
        elif world.random.random() >= self.hang_rate:
            self._go_on(body, spec, machine)

    def _go_on(self, body: JsonObject, spec: CloneSpec, machine: "Machine") -> None:
        world, disk = self._world, machine.disk
        if spec.disk_id and spec.disk_id != disk.id:
            return self._fail(body, "DiskMissing: another disk is there")
        manifests = [(table, digest) for table in spec.tables for digest in table.live_manifests]
        if not all(disk.put_manifest((table.namespace, table.directory), digest) for table, digest in manifests):
            return self._fail(body, "CloneFailed: the disk does not take it")
        required, optional = set[File](), set[File]()
        for table, digest in manifests:
            chosen = required if digest == table.manifest else optional
            chosen |= {f for f in files_in(world.manifest(digest), table.directory) if f.bucket == spec.bucket}
        optional = {file for file in optional - required if self._readable(spec, file)}
        wanted = sorted(required | optional, key=lambda file: (file.directory, file.load, file.partition))
        missing = [file for file in wanted if not disk.holds(file)]
        for file in missing[: self.files_per_look]:
            if not self._readable(spec, file):
                return self._fail(body, f"CloneFailed: no source has file {file.load} of bucket {file.bucket}")
            if disk.is_full_for_ever or not disk.put(file):
                return self._fail(body, "InsufficientSpace: no room")
        self._show_progress(body, spec, wanted, missing)
        if len(missing) <= self.files_per_look:
            self._end(body, "Complete")
        return None

    def _show_progress(self, body: JsonObject, spec: CloneSpec, wanted: list[File], missing: list[File]) -> None:
        total, left = (sum(file.size_bytes for file in files) for files in (wanted, missing[self.files_per_look :]))
        progress = CloneProgress(
            namespace=spec.namespace,
            group=spec.group,
            bucket=spec.bucket,
            bytes_done=total - left,
            bytes_total=total,
            updated_at=format_time(self._world.machines[spec.target].wall.now()),
        )
        self._progress[body["metadata"]["uid"]] = (progress, spec.target)
        self._world.machines[spec.target].agent.ring()

    def _end_progress(self, uid: str) -> None:
        _, target = self._progress.pop(uid)
        if target in self._world.machines:
            self._world.machines[target].agent.ring()

    def _readable(self, spec: CloneSpec, file: File) -> bool:
        sources = (self._world.network.agent_for(spec.target, source.url) for source in spec.sources)
        return any(source is not None and source.disk.is_readable and source.disk.holds(file) for source in sources)

    def _spec(self, body: JsonObject) -> CloneSpec:
        uid = body["metadata"]["uid"]
        if uid not in self._specs:
            container = body["spec"]["template"]["spec"]["containers"][0]
            environment = {item["name"]: item["value"] for item in container["env"] if "value" in item}
            self._specs[uid] = spec_from_environment(environment)
        return self._specs[uid]

    def _fail(self, body: JsonObject, error: str) -> None:
        """The pod ends with the clone's error; its Job fails a moment later, without one."""
        reason, _, message = error.partition(": ")
        ended = {"exitCode": 1, "message": json.dumps({"error": reason, "message": message})}
        self._report(body, {"phase": "Failed", "containerStatuses": [{"state": {"terminated": ended}}]})

    def _pod_of(self, body: JsonObject) -> JsonObject | None:
        pods = self._world.api.peek(CLONE_PODS)
        return next((pod for pod in pods if _job_of(pod) == body["metadata"]["uid"]), None)

    def _report(self, body: JsonObject, status: JsonObject) -> None:
        """The status of a Job's pod, which is made when there is something to report."""
        metadata, api = body["metadata"], self._world.api
        name = f"{metadata['name']}-{metadata['uid']}"
        if self._pod_of(body):
            api.merge(CLONE_PODS, metadata["namespace"], name, {"status": status}, "status")
            return
        template = body["spec"]["template"]["metadata"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
        pod = {"metadata": {**template, "name": name, "ownerReferences": [owner]}, "status": status}
        api.add(CLONE_PODS, metadata["namespace"], pod)

    def _end(self, body: JsonObject, kind: str) -> None:
        if body["metadata"]["uid"] in self._progress:
            self._end_progress(body["metadata"]["uid"])
        condition = {"type": kind, "status": "True", "lastTransitionTime": format_time(self._world.api_wall.now())}
        if kind == "Failed":
            condition["message"] = "Job has reached the specified backoff limit"
        self._write(body, {"active": 0, "ready": 0, "conditions": [condition]})

    def _write(self, body: JsonObject, status: JsonObject) -> None:
        metadata = body["metadata"]
        self._world.api.merge(JOBS, metadata["namespace"], metadata["name"], {"status": status}, "status")


def _job_of(pod: JsonObject) -> str:
    uid: str = pod["metadata"]["ownerReferences"][0]["uid"]
    return uid
