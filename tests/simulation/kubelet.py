"""Runs clone Jobs on their nodes: as `colocation.clone` does, file by file, verified, or not at all."""

from random import Random
from typing import TYPE_CHECKING, Any

from colocation.kube.api import JOBS
from colocation.model.clone import CloneSpec
from colocation.state.parse import format_time

from .disks import Disk, File, files_in

if TYPE_CHECKING:
    from .world import World

FILES_PER_TICK = 2


def run_jobs(world: "World", random: Random) -> None:
    """Let every Job whose node is up go on for a moment; some fail, some hang."""
    for body in world.api.all(JOBS):
        status = body.get("status", {})
        if status.get("conditions"):
            continue
        environment = {item["name"]: item["value"] for item in _container(body)["env"]}
        spec = CloneSpec.model_validate_json(environment["CLONE_SPEC"])
        if spec.target not in world.disks or spec.target in world.down:
            continue
        if not status.get("startTime"):
            _write(world, body, {"startTime": format_time(world.clock.now()), "active": 1, "ready": 1})
        elif random.random() < world.fault_rate:
            _end(world, body, "Failed", "the pod was evicted")
        elif random.random() >= world.slow_rate:
            _go_on(world, body, spec, world.disks[spec.target])


def _go_on(world: "World", body: Any, spec: CloneSpec, disk: Disk) -> None:
    required, optional = set[File](), set[File]()
    for table in spec.tables:
        for digest in table.live_manifests:
            chosen = required if digest == table.manifest else optional
            chosen |= {f for f in files_in(world.manifests[digest], table.directory) if f.bucket == spec.bucket}
    optional = {file for file in optional - required if _readable(world, spec, file)}
    missing = sorted((required | optional) - disk.intact(), key=lambda file: (file.directory, file.load))
    for file in missing[:FILES_PER_TICK]:
        if not _readable(world, spec, file):
            return _end(world, body, "Failed", f"no source has file {file.load} of bucket {file.bucket}")
        if not disk.put(file):
            return _end(world, body, "Failed", "no room")
    if len(missing) <= FILES_PER_TICK:
        disk.manifests.update(digest for table in spec.tables for digest in table.live_manifests)
        _end(world, body, "Complete", "")
    return None


def _readable(world: "World", spec: CloneSpec, file: File) -> bool:
    sources = (world.reachable(source.url) for source in spec.sources)
    return any(source is not None and file in source.intact() for source in sources)


def _container(body: Any) -> Any:
    return body["spec"]["template"]["spec"]["containers"][0]


def _end(world: "World", body: Any, kind: str, message: str) -> None:
    condition = {"type": kind, "status": "True", "lastTransitionTime": format_time(world.clock.now())}
    _write(world, body, {"active": 0, "ready": 0, "conditions": [condition | {"message": message}]})


def _write(world: "World", body: Any, status: dict[str, Any]) -> None:
    metadata = body["metadata"]
    world.api.merge(JOBS, metadata["namespace"], metadata["name"], {"status": status})
