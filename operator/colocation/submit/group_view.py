"""A group as submission sees it, and the decision whether an application's joins in it are colocated. Pure.

The decision is the state at submission. It is shown to people; the application does not obey it, since each session
decides again when it plans a query.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..manifests.spark_pods import SparkPlacement
from ..model.base import Frozen
from ..model.conditions import Reason
from ..model.group import ColocationGroupStatus, ExecutorAffinity, namespace_refusal
from ..model.names import AGENTS_KEY, DEFAULT_DATA_ROOT, LABEL_GROUP, LABEL_GROUP_NAMESPACE
from ..model.reader_rules import CURRENT, Freshness, Liveness, few_buckets, liveness
from .manifest import ManifestError, require_mapping

CONFIGURATION_KEY = "spark-defaults.conf"


class GroupView(Frozen):
    """What a submission needs of a group. ``reason`` and ``message``: the operator's words on why it is not stable.

    Where the operator's verdict no longer holds, the group is not stable: ``OperatorSilent``. ``liveness``: whether it
    can be read all the same. ``buckets``: 0 = not known. ``nodes``: of its map as it is now.

    ``namespace`` is where the application runs; ``group_namespace`` is the group's own when that is another one.
    """

    namespace: str
    name: str
    stable: bool
    group_namespace: str | None = None
    reason: str = ""
    message: str = ""
    liveness: Liveness = Liveness()
    buckets: int = 0
    nodes: tuple[str, ...] = ()
    executor_affinity: ExecutorAffinity = "Required"
    data_root: str = DEFAULT_DATA_ROOT
    spark_image: str | None = None

    @classmethod
    def from_objects(
        cls,
        group: Mapping[str, Any],
        config_map: Mapping[str, Any],
        namespace: str | None = None,
        freshness: Freshness = CURRENT,
    ) -> "GroupView":
        """From the ColocationGroup and the ConfigMap that the operator keeps of it in the application's namespace.

        Raises:
            ManifestError: the group does not allow the application's namespace.
        """
        status = ColocationGroupStatus.model_validate(group.get("status") or {})
        data = config_map.get("data") or {}
        conf = read_properties(data.get(CONFIGURATION_KEY, ""))
        key = (group["metadata"]["namespace"], group["metadata"]["name"])
        spec = group.get("spec") or {}
        check_allowed(key, spec.get("allowedNamespaces") or (), namespace or key[0])
        data_root = conf.get("spark.colocation.dataRoot", DEFAULT_DATA_ROOT)
        image = conf.get("spark.kubernetes.container.image")
        ready = read_ready_nodes(data.get(AGENTS_KEY, ""))
        return cls.from_status(
            key, status, data_root, image, namespace, freshness=freshness, spec=spec, ready=ready
        )

    @classmethod
    def from_status(
        cls,
        key: tuple[str, str],
        status: ColocationGroupStatus,
        data_root: str,
        spark_image: str | None,
        namespace: str | None = None,
        *,
        freshness: Freshness = CURRENT,
        spec: Mapping[str, Any] | None = None,
        ready: Collection[str] = (),
    ) -> "GroupView":
        """From what the operator reports about a group.

        ``key`` is the group's (namespace, name); ``namespace`` the application's, None = the group's; ``freshness``:
        whether that report still holds; ``spec``: the group's, as JSON; ``ready``: nodes whose agents are ready; the
        rest the installation's.
        """
        spec = spec or {}
        stable_condition = next((item for item in status.conditions if item.type == "Stable"), None)
        reason = status.reason or (stable_condition.reason if stable_condition else "")
        message = stable_condition.message if stable_condition else ""
        if not freshness.is_current:
            reason, message = Reason.OPERATOR_SILENT, freshness.message
        return cls(
            namespace=namespace or key[0],
            name=key[1],
            group_namespace=key[0] if namespace not in (None, key[0]) else None,
            stable=status.stable is True and freshness.is_current,
            reason=reason,
            message=message,
            liveness=liveness(status, ready) if freshness.is_current else Liveness(),
            buckets=spec.get("buckets") or 0,
            nodes=status.nodes,
            executor_affinity=spec.get("executorAffinity") or "Required",
            data_root=data_root,
            spark_image=spark_image,
        )

    @property
    def full_name(self) -> str:
        """``<namespace>/<name>`` of the group."""
        return f"{self.group_namespace or self.namespace}/{self.name}"

    @property
    def required_nodes(self) -> tuple[str, ...]:
        """The nodes outside of which no executor may start, as they are now; empty = it may start anywhere."""
        return self.nodes if self.executor_affinity == "Required" else ()

    @property
    def labels(self) -> dict[str, str]:
        """The labels of an application of this group."""
        other = {LABEL_GROUP_NAMESPACE: self.group_namespace} if self.group_namespace else {}
        return {LABEL_GROUP: self.name, **other}

    @property
    def placement(self) -> SparkPlacement:
        """The values for the pod templates."""
        return SparkPlacement(
            namespace=self.namespace,
            group=self.name,
            group_namespace=self.group_namespace,
            has_map=bool(self.nodes),
            executor_affinity=self.executor_affinity,
            data_root=self.data_root,
            spark_image=self.spark_image,
        )

    @property
    def instability(self) -> str:
        """Why the group is not stable, e.g. ``NodeNotReady: node-2 …``, without a full stop."""
        if not self.reason:
            return "the operator has not reported on it yet"
        return f"{self.reason}: {self.message.rstrip('.')}" if self.message else self.reason


def check_allowed(group: tuple[str, str], allowed: Iterable[str], namespace: str) -> None:
    """Refuse an application for a group of another namespace that does not allow the application's own.

    Raises:
        ManifestError: naming the namespaces that it allows.
    """
    refusal = namespace_refusal(group, allowed, namespace)
    if refusal:
        raise ManifestError(refusal)


def read_ready_nodes(agents: str) -> frozenset[str]:
    """The nodes in ``agents.json`` of a group's ConfigMap; what cannot be read names none."""
    try:
        urls = json.loads(agents or "{}")
    except ValueError:
        return frozenset()
    return frozenset(urls) if isinstance(urls, dict) else frozenset()


