"""A prepared application as a driver's pod of its own: what ``--direct`` hands to the spark-on-k8s client. Pure.

In this mode the driver runs ``spark-submit --deploy-mode client`` in its pod and makes the executors itself, from a pod
template that is mounted into it. What Spark's submission would set on a driver's pod, memory above all, is set here.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from ..manifests.spark_pods import DRIVER_CONTAINER, EXECUTOR_CONTAINER
from ..model.base import Frozen
from .apache import CONTAINER_NAMES
from .direct_fields import check_fields, configuration, driver_template
from .errors import ManifestError
from .merge import Json
from .prepare import PreparedApplication
from .spark_conf import DRIVER_ACCOUNT, EXECUTOR_ACCOUNT, IMAGE

MAX_NAME_LENGTH = 47
"""Spark's limit for the prefix of its executors' names; the name is that of a Service, too."""
DEFAULT_ACCOUNT = "spark"
DEFAULT_EXECUTORS = 2
MIN_OVERHEAD_MIB = 384
OVERHEAD_FACTOR, OVERHEAD_FACTOR_NOT_JVM = 0.1, 0.4
"""Spark's: Python beside the JVM needs memory that the JVM does not know of."""

SELECTOR_OF_DRIVER = "spark.kubernetes.driver.node.selector."

TEMPLATE_FOLDER = "/etc/colocation"
TEMPLATE_NAME = "executor-pod-template.yaml"

_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_MEMORY = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_MIB_PER_UNIT = {"": 1.0, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024.0}


class DirectSubmission(Frozen):
    """A driver to start. ``driver_template`` and ``executor_template`` are whole pods, ours and the manifest's in one.

    ``conf`` holds everything that Spark is told, image, accounts and sizes included.
    """

    namespace: str
    name: str
    main_file: str
    main_class: str | None
    arguments: tuple[str, ...]
    conf: dict[str, str]
    driver_template: dict[str, Any]
    executor_template: dict[str, Any]

    @property
    def image(self) -> str:
        """Of the driver."""
        return self.conf.get("spark.kubernetes.driver.container.image") or self.conf[IMAGE]

    @property
    def executors_wanted(self) -> int:
        """To begin with."""
        return int(self.conf["spark.executor.instances"])


def direct_submission(prepared: PreparedApplication, name: str) -> DirectSubmission:
    """What to start for a prepared application; ``name`` is its own or the one that was generated for it.

    Raises:
        ManifestError: it asks for something that only a Spark operator does.
    """
    if prepared.kind.flavour == "scheduled":
        raise ManifestError("a ScheduledSparkApplication needs Kubeflow's operator; --direct runs an application once")
    if len(name) > MAX_NAME_LENGTH or not _NAME.fullmatch(name):
        raise ManifestError(
            f"metadata.name is {name!r}; with --direct allowed: at most {MAX_NAME_LENGTH} lower-case letters, digits "
            "and dashes, a letter first"
        )
    spec = prepared.application["spec"]
    from_spec = _from_apache if prepared.kind.flavour == "apache" else _from_kubeflow
    fields = from_spec(spec)
    conf = _with_sizes(fields.pop("conf"), fields["main_file"])
    fields["driver_template"] = _with_configuration(fields["driver_template"], conf)
    executor = {"apiVersion": "v1", "kind": "Pod", **fields.pop("executor_template")}
    return DirectSubmission(
        namespace=prepared.application["metadata"]["namespace"],
        name=name,
        conf=conf,
        executor_template=executor,
        **fields,
    )


def _from_kubeflow(spec: Mapping[str, Any]) -> Json:
    check_fields(spec)
    conf = configuration(spec)
    template = spec["driver"]["template"]
    conf.setdefault(DRIVER_ACCOUNT, (template.get("spec") or {}).get("serviceAccountName") or DEFAULT_ACCOUNT)
    conf.setdefault(EXECUTOR_ACCOUNT, conf[DRIVER_ACCOUNT])
    return {
        "conf": {**conf, CONTAINER_NAMES["executor"]: EXECUTOR_CONTAINER, CONTAINER_NAMES["driver"]: DRIVER_CONTAINER},
        "main_file": spec["mainApplicationFile"],
        "main_class": spec.get("mainClass"),
        "arguments": tuple(str(word) for word in spec.get("arguments") or ()),
        "driver_template": driver_template(spec["driver"]),
        "executor_template": spec["executor"]["template"],
    }


def _from_apache(spec: Mapping[str, Any]) -> Json:
    conf = {key: str(value) for key, value in spec["sparkConf"].items()}
    conf.setdefault(DRIVER_ACCOUNT, DEFAULT_ACCOUNT)
    conf.setdefault(EXECUTOR_ACCOUNT, conf[DRIVER_ACCOUNT])
    # Apache's operator takes the first program that there is, of these in order.
    main_file = spec.get("jars") or spec.get("pyFiles") or spec.get("sparkRFiles")
    return {
        "conf": conf,
        "main_file": str(main_file),
        "main_class": spec.get("mainClass"),
        "arguments": tuple(str(word) for word in spec.get("driverArgs") or ()),
        "driver_template": spec["driverSpec"]["podTemplateSpec"],
        "executor_template": spec["executorSpec"]["podTemplateSpec"],
    }


