"""The supported kinds of Spark application, the shape that their manifests must have, and how one is refused. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

from ..model.base import Frozen

Json = dict[str, Any]


class ManifestError(ValueError):
    """A manifest that cannot be submitted. Its message has the field, the value, what is allowed, the remedy."""


def conflict(where: str, given: object, needed: object, advice: str = "remove yours") -> ManifestError:
    """The error for a field whose value contradicts what the placement needs."""
    return ManifestError(f"{where} is {given!r} in the manifest, but the group needs {needed!r}: {advice}")


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


Flavour = Literal["kubeflow", "scheduled", "connect", "apache"]
_ANYWHERE = "--direct runs applications without any"
WITHOUT_OPERATOR: dict[Flavour, str] = {
    "kubeflow": _ANYWHERE,
    "apache": _ANYWHERE,
    "scheduled": "--direct runs a SparkApplication, once",
    "connect": "without it submit a SparkApplication that serves Spark Connect (examples/sql-server)",
}
"""What to do where no Spark operator is."""


class ApplicationKind(Frozen):
    """One kind in one API version. ``operator``: whose it is, for messages."""

    group: str
    version: str
    kind: str
    plural: str
    flavour: Flavour
    operator: str

    @property
    def api_version(self) -> str:
        """As in manifests."""
        return f"{self.group}/{self.version}"

    @property
    def resource(self) -> str:
        """As kubectl takes it, with the group, since both operators have ``sparkapplications``."""
        return f"{self.plural}.{self.group}"


KUBEFLOW_GROUP, APACHE_GROUP = "sparkoperator.k8s.io", "spark.apache.org"
KUBEFLOW_OPERATOR, APACHE_OPERATOR = "Kubeflow's Spark operator", "Apache's Spark operator"

KUBEFLOW = ApplicationKind(
    group=KUBEFLOW_GROUP, version="v1beta2", kind="SparkApplication", plural="sparkapplications", flavour="kubeflow",
    operator=KUBEFLOW_OPERATOR,
)  # fmt: skip
SCHEDULED = ApplicationKind(
    group=KUBEFLOW_GROUP, version="v1beta2", kind="ScheduledSparkApplication", plural="scheduledsparkapplications",
    flavour="scheduled", operator=KUBEFLOW_OPERATOR,
)  # fmt: skip
CONNECT = ApplicationKind(
    group=KUBEFLOW_GROUP, version="v1alpha1", kind="SparkConnect", plural="sparkconnects", flavour="connect",
    operator=KUBEFLOW_OPERATOR,
)  # fmt: skip
APACHE_VERSIONS = ("v1", "v1beta1", "v1alpha1")
"""Apache's spec is the same in all three for what we read and write."""
APACHE = tuple(
    ApplicationKind(
        group=APACHE_GROUP, version=version, kind="SparkApplication", plural="sparkapplications", flavour="apache",
        operator=APACHE_OPERATOR,
    )
    for version in APACHE_VERSIONS
)  # fmt: skip
KINDS = (KUBEFLOW, SCHEDULED, CONNECT, *APACHE)


def kind_of(application: Mapping[str, Any]) -> ApplicationKind:
    """Which kind a manifest is.

    Raises:
        ManifestError: none of them; the message lists them.
    """
    kind, version = application.get("kind"), application.get("apiVersion")
    for known in KINDS:
        if (known.kind, known.api_version) == (kind, version):
            return known
    allowed = "; ".join(f"{known.kind}, {known.api_version}" for known in KINDS)
    raise ManifestError(f"the manifest is kind {kind!r}, apiVersion {version!r}; allowed: {allowed}")


TEXTS = frozenset({"name", "generateName", "namespace"})
"""Of the metadata."""
FREE_MAPPINGS = frozenset({"labels", "annotations", "nodeSelector", "sparkConf", "hadoopConf", "envVars"})
"""Mappings of texts; the manifest's author chooses their keys."""
MAPPINGS = FREE_MAPPINGS | {
    "metadata", "spec", "template", "podTemplateSpec", "driver", "server", "executor", "driverSpec", "executorSpec",
    "affinity", "nodeAffinity", "securityContext", "secretRef", "configMapRef",
}  # fmt: skip
LISTS = frozenset(
    {"containers", "volumes", "volumeMounts", "env", "envFrom", "tolerations", "topologySpreadConstraints",
     "nodeSelectorTerms", "matchExpressions", "matchFields", "sidecars", "initContainers"}
)  # fmt: skip
"""Of mappings."""
ITEM_TEXTS = ("name", "mountPath", "topologyKey")
"""Fields that identify items of lists."""
REQUIRED_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
"""A mapping in nodeAffinity, a list in podAffinity."""


def check_shape(application: Mapping[str, Any]) -> None:
    """Refuse a manifest in which a field holds a text, a list or a mapping instead of what belongs there.

    Raises:
        ManifestError: naming the field, what it holds, and what is allowed.
    """
    _check(application, "")
    for field in TEXTS:
        _require((application.get("metadata") or {}).get(field), str, f"metadata.{field}", "a text")


def _check(value: Any, path: str) -> None:
    for field, inner in value.items():
        where = f"{path}.{field}".removeprefix(".")
        if field in MAPPINGS or (field == REQUIRED_TERMS and path.endswith("nodeAffinity")):
            _require(inner, dict, where, "a mapping")
        if field in LISTS:
            _require(inner, list, where, "a list of mappings")
            for index, item in enumerate(inner or ()):
                if not isinstance(item, dict):
                    raise _wrong(item, f"{where}[{index}]", "a mapping")
                for name in ITEM_TEXTS:
                    _require(item.get(name), str, f"{where}[{index}].{name}", "a text")
                _check(item, f"{where}[{index}]")
        elif field in FREE_MAPPINGS:
            for key, text in (inner or {}).items():
                if not isinstance(text, str):
                    raise _wrong(text, f"{where}[{key}]", "a text, in quotes if it looks like a number or a boolean")
        elif isinstance(inner, dict):
            _check(inner, where)


def _require(value: Any, kind: type, where: str, allowed: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise _wrong(value, where, allowed)


def _wrong(value: Any, where: str, allowed: str) -> ManifestError:
    return ManifestError(f"{where} is {value!r:.80}; allowed: {allowed}")
