"""Adds the placement's pieces to a manifest: its values are kept, ours are added, a contradiction is refused."""

from collections.abc import Mapping, Sequence
from typing import Any

from .affinity import merge_affinity
from .errors import ManifestError, conflict

Json = dict[str, Any]


def merge_pod_template(theirs: Mapping[str, Any], ours: Mapping[str, Any], container: str, where: str) -> Json:
    """A pod template with everything of both.

    ``container`` is Spark's container in ``ours``; in ``theirs`` it is the one of that name, else the first, as Spark
    itself chooses. ``where`` is the template's path in the manifest, for messages.

    Raises:
        ManifestError: the two contradict each other.
    """
    metadata, spec = dict(theirs.get("metadata") or {}), dict(theirs.get("spec") or {})
    metadata["labels"] = merge_map(metadata.get("labels"), ours["metadata"]["labels"], f"{where}.metadata.labels")
    our_spec = ours["spec"]
    our_container = our_spec["containers"][0]
    spec["containers"] = _merge_containers(spec.get("containers"), our_container, container, f"{where}.spec")
    spec["volumes"] = merge_list(spec.get("volumes"), our_spec["volumes"], "name", f"{where}.spec.volumes")
    asks_for_root = _asks_for_root(spec.get("securityContext"), _chosen(spec["containers"], container))
    ours_of_pod = {key: value for key, value in our_spec["securityContext"].items()
                   if not (asks_for_root and key == "runAsNonRoot")}  # fmt: skip
    spec["securityContext"] = merge_security(spec.get("securityContext"), ours_of_pod)
    if "affinity" in our_spec:
        spec["affinity"] = merge_affinity(spec.get("affinity"), our_spec["affinity"])
    if "topologySpreadConstraints" in our_spec:
        spec["topologySpreadConstraints"] = _merge_spreading(
            spec.get("topologySpreadConstraints"), our_spec["topologySpreadConstraints"]
        )
    return {**{key: value for key, value in theirs.items() if key not in ("metadata", "spec")},
            "metadata": metadata, "spec": spec}


def _merge_containers(theirs: Sequence[Json] | None, ours: Json, name: str, where: str) -> list[Json]:
    containers = [dict(item) for item in theirs or [{"name": name}]]
    chosen = _chosen(containers, name)
    path = f"{where}.containers[{containers.index(chosen)}]"
    if "env" in ours:
        chosen["env"] = merge_list(chosen.get("env"), ours["env"], "name", f"{path}.env")
    mounts = merge_list(chosen.get("volumeMounts"), ours["volumeMounts"], "mountPath", f"{path}.volumeMounts")
    chosen["volumeMounts"] = mounts
    chosen["securityContext"] = merge_security(chosen.get("securityContext"), ours["securityContext"])
    return containers


def _chosen(containers: Sequence[Json], name: str) -> Json:
    """Spark's container: the one of that name, else the first."""
    return next((item for item in containers if item.get("name") == name), containers[0])


def merge_security(theirs: Mapping[str, Any] | None, ours: Mapping[str, Any]) -> Json:
    """A security context: the manifest's values, and what Pod Security *restricted* requires in addition."""
    given = dict(theirs or {})
    if given.get("privileged"):
        return given  # Kubernetes refuses a privileged container that may not gain privileges
    return {**ours, **given}


def _asks_for_root(of_pod: Mapping[str, Any] | None, container: Json) -> bool:
    """Whether Spark's container is to run as root, where its namespace allows that."""
    security = {**(of_pod or {}), **(container.get("securityContext") or {})}
    return security.get("runAsUser") == 0


def merge_list(theirs: Sequence[Json] | None, ours: Sequence[Json], key: str, where: str) -> list[Json]:
    """Theirs, then those of ours that are not there. Two entries with the same ``key`` must be equal.

    Raises:
        ManifestError: they are not.
    """
    merged = list(theirs or [])
    known = {item.get(key): item for item in merged}
    for item in ours:
        given = known.get(item[key])
        if given is None:
            merged.append(item)
        elif given != item:
            raise conflict(f"{where}[{key}={item[key]}]", given, item)
    return merged


def merge_map(theirs: Mapping[str, str] | None, ours: Mapping[str, str], where: str) -> dict[str, str]:
    """Both maps in one. A key in both must have one value.

    Raises:
        ManifestError: it has two.
    """
    merged = dict(require_mapping(theirs, where))
    for key, value in ours.items():
        if merged.setdefault(key, value) != value:
            raise conflict(f"{where}[{key}]", merged[key], value)
    return merged


def _merge_spreading(theirs: Sequence[Json] | None, ours: Sequence[Json]) -> list[Json]:
    """Spreading is a wish: the manifest's own constraint on a topology key is kept."""
    chosen = {item.get("topologyKey") for item in theirs or []}
    return [*(theirs or []), *(item for item in ours if item["topologyKey"] not in chosen)]


def require_mapping(value: object, where: str) -> Json:
    """``value`` as a mapping; absent is empty.

    Raises:
        ManifestError: it is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ManifestError(f"{where} is {value!r}; allowed: a mapping")
    return value
