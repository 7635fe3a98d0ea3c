"""Placement for Kubeflow's ``sparkoperator.k8s.io/v1alpha1`` SparkConnect: a Spark Connect server and its executors.

The server's pod is the driver. Kubeflow's operator takes accounts and all else of both pods from their templates only.
"""

from collections.abc import Mapping
from typing import Any

from ..manifests.spark_pods import DRIVER_CONTAINER, EXECUTOR_CONTAINER
from .group_view import Decision, GroupView, decide
from .kubeflow import check_hadoop_conf, configured_cores_of, image_of
from .manifest import Json, ManifestError, require_mapping
from .pod_templates import place_driver, place_executor
from .spark_conf import check_conf, merge_conf, our_conf

REQUIRED_FIELDS = ("sparkVersion", "server", "executor")
TEMPLATES = {"driver": "spec.server.template", "executor": "spec.executor.template"}


def place_server(application: Json, group: GroupView) -> Decision:
    """Place a SparkConnect, in place, and decide.

    Raises:
        ManifestError: not such an object, or it contradicts what the group needs (both values are named).
    """
    spec = application["spec"] = _checked(application.get("spec"))
    decision = decide(group, spec["sparkConf"], configured_cores_of(spec))
    server, executor = spec["server"], spec["executor"]
    server["template"] = place_driver(server["template"], DRIVER_CONTAINER, group, TEMPLATES["driver"])
    account = server["template"]["spec"].get("serviceAccountName")
    executor["template"] = place_executor(executor["template"], EXECUTOR_CONTAINER, group, TEMPLATES["executor"])
    if account:
        # The executors read from the agents too, under the rights of their own account.
        executor["template"]["spec"].setdefault("serviceAccountName", account)
    check_conf(spec["sparkConf"], group, "spec.sparkConf", TEMPLATES)
    if not spec.get("image"):
        spec["image"] = image_of(spec["sparkConf"], group, "spec.image")
    ours = our_conf(group)
    check_hadoop_conf(spec, ours, "spec")
    spec["sparkConf"] = merge_conf(spec["sparkConf"], ours, "spec.sparkConf")
    return decision


def warnings_about(application: Mapping[str, Any]) -> tuple[str, ...]:
    """What a prepared SparkConnect may lack: another account may have the rights, so this is no refusal."""
    if application["spec"]["server"]["template"]["spec"].get("serviceAccountName"):
        return ()
    return (
        f"{TEMPLATES['driver']}.spec.serviceAccountName is not given: the server runs as ServiceAccount default, and "
        "is restarted without end if that lacks a Spark driver's rights; give spark, which `colocation init -n "
        f"{application['metadata']['namespace']}` makes",
    )


def _checked(value: object) -> Json:
    spec = require_mapping(value, "spec")
    missing = [field for field in REQUIRED_FIELDS if field not in spec]
    if missing:
        raise ManifestError(f"spec lacks {', '.join(missing)}, which Kubeflow's operator requires")
    for role in ("server", "executor"):
        pod = spec[role] = require_mapping(spec[role], f"spec.{role}")
        template = pod["template"] = require_mapping(pod.get("template"), f"spec.{role}.template")
        template["spec"] = require_mapping(template.get("spec"), f"spec.{role}.template.spec")
    spec["sparkConf"] = require_mapping(spec.get("sparkConf"), "spec.sparkConf")
    return spec


def template_spec(spec: Mapping[str, object], role: str) -> Json:
    """The pod of ``server`` or ``executor``, in place."""
    pod = require_mapping(spec.get(role), f"spec.{role}")
    template = pod.setdefault("template", {})
    found: Json = template.setdefault("spec", {})
    return found
