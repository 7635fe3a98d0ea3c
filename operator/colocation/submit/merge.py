"""Adds the placement's pieces to a manifest: what it says is kept, ours is added, a contradiction is refused."""

from collections.abc import Mapping, Sequence
from typing import Any

from .affinity import merge_affinity
from .errors import ManifestError, conflict

Json = dict[str, Any]


def merge_pod_template(theirs: Mapping[str, Any], ours: Mapping[str, Any], container: str, where: str) -> Json:
    """A pod template that says all of both.

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
    if "affinity" in our_spec:
        spec["affinity"] = merge_affinity(spec.get("affinity"), our_spec["affinity"], f"{where}.spec.affinity")
    if "topologySpreadConstraints" in our_spec:
        spec["topologySpreadConstraints"] = _merge_spreading(
            spec.get("topologySpreadConstraints"), our_spec["topologySpreadConstraints"]
        )
    return {**{key: value for key, value in theirs.items() if key not in ("metadata", "spec")},
            "metadata": metadata, "spec": spec}


def _merge_containers(theirs: Sequence[Json] | None, ours: Json, name: str, where: str) -> list[Json]:
    containers = [dict(item) for item in theirs or [{"name": name}]]
    index = next((number for number, item in enumerate(containers) if item.get("name") == name), 0)
    chosen, path = containers[index], f"{where}.containers[{index}]"
    if "env" in ours:
        chosen["env"] = merge_list(chosen.get("env"), ours["env"], "name", f"{path}.env")
    mounts = merge_list(chosen.get("volumeMounts"), ours["volumeMounts"], "mountPath", f"{path}.volumeMounts")
    chosen["volumeMounts"] = mounts
    return containers


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
    merged = dict(theirs or {})
    for key, value in ours.items():
        if merged.setdefault(key, value) != value:
            raise conflict(f"{where}[{key}]", merged[key], value)
    return merged


def _merge_spreading(theirs: Sequence[Json] | None, ours: Sequence[Json]) -> list[Json]:
    """Spreading is a wish: who says how to spread over a topology key is not overruled."""
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
