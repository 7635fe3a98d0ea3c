"""Moves a pod's plain fields into its template.

Kubeflow's operator applies ``affinity``, ``env``, ``volumeMounts`` and the like by a webhook, and leaves every pod
with a template alone. We add a template, so the manifest's fields next to it have to move into it, or they would be
lost silently.
"""

from collections.abc import Mapping
from typing import Any

from .errors import ManifestError
from .merge import Json, merge_list

POD_FIELDS = {
    "affinity": "affinity",
    "tolerations": "tolerations",
    "nodeSelector": "nodeSelector",
    "podSecurityContext": "securityContext",
    "schedulerName": "schedulerName",
    "priorityClassName": "priorityClassName",
    "hostNetwork": "hostNetwork",
    "dnsConfig": "dnsConfig",
    "terminationGracePeriodSeconds": "terminationGracePeriodSeconds",
    "hostAliases": "hostAliases",
    "shareProcessNamespace": "shareProcessNamespace",
    "initContainers": "initContainers",
}
CONTAINER_FIELDS = ("env", "envFrom", "securityContext", "lifecycle")
NEED_THE_WEBHOOK = ("configMaps", "gpu", "memoryLimit", "ports")

LOCAL_DIRECTORY_PREFIX = "spark-local-dir-"
"""Mounts of this name are Spark's scratch space: Kubeflow gives them to spark-submit as configuration."""


def move_into_template(pod: Mapping[str, Any], volumes: list[Json], container: str, where: str) -> Json:
    """``spec.driver`` or ``spec.executor`` with its plain fields in its template. ``volumes`` are ``spec.volumes``.

    Raises:
        ManifestError: a field is in both places, or only the webhook can apply it.
    """
    moved = dict(pod)
    template = dict(moved.get("template") or {})
    spec = dict(template.get("spec") or {})
    containers = [dict(item) for item in spec.get("containers") or [{"name": container}]]
    chosen = next((item for item in containers if item.get("name") == container), containers[0])
    for field in NEED_THE_WEBHOOK:
        if moved.get(field):
            raise ManifestError(
                f"{where}.{field} is applied by Kubeflow's webhook, which leaves pods with a template alone, and "
                f"placement needs a template: say it in {where}.template"
            )
    for field, target in POD_FIELDS.items():
        _move(moved, field, spec, target, where)
    for field in CONTAINER_FIELDS:
        _move(moved, field, chosen, field, where)
    containers += moved.pop("sidecars", None) or []
    _move_mounts(moved, spec, chosen, volumes, where)
    spec["containers"] = containers
    template["spec"] = spec
    moved["template"] = template
    return moved


def _move(pod: Json, field: str, target: Json, name: str, where: str) -> None:
    value = pod.pop(field, None)
    if value is None:
        return
    if name in target and target[name] != value:
        raise ManifestError(f"{where}.{field} is {value!r}, {where}.template has {target[name]!r}: give it once")
    target[name] = value


def _move_mounts(pod: Json, spec: Json, container: Json, volumes: list[Json], where: str) -> None:
    mounts = pod.pop("volumeMounts", None) or []
    local = [mount for mount in mounts if str(mount.get("name")).startswith(LOCAL_DIRECTORY_PREFIX)]
    if local:
        pod["volumeMounts"] = local
    others = [mount for mount in mounts if mount not in local]
    if not others:
        return
    names = {mount.get("name") for mount in others}
    missing = sorted(str(name) for name in names - {volume.get("name") for volume in volumes})
    if missing:
        raise ManifestError(f"{where}.volumeMounts names {', '.join(missing)}, which spec.volumes does not hold")
    used = [volume for volume in volumes if volume.get("name") in names]
    spec["volumes"] = merge_list(spec.get("volumes"), used, "name", f"{where}.template.spec.volumes")
    container["volumeMounts"] = merge_list(
        container.get("volumeMounts"), others, "mountPath", f"{where}.template.spec.containers"
    )
