"""Adds the placement's pieces to a manifest: what it says is kept, ours is added, a contradiction is refused."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..manifests.spark_pods import REQUIRED_AFFINITY
from ..model.names import LABEL_HOSTNAME
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


def merge_affinity(theirs: Mapping[str, Any] | None, ours: Mapping[str, Any], where: str) -> Json:
    """Their affinity, and on the group's nodes only.

    Kubernetes takes a node that fits any term, and within a term everything must fit; so each of their terms is
    paired with each node of the group.

    Raises:
        ManifestError: their terms name nodes, and none of these is the group's.
    """
    merged = dict(theirs or {})
    node_affinity = dict(merged.get("nodeAffinity") or {})
    required = node_affinity.get(REQUIRED_AFFINITY) or {}
    our_terms = ours["nodeAffinity"][REQUIRED_AFFINITY]["nodeSelectorTerms"]
    their_terms = required.get("nodeSelectorTerms") or [{}]
    terms = [_both(theirs_, ours_) for theirs_ in their_terms for ours_ in our_terms if _agree(theirs_, ours_)]
    if not terms:
        raise conflict(f"{where}.nodeAffinity", their_terms, our_terms, "let it name nodes of the group")
    node_affinity[REQUIRED_AFFINITY] = {"nodeSelectorTerms": terms}
    merged["nodeAffinity"] = node_affinity
    return merged


def _both(theirs: Json, ours: Json) -> Json:
    fields = theirs.get("matchFields") or []
    return {**theirs, "matchFields": [*fields, *(item for item in ours["matchFields"] if item not in fields)]}


def _agree(theirs: Json, ours: Json) -> bool:
    node = ours["matchFields"][0]["values"][0]
    named = [item for item in theirs.get("matchFields") or [] if item.get("key") == "metadata.name"]
    named += [item for item in theirs.get("matchExpressions") or [] if item.get("key") == LABEL_HOSTNAME]
    return all(_admits(item, node) for item in named)


def _admits(requirement: Json, node: str) -> bool:
    values, operator = requirement.get("values") or [], requirement.get("operator")
    if operator == "In":
        return node in values
    return node not in values if operator == "NotIn" else True


def check_node_selector(selector: Mapping[str, str] | None, nodes: Sequence[str], where: str) -> None:
    """Refuse a node selector that pins pods to a node that is not the group's.

    Raises:
        ManifestError: it does.
    """
    pinned = (selector or {}).get(LABEL_HOSTNAME)
    if pinned is not None and nodes and pinned not in nodes:
        raise conflict(f"{where}[{LABEL_HOSTNAME}]", pinned, list(nodes), "let it name a node of the group")


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
