"""Keeps executors on the group's nodes, in addition to the manifest's own affinity.

The group's nodes have a label that the operator keeps, so nothing in a template goes stale when the group moves. The
label that was put into a template is named in its annotation ``colocation.dev/node-label``, so a template that is
prepared again, for another group, loses exactly what the earlier preparation added. Earlier releases put in the nodes'
names (annotation ``colocation.dev/nodes``); those go as well.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ..manifests.spark_pods import MAX_PREFERENCE, PREFERRED_AFFINITY, REQUIRED_AFFINITY, on_labelled_node
from ..model.names import ANNOTATION_NODE_LABEL, ANNOTATION_NODES, LABEL_HOSTNAME
from .errors import conflict

Json = dict[str, Any]
REQUIREMENTS = ("matchExpressions", "matchFields")


def merge_affinity(theirs: Mapping[str, Any] | None, ours: Mapping[str, Any]) -> Json:
    """Their affinity and ours.

    Kubernetes takes a node that fits any term, and within a term everything must fit; so each of their terms gets what
    ours requires. A term without requirements fits no node and is left out. A preference of ours is
    added to theirs.
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
    """The template with the annotation that names the label put into its affinity."""
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
    """Without the last item that we added; the author's own may say the same before it."""
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
