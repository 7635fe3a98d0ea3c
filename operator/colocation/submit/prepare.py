"""A manifest in, the same manifest with the placement of its group out. Pure; what ``submit`` and the webhook share."""

import copy
from collections.abc import Mapping
from typing import Any

from ..model.base import Frozen
from ..model.names import ANNOTATION_DECISION
from . import apache, kubeflow
from .decision import Decision
from .errors import ManifestError, conflict
from .group_view import GroupView
from .kinds import ApplicationKind, kind_of
from .merge import Json, merge_map, require_mapping
from .shape import check_shape

PLACE = {"kubeflow": kubeflow.place_application, "scheduled": kubeflow.place_schedule,
         "apache": apache.place_application}  # fmt: skip


class PreparedApplication(Frozen):
    """What is to be created, of which kind, and the decision that was taken for it."""

    application: dict[str, Any]
    decision: Decision
    kind: ApplicationKind


def prepare(application: Mapping[str, Any], group: GroupView) -> PreparedApplication:
    """An application whose executors run where the group's buckets lie, and the decision colocated or not.

    The manifest's values are kept. The executors get the group's nodes (required), spreading, the data mount
    (read-only), the token and CA, and their node's name; the driver gets the token and CA; the application gets
    Spark's configuration. Prepared again, a manifest is as if it had been prepared once, for the group as it is now.

    Raises:
        ManifestError: no application, or it contradicts what the group needs (both values are named).
    """
    kind = kind_of(application)
    check_shape(application)
    prepared: Json = copy.deepcopy(dict(application))
    metadata = prepared["metadata"] = require_mapping(prepared.get("metadata"), "metadata")
    if not (metadata.get("name") or metadata.get("generateName")):
        raise ManifestError("metadata has neither name nor generateName: give one")
    metadata["labels"] = merge_map(metadata.get("labels"), group.labels, "metadata.labels")
    metadata.setdefault("namespace", group.namespace)
    if metadata["namespace"] != group.namespace:
        raise conflict("metadata.namespace", metadata["namespace"], group.namespace, "submit it there")
    decision = PLACE[kind.flavour](prepared, group)
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION_DECISION: str(decision)}
    return PreparedApplication(application=prepared, decision=decision, kind=kind)