def read_properties(text: str) -> dict[str, str]:
    """``spark-defaults.conf``: one key and value per line, apart by white space or ``=``."""
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.replace("=", " ", 1).split(None, 1) for line in lines if line and not line.startswith("#")]
    return {pair[0]: pair[1] if len(pair) == 2 else "" for pair in pairs}


def group_label(application: Mapping[str, Any]) -> str:
    """The group that a SparkApplication is labelled with: ``sales``, or ``accounts/sales`` of another namespace.

    Raises:
        ManifestError: there is no such label.
    """
    metadata = require_mapping(application.get("metadata"), "metadata")
    labels = require_mapping(metadata.get("labels"), "metadata.labels")
    group = labels.get(LABEL_GROUP)
    if not isinstance(group, str) or not group:
        raise ManifestError(
            f"metadata.labels has no {LABEL_GROUP!r}: label the application with the group whose tables it joins, "
            f"e.g. {LABEL_GROUP}: sales"
        )
    namespace = labels.get(LABEL_GROUP_NAMESPACE)
    return f"{namespace}/{group}" if namespace else group


WHEN_UNSTABLE = "spark.colocation.whenUnstable"
DISABLE_COLOCATE_JOIN = "spark.colocation.disableColocateJoin"


class Decision(Frozen):
    """Whether joins of the group's tables run without a shuffle; ``reason``: why not; ``note``: what qualifies it."""

    colocated: bool
    reason: str = ""
    note: str = ""

    def __str__(self) -> str:
        """As in ``explain``: ``colocate: true``, ``colocate: true, note: …`` or ``colocate: false, reason: …``."""
        text = f"colocate: {str(self.colocated).lower()}"
        text = f"{text}, reason: {self.reason}" if self.reason else text
        return f"{text}, note: {self.note}" if self.note else text


def decide(group: GroupView, conf: Mapping[str, str], cores: int = 0) -> Decision:
    """What an application that starts now would get: as Spark's sessions decide, in the operator's words.

    Args:
        group: as it is now.
        conf: the application's Spark configuration.
        cores: that its executors have together; 0 = not known.

    Raises:
        ManifestError: a switch has a value that is not allowed.
    """
    if switch(conf, DISABLE_COLOCATE_JOIN, ("true", "false"), default="false") == "true":
        return Decision(colocated=False, reason="Session disabled")
    remark = few_buckets(group.full_name, group.buckets, cores) if group.buckets else ""
    when_unstable = switch(conf, WHEN_UNSTABLE, ("live", "shuffle", "colocated"), default="live")
    if group.stable:
        return Decision(colocated=True, note=remark)
    not_stable = f"group is not stable: {group.instability}"
    if when_unstable == "colocated" or (when_unstable == "live" and group.liveness.is_whole):
        notes = (f"{not_stable}; buckets are read from live replicas", remark)
        return Decision(colocated=True, note="; ".join(filter(None, notes)))
    dead = group.liveness.message if when_unstable == "live" else ""
    return Decision(colocated=False, reason="; ".join(filter(None, (not_stable, dead))))


def switch(conf: Mapping[str, str], key: str, allowed: tuple[str, ...], *, default: str) -> str:
    """The value of a configuration key that takes one of a few words.

    Raises:
        ManifestError: it holds another word.
    """
    value = conf.get(key, default)
    if value not in allowed:
        raise ManifestError(f"{key} is {value!r}; allowed: {', '.join(allowed)}")
    return value
