"""A prepared application as a Job of its own: what ``--direct`` creates. Pure.

The Job's pod is the driver's as spark-on-k8s makes it, completed with the driver's pod template. It runs ``spark-submit
--deploy-mode client`` and makes the executors, which it owns. Their pod template travels in an annotation of the pod,
which the pod mounts. So the Job is the only object: it is made whole or not at all, and everything is deleted with
it. What Spark's submission would set on a driver's pod, memory above all, is set here.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, cast

from kubernetes.client import ApiClient
from pydantic import Field
from spark_on_k8s.utils.app_manager import SparkAppManager

from ..manifests.spark_pods import DRIVER_CONTAINER, EXECUTOR_CONTAINER, SPARK_APPLICATION_LABEL
from ..model.base import Frozen
from .apache import CONTAINER_NAMES
from .direct_fields import check_fields, configuration, driver_template
from .manifest import WITHOUT_OPERATOR, Json, ManifestError
from .pod_templates import merge_list
from .prepare import PreparedApplication
from .spark_conf import DRIVER_ACCOUNT, EXECUTOR_ACCOUNT, IMAGE

MAX_NAME_LENGTH = 47
"""Spark's limit for the prefix of its executors' names."""
DEFAULT_ACCOUNT = "spark"
DEFAULT_EXECUTORS = 2
MIN_OVERHEAD_MIB = 384
OVERHEAD_FACTOR, OVERHEAD_FACTOR_NOT_JVM = 0.1, 0.4
"""Spark's: Python runs outside the JVM and needs memory that the JVM does not know of."""

PULL_POLICY = "spark.kubernetes.container.image.pullPolicy"
SELECTOR_OF_DRIVER = "spark.kubernetes.driver.node.selector."

TEMPLATE_FOLDER = "/etc/colocation"
TEMPLATE_NAME = "executor-pod-template.yaml"
TEMPLATE_VOLUME = "colocation-executor-template"
TEMPLATE_ANNOTATION = "colocation.dev/executor-pod-template"

KEPT_SECONDS = 3600
"""A Job that has ended is deleted after it, with its pod and the log that holds the result."""
API_SERVER = "k8s://https://kubernetes.default.svc"
PORTS = {"spark.driver.port": "7078", "spark.driver.blockManager.port": "7079"}
"""Spark's own in its cluster mode, so that network policies that let drivers be reached fit here, too."""
BIND_ADDRESS, POD_NAME = "SPARK_DRIVER_BIND_ADDRESS", "SPARK_DRIVER_POD_NAME"
"""Spark's images bind the driver to the first one; ``$(…)`` in a container's arguments is filled in by Kubernetes."""

_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_MEMORY = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_MIB_PER_UNIT = {"": 1.0, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024.0}


class DirectSubmission(Frozen):
    """A driver to start. ``driver_template`` and ``executor_template`` are whole pods, ours and the manifest's in one.

    ``conf`` holds all of Spark's configuration, image, accounts and sizes included. ``labels`` and ``annotations`` are
    the application's.
    """

    namespace: str
    name: str
    main_file: str
    main_class: str | None
    arguments: tuple[str, ...]
    conf: dict[str, str]
    driver_template: dict[str, Any]
    executor_template: dict[str, Any]
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)

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
    kind = prepared.kind
    if kind.flavour in ("connect", "scheduled"):
        raise ManifestError(f"a {kind.kind} needs {kind.operator}; {WITHOUT_OPERATOR[kind.flavour]}")
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
    metadata = prepared.application["metadata"]
    return DirectSubmission(
        namespace=metadata["namespace"],
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
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
    """The configuration with sizes that Spark's submission would choose."""
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
    # Spark's container comes first: readers of the pod's log take the first one.
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


def driver_job(submission: DirectSubmission) -> Json:
    """The Job whose one pod is the driver. Nothing starts a second one, and an hour after its end it is deleted."""
    name = submission.name
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": submission.namespace,
            "labels": {**submission.labels, SPARK_APPLICATION_LABEL: name},
            "annotations": submission.annotations,
        },
        "spec": {"backoffLimit": 0, "ttlSecondsAfterFinished": KEPT_SECONDS, "template": _driver_pod(submission)},
    }


