"""A command line's changes of an application: image, account, configuration, and Secrets as environment. Pure.

Credentials come from Secrets that the pods name, and never stand in a manifest, which many may read.
"""

import re
from collections.abc import Mapping

from pydantic import Field

from ..manifests.spark_pods import DRIVER_CONTAINER, EXECUTOR_CONTAINER
from ..model.base import Frozen
from .apache import CONTAINER_NAMES
from .errors import ManifestError
from .kinds import kind_of
from .merge import Json, require_mapping
from .shape import check_shape
from .spark_conf import DRIVER_ACCOUNT, EXECUTOR_ACCOUNT, IMAGE

CONTAINERS = {"driver": DRIVER_CONTAINER, "executor": EXECUTOR_CONTAINER}

_CREDENTIAL = re.compile(
    r"(secret\.?key|access\.?key|session\.?token|password|account\.key|client\.secret)(\.|$)", re.IGNORECASE
)


class Overrides(Frozen):
    """None and empty keep the application's values. ``secrets``: names of Secrets in its namespace."""

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
    change_pods = _apache_pods if flavour == "apache" else _kubeflow_pods
    change_pods(spec, overrides)


def check_no_credentials(conf: Mapping[str, str]) -> None:
    """Refuse keys that hold a password or a key; their values are not repeated.

    Raises:
        ManifestError: naming the key and what to do.
    """
    for key in conf:
        if _CREDENTIAL.search(key):
            raise ManifestError(
                f"--set {key} would show a credential to everyone who may read the application or this machine's "
                "processes: put it into a Secret (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) and name that by --secret"
            )


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