def _with_sizes(conf: Mapping[str, str], main_file: str) -> dict[str, str]:
    """The configuration with sizes that Spark's submission would choose: spark-on-k8s has defaults of its own."""
    jvm = main_file.endswith(".jar")
    sized = dict(conf)
    for role in ("driver", "executor"):
        _check_number(f"spark.{role}.cores", sized.setdefault(f"spark.{role}.cores", "1"), int)
        memory = sized.setdefault(f"spark.{role}.memory", "1g")
        factor = conf.get(f"spark.{role}.memoryOverheadFactor") or conf.get("spark.kubernetes.memoryOverheadFactor")
        share = OVERHEAD_FACTOR if jvm else OVERHEAD_FACTOR_NOT_JVM
        if factor:
            share = _check_number(f"the memory overhead factor of {role}", factor, float)
        overhead = max(MIN_OVERHEAD_MIB, math.ceil(mebibytes(memory) * share))
        sized.setdefault(f"spark.{role}.memoryOverhead", f"{overhead}m")
    instances = "spark.executor.instances"
    _check_number(instances, sized.setdefault(instances, str(DEFAULT_EXECUTORS)), int)
    return sized


def _check_number(what: str, text: str, number: type[int] | type[float]) -> float:
    try:
        return number(text)
    except ValueError as error:
        kind = "whole number" if number is int else "number"
        raise ManifestError(f"{what} is {text!r}; allowed: a {kind}") from error


def _with_configuration(template: Mapping[str, Any], conf: Mapping[str, str]) -> Json:
    """The driver's template with what Spark's submission would make of the configuration: resources, labels, …"""
    metadata, spec = dict(template.get("metadata") or {}), dict(template["spec"])
    for field, prefix in (("labels", "spark.kubernetes.driver.label."),
                          ("annotations", "spark.kubernetes.driver.annotation.")):  # fmt: skip
        metadata[field] = {**(metadata.get(field) or {}), **_below(prefix, conf)}
    selector = {**_below("spark.kubernetes.node.selector.", conf), **_below(SELECTOR_OF_DRIVER, conf)}
    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **selector}
    secrets = conf.get("spark.kubernetes.container.image.pullSecrets", "")
    spec["imagePullSecrets"] = [
        *(spec.get("imagePullSecrets") or []), *({"name": name} for name in filter(None, secrets.split(",")))
    ]  # fmt: skip
    # Spark's container comes first: whoever reads the pod's log takes that one.
    name = conf.get(CONTAINER_NAMES["driver"], DRIVER_CONTAINER)
    containers = [dict(item) for item in spec["containers"]]
    chosen = next((item for item in containers if item.get("name") == name), containers[0])
    containers.remove(chosen)
    chosen["resources"] = _resources(chosen.get("resources") or {}, conf)
    spec["containers"] = [chosen, *containers]
    return {**template, "metadata": metadata, "spec": spec}


def _resources(given: Mapping[str, Any], conf: Mapping[str, str]) -> Json:
    total = mebibytes(conf["spark.driver.memory"]) + mebibytes(conf["spark.driver.memoryOverhead"])
    cores = conf.get("spark.kubernetes.driver.request.cores") or conf["spark.driver.cores"]
    limits = {"memory": f"{total}Mi"}
    if "spark.kubernetes.driver.limit.cores" in conf:
        limits["cpu"] = conf["spark.kubernetes.driver.limit.cores"]
    requests = {"cpu": cores, "memory": f"{total}Mi"}
    return {
        **given, "requests": {**(given.get("requests") or {}), **requests},
        "limits": {**(given.get("limits") or {}), **limits},
    }  # fmt: skip


def _below(prefix: str, conf: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}


def mebibytes(text: str) -> int:
    """A size as Spark writes memory (``512m``, ``1g``; a bare number is MiB), in whole MiB.

    Raises:
        ManifestError: it is no such size.
    """
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        raise ManifestError(f"a memory size is {text!r}; allowed: a number with k, m, g or t, e.g. 512m")
    return math.ceil(int(match[1]) * _MIB_PER_UNIT[match[2].lower()])


def complete_pod(pod: Mapping[str, Any], template: Mapping[str, Any]) -> Json:
    """The driver's pod that spark-on-k8s made, with the driver's template's say added to it.

    spark-on-k8s takes node selectors, tolerations and volumes for a driver, but no environment, affinity, security
    context or sidecars. Its pod has one container; in the template Spark's is the first.
    """
    metadata = dict(pod["metadata"])
    for field in ("labels", "annotations"):
        metadata[field] = {**(template["metadata"].get(field) or {}), **(metadata.get(field) or {})}
    made = {key: value for key, value in pod["spec"].items() if value}
    chosen, *others = template["spec"]["containers"]
    [made_container] = made["containers"]
    container = {**chosen, **made_container, "resources": chosen["resources"]}
    for field in ("env", "envFrom", "ports", "volumeMounts"):
        container[field] = [*(made_container.get(field) or []), *(chosen.get(field) or [])]
    volumes = [*(made.get("volumes") or []), *(template["spec"].get("volumes") or [])]
    spec = {**template["spec"], **made, "containers": [container, *others], "volumes": volumes}
    return {**pod, "metadata": metadata, "spec": {key: value for key, value in spec.items() if value}}