def _driver_pod(submission: DirectSubmission) -> Json:
    template, frame = submission.driver_template, _frame(submission)
    metadata = {
        "labels": {
            **(template["metadata"].get("labels") or {}), **submission.labels,
            **frame["metadata"]["labels"], SPARK_APPLICATION_LABEL: submission.name,
        },
        "annotations": {
            **(template["metadata"].get("annotations") or {}),
            TEMPLATE_ANNOTATION: json.dumps(submission.executor_template, separators=(",", ":")),
        },
    }  # fmt: skip
    # Spark's container is the first one.
    chosen, *others = template["spec"]["containers"]
    field = {"path": TEMPLATE_NAME, "fieldRef": {"fieldPath": f"metadata.annotations['{TEMPLATE_ANNOTATION}']"}}
    volume = {"name": TEMPLATE_VOLUME, "downwardAPI": {"items": [field]}}
    spec = {
        **template["spec"],
        **{name: value for name, value in frame["spec"].items() if name != "containers"},
        "containers": [_driver_container(frame["spec"]["containers"][0], chosen), *others],
        "volumes": [*(template["spec"].get("volumes") or []), volume],
    }
    return {"metadata": metadata, "spec": spec}


def _frame(submission: DirectSubmission) -> Json:
    """The driver's pod as spark-on-k8s makes it: labels that its commands find, account, image, arguments, address."""
    pod = SparkAppManager.create_spark_pod_spec(
        app_name=submission.name,
        app_id=submission.name,
        image=submission.image,
        namespace=submission.namespace,
        service_account=submission.conf[DRIVER_ACCOUNT],
        args=["driver", *_spark_submit_arguments(submission)],
        image_pull_policy=cast("Any", submission.conf.get(PULL_POLICY, "IfNotPresent")),
    )
    return cast("Json", ApiClient().sanitize_for_serialization(pod))


def _driver_container(framed: Mapping[str, Any], chosen: Mapping[str, Any]) -> Json:
    pod_name = {"name": POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    mount = {"name": TEMPLATE_VOLUME, "mountPath": TEMPLATE_FOLDER, "readOnly": True}
    where = "the driver's pod template: env"
    return {
        **chosen,
        **{name: framed[name] for name in ("image", "imagePullPolicy", "args")},
        "env": merge_list(chosen.get("env"), [*framed["env"], pod_name], "name", where),
        "volumeMounts": [*(chosen.get("volumeMounts") or []), mount],
    }


def _spark_submit_arguments(submission: DirectSubmission) -> list[str]:
    """The arguments of spark-submit. The driver's address is its pod's, and the executors are owned by its pod."""
    ours = {
        "spark.master": API_SERVER,
        "spark.app.name": submission.conf.get("spark.app.name", submission.name),
        "spark.app.id": submission.name,
        "spark.kubernetes.namespace": submission.namespace,
        "spark.kubernetes.executor.podNamePrefix": submission.name,
        "spark.kubernetes.executor.podTemplateFile": f"{TEMPLATE_FOLDER}/{TEMPLATE_NAME}",
    }
    filled_in = {"spark.driver.host": f"$({BIND_ADDRESS})", "spark.kubernetes.driver.pod.name": f"$({POD_NAME})"}
    conf = {key: literal(value) for key, value in {**PORTS, **submission.conf, **ours}.items()} | filled_in
    words = [word for key, value in conf.items() for word in ("--conf", f"{literal(key)}={value}")]
    if submission.main_class:
        words += ["--class", literal(submission.main_class)]
    return [*words, *map(literal, (submission.main_file, *submission.arguments))]


def literal(text: str) -> str:
    """A word of a container's arguments that Kubernetes leaves as it is: ``$(NAME)`` would be filled in."""
    return text.replace("$", "$$")
