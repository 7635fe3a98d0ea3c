"""A colocation group as a submitter sees it: is it stable, where do its buckets lie, with which settings."""

from collections.abc import Mapping
from typing import Any

from ..manifests.spark_pods import SparkPlacement
from ..model.base import Frozen
from ..model.group import ColocationGroupStatus
from ..model.names import DEFAULT_DATA_ROOT, LABEL_GROUP
from .errors import ManifestError

CONFIGURATION_KEY = "spark-defaults.conf"


class GroupView(Frozen):
    """What a submission needs of a group. ``reason`` and ``message``: the operator's words on why it is not stable."""

    namespace: str
    name: str
    stable: bool
    reason: str = ""
    message: str = ""
    nodes: tuple[str, ...] = ()
    data_root: str = DEFAULT_DATA_ROOT
    spark_image: str | None = None

    @classmethod
    def from_objects(cls, group: Mapping[str, Any], config_map: Mapping[str, Any]) -> "GroupView":
        """From the ColocationGroup and the ConfigMap ``<group>-spark`` that the operator keeps beside it."""
        status = ColocationGroupStatus.model_validate(group.get("status") or {})
        conf = read_properties((config_map.get("data") or {}).get(CONFIGURATION_KEY, ""))
        stable_condition = next((item for item in status.conditions if item.type == "Stable"), None)
        return cls(
            namespace=group["metadata"]["namespace"],
            name=group["metadata"]["name"],
            stable=status.stable is True,
            reason=status.reason or (stable_condition.reason if stable_condition else ""),
            message=stable_condition.message if stable_condition else "",
            nodes=status.nodes,
            data_root=conf.get("spark.colocation.dataRoot", DEFAULT_DATA_ROOT),
            spark_image=conf.get("spark.kubernetes.container.image"),
        )

    @property
    def placement(self) -> SparkPlacement:
        """What the pod templates are made from."""
        return SparkPlacement(
            namespace=self.namespace,
            group=self.name,
            nodes=self.nodes,
            data_root=self.data_root,
            spark_image=self.spark_image,
        )

    @property
    def instability(self) -> str:
        """Why the group is not stable, e.g. ``NodeNotReady: node-2 …``."""
        if not self.reason:
            return "the operator has not reported on it yet"
        return f"{self.reason}: {self.message}" if self.message else self.reason


def read_properties(text: str) -> dict[str, str]:
    """``spark-defaults.conf``: one key and value per line, apart by white space or ``=``."""
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.replace("=", " ", 1).split(None, 1) for line in lines if line and not line.startswith("#")]
    return {pair[0]: pair[1] if len(pair) == 2 else "" for pair in pairs}


def group_label(application: Mapping[str, Any]) -> str:
    """The group that a SparkApplication is labelled with.

    Raises:
        ManifestError: there is no such label.
    """
    labels = (application.get("metadata") or {}).get("labels") or {}
    group = labels.get(LABEL_GROUP)
    if not isinstance(group, str) or not group:
        raise ManifestError(
            f"metadata.labels has no {LABEL_GROUP!r}: label the application with the group whose tables it joins, "
            f"e.g. {LABEL_GROUP}: sales"
        )
    return group
