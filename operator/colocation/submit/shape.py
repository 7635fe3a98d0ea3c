"""Whether a manifest has the shape that its fields have in Kubernetes, before anything reads or changes them. Pure."""

from collections.abc import Mapping
from typing import Any

from .errors import ManifestError

TEXTS = frozenset({"name", "generateName", "namespace"})
"""Of the metadata."""
FREE_MAPPINGS = frozenset({"labels", "annotations", "nodeSelector", "sparkConf", "hadoopConf", "envVars"})
"""Mappings of texts, whose keys the manifest's author chooses."""
MAPPINGS = FREE_MAPPINGS | {
    "metadata", "spec", "template", "podTemplateSpec", "driver", "executor", "driverSpec", "executorSpec", "affinity",
    "nodeAffinity", "securityContext", "secretRef", "configMapRef",
}  # fmt: skip
LISTS = frozenset(
    {"containers", "volumes", "volumeMounts", "env", "envFrom", "tolerations", "topologySpreadConstraints",
     "nodeSelectorTerms", "matchExpressions", "matchFields", "sidecars", "initContainers"}
)  # fmt: skip
"""Of mappings."""
ITEM_TEXTS = ("name", "mountPath", "topologyKey")
"""Fields by which items of lists are distinguished."""
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
