"""A labelled Spark application that is made or changed: the same treatment as by ``colocation submit``."""

from typing import Any

from ..model.names import LABEL_GROUP, group_key
from ..submit import GroupView, ManifestError, group_label, prepare
from ..submit.group_view import check_allowed
from .known import Known
from .review import Review, Verdict

REASON = "SparkApplicationRefused"
PATCHED_METADATA = ("labels", "annotations")


def place_application(review: Review, known: Known) -> Verdict:
    """Place the application on the nodes of the group that its label names, or refuse it in the words of ``submit``.

    An update that leaves the spec alone is left alone: another spec would make Kubeflow's operator start the run again.
    """
    application = review.object
    if review.operation not in ("CREATE", "UPDATE") or application is None or not review.changes_spec:
        return Verdict()
    if LABEL_GROUP not in ((application.get("metadata") or {}).get("labels") or {}):
        return Verdict()
    try:
        group = _group(group_label(application), review.namespace, known)
        prepared = prepare(_in_namespace(application, review.namespace), group)
    except ManifestError as error:
        return Verdict.denied(REASON, str(error))
    return Verdict(patch=tuple(_patch(application, prepared.application)), warnings=prepared.warnings)


def _group(reference: str, namespace: str, known: Known) -> GroupView:
    key = group_key(namespace, reference)
    found = known.group(*key)
    if found is None:
        raise ManifestError(_no_such_group(key, namespace))
    check_allowed(key, found.spec.allowed_namespaces if found.spec else (), namespace)
    if key[0] != namespace and namespace not in {member.namespace for member in found.status.members}:
        # The operator keeps what Spark's pods mount only where tables are.
        raise ManifestError(f"group {reference} has no table in namespace {namespace!r}: run where its tables are")
    return GroupView.from_status(
        key, found.status, known.data_root, known.spark_image, namespace,
        freshness=known.freshness,
        spec=found.spec.to_json_dict() if found.spec else {},
        ready=known.ready_nodes,
    )  # fmt: skip


def _no_such_group(key: tuple[str, str], namespace: str) -> str:
    """Those that there are is for the API server to say, which knows who asks."""
    if key[0] != namespace:
        return f"namespace {key[0]!r} has no group {key[1]!r} that namespace {namespace!r} may use; correct the labels"
    listing = f"`kubectl get colocationgroups -n {namespace}` lists those that there are"
    return f"there is no group {key[1]!r} in namespace {namespace!r}; {listing}"


def _in_namespace(application: dict[str, Any], namespace: str) -> dict[str, Any]:
    return {**application, "metadata": {**application["metadata"], "namespace": namespace}}


def _patch(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    """``add`` replaces what is there."""
    pairs = [((), "spec"), *((("metadata",), field) for field in PATCHED_METADATA)]
    return [
        {"op": "add", "path": "/".join(["", *parents, field]), "value": _at(after, parents)[field]}
        for parents, field in pairs
        if _at(before, parents).get(field) != _at(after, parents)[field]
    ]


def _at(value: dict[str, Any], parents: tuple[str, ...]) -> dict[str, Any]:
    for parent in parents:
        value = value[parent]
    return value
