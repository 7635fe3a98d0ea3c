"""Adds the placement to the pod templates of driver and executors: keeps theirs, adds ours, refuses a contradiction.

Executors stay on the group's nodes, whatever else a manifest requires of nodes. These nodes have a label that the
operator keeps, so no template goes stale when the group moves. The label that was put into a template is named in its
annotation ``colocation.dev/node-label``, so a template that is prepared again, for another group, loses exactly what
the earlier preparation added. Earlier releases put in the nodes' names (annotation ``colocation.dev/nodes``); those go
as well.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..manifests.spark_pods import (
    MAX_PREFERENCE,
    PREFERRED_AFFINITY,
    REQUIRED_AFFINITY,
    driver_pod_template,
    executor_pod_template,
    on_labelled_node,
)
from ..model.names import ANNOTATION_NODE_LABEL, ANNOTATION_NODES, LABEL_HOSTNAME
from .group_view import GroupView
from .manifest import Json, conflict, require_mapping

REQUIREMENTS = ("matchExpressions", "matchFields")


def merge_affinity(theirs: Mapping[str, Any] | None, ours: Mapping[str, Any]) -> Json:
    """Their affinity and ours.

    Kubernetes takes a node that fits any term, and within a term everything must fit; so each of their terms gets what
    ours requires. A term without requirements fits no node and is left out. Our preference is added to theirs.
    """
    merged = dict(theirs or {})
    node_affinity = dict(merged.get("nodeAffinity") or {})
    our_affinity = ours["nodeAffinity"]
    if REQUIRED_AFFINITY in our_affinity:
        required = node_affinity.get(REQUIRED_AFFINITY) or {}
        given = required.get("nodeSelectorTerms") or []
        their_terms = _distinct(term for term in given if any(term.get(kind) for kind in REQUIREMENTS)) or [{}]
        our_terms = our_affinity[REQUIRED_AFFINITY]["nodeSelectorTerms"]
        terms = [_both(their, our) for their in their_terms for our in our_terms]
        node_affinity[REQUIRED_AFFINITY] = {"nodeSelectorTerms": terms}
    if PREFERRED_AFFINITY in our_affinity:
        preferred = [*(node_affinity.get(PREFERRED_AFFINITY) or []), *our_affinity[PREFERRED_AFFINITY]]
        node_affinity[PREFERRED_AFFINITY] = preferred
    merged["nodeAffinity"] = node_affinity
    return merged


def _both(theirs: Json, ours: Json) -> Json:
    lists = {kind: [*(theirs.get(kind) or []), *(ours.get(kind) or [])] for kind in REQUIREMENTS}
    return {**theirs, **{kind: found for kind, found in lists.items() if found}}


def mark_node_label(template: Mapping[str, Any], label: str) -> Json:
    """The template with the annotation that names the label in its affinity."""
    metadata = dict(template.get("metadata") or {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION_NODE_LABEL: label}
    return {**template, "metadata": metadata}


def without_our_affinity(template: Mapping[str, Any]) -> Json:
    """The template as it was before an earlier preparation put the group's nodes into its affinity."""
    metadata = dict(template.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    label, nodes = annotations.pop(ANNOTATION_NODE_LABEL, None), annotations.pop(ANNOTATION_NODES, None)
    ours = [on_labelled_node(str(label))] if label is not None else []
    ours += [_on_node(node) for node in str(nodes).split(",")] if nodes is not None else []
    if not ours:
        return dict(template)
    metadata["annotations"] = annotations
    spec = dict(template.get("spec") or {})
    affinity = _without(spec.get("affinity") or {}, ours)
    spec.pop("affinity", None)
    if affinity:
        spec["affinity"] = affinity
    if not annotations:
        del metadata["annotations"]
    return {**template, "metadata": metadata, "spec": spec}


def _without(affinity: Mapping[str, Any], ours: list[Json]) -> Json:
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    terms = (node_affinity.pop(REQUIRED_AFFINITY, None) or {}).get("nodeSelectorTerms") or []
    kept = _distinct(term for term in (_without_requirement(term, ours) for term in terms) if term)
    if kept:
        node_affinity[REQUIRED_AFFINITY] = {"nodeSelectorTerms": kept}
    preferred = list(node_affinity.pop(PREFERRED_AFFINITY, None) or [])
    preferences = [{"weight": MAX_PREFERENCE, "preference": {"matchExpressions": [one]}} for one in ours]
    preferred = _without_last(preferred, preferences)
    if preferred:
        node_affinity[PREFERRED_AFFINITY] = preferred
    others = {key: value for key, value in affinity.items() if key != "nodeAffinity"}
    return {**others, "nodeAffinity": node_affinity} if node_affinity else others


def _without_requirement(term: Json, ours: list[Json]) -> Json:
    lists = {kind: _without_last(list(term.get(kind) or []), ours) for kind in REQUIREMENTS}
    others = {key: value for key, value in term.items() if key not in REQUIREMENTS}
    return {**others, **{kind: found for kind, found in lists.items() if found}}


def _without_last(items: list[Json], ours: list[Json]) -> list[Json]:
    """Without the last item that we added; the author's own may be equal and come before it."""
    found = [index for index, item in enumerate(items) if item in ours]
    return [item for index, item in enumerate(items) if not found or index != found[-1]]


def _distinct(terms: Iterable[Json]) -> list[Json]:
    kept: list[Json] = []
    for term in terms:
        if term not in kept:
            kept.append(term)
    return kept


def _on_node(node: str) -> Json:
    return {"key": "metadata.name", "operator": "In", "values": [node]}


def check_named_nodes(affinity: Mapping[str, Any] | None, nodes: Iterable[str], where: str) -> None:
    """Refuse an affinity that names nodes none of which is the group's: no executor would ever start.

    Args:
        affinity: theirs.
        nodes: the group's, as they are now; empty = any will do.
        where: the affinity's path in the manifest, for the message.

    Raises:
        ManifestError: it does.
    """
    nodes = list(nodes)
    required = ((affinity or {}).get("nodeAffinity") or {}).get(REQUIRED_AFFINITY) or {}
    terms = _distinct(required.get("nodeSelectorTerms") or [])
    if nodes and terms and not any(_admits_node(term, node) for term in terms for node in nodes):
        raise conflict(f"{where}.nodeAffinity", terms, nodes, "let it name nodes of the group")


def _admits_node(term: Json, node: str) -> bool:
    named = [item for item in term.get("matchFields") or [] if item.get("key") == "metadata.name"]
    named += [item for item in term.get("matchExpressions") or [] if item.get("key") == LABEL_HOSTNAME]
    return all(_admits(item, node) for item in named)


def _admits(requirement: Json, node: str) -> bool:
    values, operator = requirement.get("values") or [], requirement.get("operator")
    if operator == "In":
        return node in values
    return node not in values if operator == "NotIn" else True


def check_node_selector(selector: Mapping[str, str] | None, nodes: Iterable[str], where: str) -> None:
    """Refuse a node selector that pins pods to a node that is not the group's.

    Raises:
        ManifestError: it does.
    """
    nodes = list(nodes)
    pinned = (selector or {}).get(LABEL_HOSTNAME)
    if pinned is not None and nodes and pinned not in nodes:
        raise conflict(f"{where}[{LABEL_HOSTNAME}]", pinned, nodes, "let it name a node of the group")


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
    """A security context: the manifest's settings, and ours for what else Pod Security *restricted* asks for."""
    given = dict(theirs or {})
    if given.get("privileged"):
        return given  # Kubernetes refuses a privileged container that may not gain privileges
    return {**ours, **given}


def _asks_for_root(of_pod: Mapping[str, Any] | None, container: Json) -> bool:
    """Whether Spark's container is to run as root, where its namespace allows that."""
    security = {**(of_pod or {}), **(container.get("securityContext") or {})}
    return security.get("runAsUser") == 0


def merge_list(theirs: Sequence[Json] | None, ours: Sequence[Json], key: str, where: str) -> list[Json]:
    """Theirs, then those of ours that theirs lack. Two entries with the same ``key`` must be equal.

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
    """Theirs, and ours for topology keys that theirs do not spread over."""
    chosen = {item.get("topologyKey") for item in theirs or []}
    return [*(theirs or []), *(item for item in ours if item["topologyKey"] not in chosen)]


def place_driver(template: Mapping[str, Any], container: str, group: GroupView, where: str) -> Json:
    """The driver's template with token and CA.

    ``container`` is the name of Spark's container. ``where`` is the template's path in the manifest, for messages.

    Raises:
        ManifestError: it contradicts what the driver needs.
    """
    return merge_pod_template(template, driver_pod_template(group.placement), container, where)


def place_executor(template: Mapping[str, Any], container: str, group: GroupView, where: str) -> Json:
    """The executors' template on the group's nodes, with spreading, the data mount, token, CA and their node's name.

    Raises:
        ManifestError: it contradicts what executors need.
    """
    theirs = without_our_affinity(template)
    check_named_nodes((theirs.get("spec") or {}).get("affinity"), group.required_nodes, f"{where}.spec.affinity")
    placed = merge_pod_template(theirs, executor_pod_template(group.placement), container, where)
    check_node_selector(placed["spec"].get("nodeSelector"), group.required_nodes, f"{where}.spec.nodeSelector")
    return mark_node_label(placed, group.placement.node_label)
