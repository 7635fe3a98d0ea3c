"""Keeps executors on the group's nodes, whatever else a manifest says of nodes.

The nodes that were put into a template are named in its annotation ``colocation.dev/nodes``. So a template that is
prepared again, after the group moved, loses exactly what the earlier preparation added.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..manifests.spark_pods import REQUIRED_AFFINITY
from ..model.names import ANNOTATION_NODES, LABEL_HOSTNAME
from .errors import conflict

Json = dict[str, Any]


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
    their_terms = _distinct(required.get("nodeSelectorTerms") or [{}])
    terms = [_both(theirs_, ours_) for theirs_ in their_terms for ours_ in our_terms if _agree(theirs_, ours_)]
    if not terms:
        raise conflict(f"{where}.nodeAffinity", their_terms, our_terms, "let it name nodes of the group")
    node_affinity[REQUIRED_AFFINITY] = {"nodeSelectorTerms": terms}
    merged["nodeAffinity"] = node_affinity
    return merged


def mark_nodes(template: Mapping[str, Any], nodes: Sequence[str]) -> Json:
    """The template with the annotation that says which nodes were put into its affinity."""
    metadata = dict(template.get("metadata") or {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION_NODES: ",".join(sorted(nodes))}
    return {**template, "metadata": metadata}


def without_marked_nodes(template: Mapping[str, Any]) -> Json:
    """The template as it was before an earlier preparation put nodes into its affinity."""
    metadata = dict(template.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    marked = annotations.pop(ANNOTATION_NODES, None)
    if marked is None:
        return dict(template)
    metadata["annotations"] = annotations
    spec = dict(template.get("spec") or {})
    affinity = _without_nodes(spec.get("affinity") or {}, frozenset(str(marked).split(",")))
    spec.pop("affinity", None)
    if affinity:
        spec["affinity"] = affinity
    if not annotations:
        del metadata["annotations"]
    return {**template, "metadata": metadata, "spec": spec}


def _without_nodes(affinity: Mapping[str, Any], nodes: frozenset[str]) -> Json:
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    terms = (node_affinity.pop(REQUIRED_AFFINITY, None) or {}).get("nodeSelectorTerms") or []
    kept = _distinct(term for term in (_without_node(term, nodes) for term in terms) if term)
    if kept:
        node_affinity[REQUIRED_AFFINITY] = {"nodeSelectorTerms": kept}
    others = {key: value for key, value in affinity.items() if key != "nodeAffinity"}
    return {**others, "nodeAffinity": node_affinity} if node_affinity else others


def _distinct(terms: Iterable[Json]) -> list[Json]:
    kept: list[Json] = []
    for term in terms:
        if term not in kept:
            kept.append(term)
    return kept


def _without_node(term: Mapping[str, Any], nodes: frozenset[str]) -> Json:
    """The term without the last requirement that we added; the author's own may say the same before it."""
    fields = list(term.get("matchFields") or [])
    ours = [index for index, field in enumerate(fields) if any(field == _on_node(node) for node in nodes)]
    if ours:
        del fields[ours[-1]]
    others = {key: value for key, value in term.items() if key != "matchFields"}
    return {**others, "matchFields": fields} if fields else others


def _on_node(node: str) -> Json:
    return {"key": "metadata.name", "operator": "In", "values": [node]}


def _both(theirs: Json, ours: Json) -> Json:
    return {**theirs, "matchFields": [*(theirs.get("matchFields") or []), *ours["matchFields"]]}


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


def check_node_selector(selector: Mapping[str, str] | None, nodes: Iterable[str], where: str) -> None:
    """Refuse a node selector that pins pods to a node that is not the group's.

    Raises:
        ManifestError: it does.
    """
    nodes = list(nodes)
    pinned = (selector or {}).get(LABEL_HOSTNAME)
    if pinned is not None and nodes and pinned not in nodes:
        raise conflict(f"{where}[{LABEL_HOSTNAME}]", pinned, nodes, "let it name a node of the group")
