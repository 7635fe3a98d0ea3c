"""A manifest in, the same manifest with the placement of its group out; before that, the command line's settings.

Pure, shared by ``submit`` and the webhook. Credentials come from Secrets that the pods name. They are never in a
manifest, which many users may read.
"""

import copy
import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from ..manifests.spark_pods import DRIVER_CONTAINER, EXECUTOR_CONTAINER
from ..model.base import Frozen
from ..model.names import ANNOTATION_DECISION
from . import apache, connect, kubeflow
from .apache import CONTAINER_NAMES
from .group_view import Decision, GroupView
from .manifest import ApplicationKind, Json, ManifestError, check_shape, conflict, kind_of, require_mapping
from .pod_templates import merge_map
from .spark_conf import DRIVER_ACCOUNT, EXECUTOR_ACCOUNT, IMAGE

CONTAINERS = {"driver": DRIVER_CONTAINER, "executor": EXECUTOR_CONTAINER}

_CREDENTIAL = re.compile(
    r"(secret\.?key|access\.?key|session\.?token|password|account\.key|client\.secret)(\.|$)|\.(credential|token)$",
    re.IGNORECASE,
)
_OF_ENVIRONMENT = "env:"
"""Begins the values that Iceberg's catalogs take from a variable."""


class Overrides(Frozen):
    """None and empty leave the application's own values. ``secrets``: names of Secrets in its namespace."""

    image: str | None = None
    service_account: str | None = None
    secrets: tuple[str, ...] = ()
    conf: dict[str, str] = Field(default_factory=dict)


def override(application: Json, overrides: Overrides) -> None:
    """Change an application of any kind, in place.

    Raises:
        ManifestError: it is none, or a setting would put a credential into it.
    """
    check_no_credentials(overrides.conf)
    flavour = kind_of(application).flavour
    check_shape(application)
    spec = application["spec"] = require_mapping(application.get("spec"), "spec")
    if flavour == "scheduled":
        spec["template"] = spec = require_mapping(spec.get("template"), "spec.template")
    if overrides.conf:
        spec["sparkConf"] = {**require_mapping(spec.get("sparkConf"), "spec.sparkConf"), **overrides.conf}
    _CHANGE_PODS.get(flavour, _kubeflow_pods)(spec, overrides)


def check_no_credentials(conf: Mapping[str, str]) -> None:
    """Refuse keys that hold a password or a key; their values are not repeated.

    Raises:
        ManifestError: naming the key and what to do.
    """
    for key, value in conf.items():
        is_of_catalog = key.startswith("spark.sql.catalog.")
        if not _CREDENTIAL.search(key) or (is_of_catalog and value.startswith(_OF_ENVIRONMENT)):
            continue
        raise ManifestError(
            f"--set {key} would show a credential to everyone who may read the application or this machine's "
            "processes: put it into a Secret (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) and name that by --secret"
            + (f"; an Iceberg catalog takes it from there by --set {key}={_OF_ENVIRONMENT}NAME"
               if is_of_catalog else "")
        )  # fmt: skip


def _kubeflow_pods(spec: Json, overrides: Overrides) -> None:
    if overrides.image:
        spec["image"] = overrides.image
    if not (overrides.service_account or overrides.secrets):
        return
    for role in CONTAINERS:
        pod = spec[role] = dict(require_mapping(spec.get(role), f"spec.{role}"))
        if overrides.service_account:
            pod["serviceAccount"] = overrides.service_account
        container = _template_container(pod, CONTAINERS[role])
        # The field moves into the template later, and may stand in one of the two.
        holder = container if container is not None and "envFrom" in container else pod
        _add_secrets(holder, overrides)


def _connect_pods(spec: Json, overrides: Overrides) -> None:
    if overrides.image:
        spec["image"] = overrides.image
    for role, name in (("server", DRIVER_CONTAINER), ("executor", EXECUTOR_CONTAINER)):
        pod = connect.template_spec(spec, role)
        if overrides.service_account:
            pod["serviceAccountName"] = overrides.service_account
        if overrides.secrets:
            containers = pod.setdefault("containers", [{"name": name}])
            _add_secrets(next((one for one in containers if one.get("name") == name), containers[0]), overrides)


def _template_container(pod: Json, name: str) -> Json | None:
    containers = ((pod.get("template") or {}).get("spec") or {}).get("containers") or []
    return next((one for one in containers if one.get("name") == name), containers[0] if containers else None)


def _apache_pods(spec: Json, overrides: Overrides) -> None:
    conf = spec["sparkConf"] = dict(require_mapping(spec.get("sparkConf"), "spec.sparkConf"))
    if overrides.image:
        conf[IMAGE] = overrides.image
    if overrides.service_account:
        conf[DRIVER_ACCOUNT] = conf[EXECUTOR_ACCOUNT] = overrides.service_account
    if not overrides.secrets:
        return
    for role, default in CONTAINERS.items():
        name = conf.get(CONTAINER_NAMES[role], default)
        field = f"{role}Spec"
        holder = spec[field] = require_mapping(spec.get(field), f"spec.{field}")
        pod = holder.setdefault("podTemplateSpec", {}).setdefault("spec", {})
        containers = pod.setdefault("containers", []) or [{"name": name}]
        pod["containers"] = containers
        chosen = next((one for one in containers if one.get("name") == name), containers[0])
        _add_secrets(chosen, overrides)


def _add_secrets(holder: Json, overrides: Overrides) -> None:
    sources = list(holder.get("envFrom") or [])
    named = [(source.get("secretRef") or {}).get("name") for source in sources]
    sources += [{"secretRef": {"name": name}} for name in overrides.secrets if name not in named]
    if sources:
        holder["envFrom"] = sources


_CHANGE_PODS = {"apache": _apache_pods, "connect": _connect_pods}
PLACE = {"kubeflow": kubeflow.place_application, "scheduled": kubeflow.place_schedule,
         "connect": connect.place_server, "apache": apache.place_application}  # fmt: skip


class PreparedApplication(Frozen):
    """What is to be created, of which kind, the decision that was taken for it, and what to warn of."""

    application: dict[str, Any]
    decision: Decision
    kind: ApplicationKind
    warnings: tuple[str, ...] = ()


def prepare(application: Mapping[str, Any], group: GroupView) -> PreparedApplication:
    """An application whose executors run where the group's buckets lie, and the decision colocated or not.

    The manifest's own settings are kept. The executors get the group's nodes (required), spreading, the data mount
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
    warnings = connect.warnings_about(prepared) if kind.flavour == "connect" else ()
    return PreparedApplication(application=prepared, decision=decision, kind=kind, warnings=warnings)
