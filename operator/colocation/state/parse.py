"""Kubernetes' JSON objects -> the observation's types.

Invariant: no parser raises, whatever the object holds. What cannot be understood is a value with a message
(``spec_error``, ``status_error``), so that one object's fault harms that object only. Missing metadata is empty.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from sys import intern
from typing import Any, TypeVar

from pydantic import ValidationError

from ..common.control_characters import in_one_line
from ..manifests.clone_job import (
    ANNOTATION_FAILURES,
    ANNOTATION_NAMESPACE,
    ANNOTATION_SOURCE,
    ANNOTATION_TARGET,
)
from ..manifests.data_volume import DATA_LABELS
from ..model.base import MAX_BUCKETS, Frozen, parse_time, problems_of
from ..model.group import ColocationGroupSpec, ColocationGroupStatus
from ..model.names import (
    AGENT_PORT,
    ANNOTATION_ACCEPTED_DISK,
    ANNOTATION_ADOPTS,
    ANNOTATION_APPROVED_PROPOSAL,
    ANNOTATION_DISCARDED_FOLDERS,
    ANNOTATION_MARKED_UNSTABLE,
    ANNOTATION_RECOVERS,
    ANNOTATION_REPLACES,
    DATA_CLAIM,
    LABEL_BUCKET,
    LABEL_GROUP,
    LABEL_NAMESPACE,
    LABEL_NODE_CERTIFICATES,
    LABEL_NODE_TOKENS,
    LABEL_PRIVATE,
    NODE_LABEL_PREFIX,
    RECOVER_PREFIX,
    data_volume_name,
)
from ..model.salvage import salvage
from ..model.table import ColocatedTableSpec, ColocatedTableStatus
from .objects import (
    Identity,
    JobPhase,
    ObservedAgent,
    ObservedClaim,
    ObservedCloneError,
    ObservedCloneJob,
    ObservedGroup,
    ObservedHolder,
    ObservedNode,
    ObservedTable,
    ObservedVolume,
)

__all__ = [
    "format_time",
    "parse_agent",
    "parse_claim",
    "parse_clone_error",
    "parse_clone_job",
    "parse_group",
    "parse_holder",
    "parse_identity",
    "parse_node",
    "parse_table",
    "parse_time",
    "parse_volume",
]

JsonObject = dict[str, Any]
Model = TypeVar("Model", bound=Frozen)

UNKNOWN_TIME = datetime.min.replace(tzinfo=UTC)
"""When an object was made that does not say it."""
MAX_FAILURES = 1000
PORTS = range(1, 1 << 16)
"""More failed attempts than this change no back-off."""
READINESS_TAINTS = frozenset(("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"))
"""Kubernetes sets these while the Ready condition does not hold, which the operator reads itself."""
MAX_CLONE_ERROR_CHARACTERS = 300
NORMAL_WAITS = ("ContainerCreating", "PodInitializing")
"""Reasons of each container for a moment."""
ENDED_PHASES = ("Succeeded", "Failed")
REPELLING_EFFECTS = frozenset(("NoSchedule", "NoExecute"))


def format_time(time: datetime) -> str:
    """RFC 3339 in UTC, in seconds, as Kubernetes writes times."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_identity(body: JsonObject) -> Identity:
    """The metadata of any object."""
    metadata = _object(body, "metadata")
    generation = metadata.get("generation")
    return Identity(
        namespace=intern(_text(metadata.get("namespace"))),
        name=intern(_text(metadata.get("name"))),
        uid=intern(_text(metadata.get("uid"))),
        resource_version=_text(metadata.get("resourceVersion")),
        generation=generation if isinstance(generation, int) else 0,
        created_at=parse_time(metadata.get("creationTimestamp")) or UNKNOWN_TIME,
        deleting=_is_deleting(metadata),
    )


def parse_group(body: JsonObject) -> ObservedGroup:
    """A ColocationGroup."""
    metadata = _object(body, "metadata")
    spec, spec_error = _parse_spec(ColocationGroupSpec, body)
    status, status_error = salvage(ColocationGroupStatus, body.get("status"))
    annotations = _texts(metadata, "annotations")
    return ObservedGroup(
        identity=parse_identity(body),
        spec=spec,
        spec_error=spec_error,
        status=status,
        marked_unstable=annotations.get(ANNOTATION_MARKED_UNSTABLE),
        approved_proposal=annotations.get(ANNOTATION_APPROVED_PROPOSAL),
        private=_texts(metadata, "labels").get(LABEL_PRIVATE) == "true",
        recover_requests=frozenset(
            name.removeprefix(RECOVER_PREFIX) for name in annotations if name.startswith(RECOVER_PREFIX)
        ),
        status_error=status_error,
    )


def parse_table(body: JsonObject) -> ObservedTable:
    """A ColocatedTable."""
    spec, spec_error = _parse_spec(ColocatedTableSpec, body)
    status, status_error = salvage(ColocatedTableStatus, body.get("status"))
    annotations = _texts(_object(body, "metadata"), "annotations")
    return ObservedTable(
        identity=parse_identity(body),
        spec=spec,
        spec_error=spec_error,
        status=status,
        recovers=annotations.get(ANNOTATION_RECOVERS),
        status_error=status_error,
        adopts=annotations.get(ANNOTATION_ADOPTS, ""),
        replaces=annotations.get(ANNOTATION_REPLACES),
    )


def _parse_spec(kind: type[Model], body: JsonObject) -> tuple[Model | None, str]:
    """The spec, or None and what is wrong with it: the CRD cannot check everything that the model does.

    Fields that this release does not know are those of newer CRDs, which put their defaults into every object.
    """
    try:
        return kind.model_validate(body.get("spec", {}), extra="ignore"), ""
    except ValidationError as error:
        return None, problems_of(error, "spec")


def parse_node(body: JsonObject, tolerated_taints: Collection[str] = ()) -> ObservedNode:
    """A Node. ``tolerated_taints``: keys of taints with which it takes new replicas all the same."""
    metadata, spec = _object(body, "metadata"), _object(body, "spec")
    conditions = _objects(_object(body, "status"), "conditions")
    ready = next((condition for condition in conditions if condition.get("type") == "Ready"), {})
    labels, annotations = _texts(metadata, "labels"), _texts(metadata, "annotations")
    return ObservedNode(
        name=_text(metadata.get("name")),
        labels={key: value for key, value in labels.items() if not key.startswith(NODE_LABEL_PREFIX)},
        ready=ready.get("status") == "True",
        ready_changed_at=parse_time(ready.get("lastTransitionTime")),
        not_ready_message=_text(ready.get("message", "the node has no Ready condition")),
        deleting=_is_deleting(metadata),
        schedulable=spec.get("unschedulable") is not True
        and not any(_repels(taint, tolerated_taints) for taint in _objects(spec, "taints")),
        uid=_text(metadata.get("uid")),
        accepted_disk=annotations.get(ANNOTATION_ACCEPTED_DISK, ""),
        discarded_folders=frozenset(annotations.get(ANNOTATION_DISCARDED_FOLDERS, "").split()),
        group_labels={key: value for key, value in labels.items() if key.startswith(NODE_LABEL_PREFIX)},
    )


def _repels(taint: JsonObject, tolerated_taints: Collection[str]) -> bool:
    """Whether a taint keeps new replicas away."""
    key = _text(taint.get("key"))
    return taint.get("effect") in REPELLING_EFFECTS and key not in READINESS_TAINTS and key not in tolerated_taints


def parse_agent(body: JsonObject) -> ObservedAgent | None:
    """An agent's pod; None before it is on a node."""
    metadata = _object(body, "metadata")
    node = _text(_object(body, "spec").get("nodeName"))
    if not node:
        return None
    return ObservedAgent(
        namespace=_text(metadata.get("namespace")),
        name=_text(metadata.get("name")),
        uid=_text(metadata.get("uid")),
        resource_version=_text(metadata.get("resourceVersion")),
        node=node,
        address=_text(_object(body, "status").get("podIP")) or None,
        deleting=_is_deleting(metadata),
        ready=not any(_is_unready(one) for one in _objects(_object(body, "status"), "conditions")),
        node_address=_text(_object(body, "status").get("hostIP")) or None,
        node_port=_port_of_node(body),
        takes_node_tokens=_texts(metadata, "labels").get(LABEL_NODE_TOKENS) == "true",
        shares_certificate=_texts(metadata, "labels").get(LABEL_NODE_CERTIFICATES) != "true",
    )


def parse_holder(body: JsonObject) -> ObservedHolder:
    """A holder pod as ``manifests.holder_pod`` made it."""
    identity = parse_identity(body)
    return ObservedHolder(
        namespace=identity.namespace,
        name=identity.name,
        uid=identity.uid,
        node=_text(_object(body, "spec").get("nodeName")),
        created_at=identity.created_at,
        deleting=identity.deleting,
        has_ended=_object(body, "status").get("phase") in ENDED_PHASES,
    )


def _is_unready(condition: JsonObject) -> bool:
    return condition.get("type") == "Ready" and condition.get("status") == "False"


def _port_of_node(body: JsonObject) -> int:
    """The node's port that leads to the agent's; 0 = none."""
    containers = _objects(_object(body, "spec"), "containers")
    ports = (port for container in containers for port in _objects(container, "ports"))
    found = (port.get("hostPort") for port in ports if port.get("containerPort") == AGENT_PORT)
    return next((port for port in found if isinstance(port, int) and port in PORTS), 0)


def parse_clone_job(body: JsonObject) -> ObservedCloneJob | None:
    """A clone Job as ``manifests.clone_job`` made it; None for a Job that merely carries its labels."""
    metadata, status = _object(body, "metadata"), _object(body, "status")
    annotations, labels = _texts(metadata, "annotations"), _texts(metadata, "labels")
    bucket = _number(labels.get(LABEL_BUCKET), MAX_BUCKETS - 1)
    failures = _number(annotations.get(ANNOTATION_FAILURES))
    if bucket is None or failures is None or LABEL_GROUP not in labels:
        return None
    if not {ANNOTATION_NAMESPACE, ANNOTATION_TARGET} <= annotations.keys():
        return None
    ended = {_text(item.get("type")): item for item in _objects(status, "conditions") if item.get("status") == "True"}
    phase = _phase(status, ended)
    end = ended.get("Failed") or ended.get("Complete") or {}
    return ObservedCloneJob(
        identity=parse_identity(body),
        group_namespace=annotations[ANNOTATION_NAMESPACE],
        group=labels[LABEL_GROUP],
        bucket=bucket,
        source=annotations.get(ANNOTATION_SOURCE),
        target=annotations[ANNOTATION_TARGET],
        failures=min(failures, MAX_FAILURES) + (phase == "failed"),
        phase=phase,
        started_at=parse_time(status.get("startTime")),
        finished_at=parse_time(end.get("lastTransitionTime")),
        message=_text(end.get("message")),
    )


def parse_clone_error(body: JsonObject) -> ObservedCloneError | None:
    """The error of a clone's pod, as ``colocation.clone`` leaves it to the kubelet, or why the pod does not run.

    None while there is neither.
    """
    owners = _objects(_object(body, "metadata"), "ownerReferences")
    job_uid = next((_text(owner.get("uid")) for owner in owners if owner.get("kind") == "Job"), "")
    status = _object(body, "status")
    states = [_object(container, "state") for container in _objects(status, "containerStatuses")]
    ends = [_object(state, "terminated") for state in states]
    errors = [_clone_error(_text(end.get("message"))) for end in ends if end.get("exitCode")]
    found = next(filter(None, (*errors, *_standstills(status, states))), "")
    message = in_one_line(found)[:MAX_CLONE_ERROR_CHARACTERS]
    return ObservedCloneError(job_uid, message) if job_uid and message else None


def _standstills(status: JsonObject, states: Iterable[JsonObject]) -> Iterator[str]:
    """Why a pod does not run: what the kubelet waits for, why no node takes it, why its node rejected or evicted it."""
    for waiting in (_object(state, "waiting") for state in states):
        if waiting.get("reason") not in NORMAL_WAITS:
            yield _with_reason(waiting)
    for condition in _objects(status, "conditions"):
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
            yield _with_reason(condition)
    if status.get("phase") == "Failed":
        yield _with_reason(status)


def _with_reason(found: JsonObject) -> str:
    return ": ".join(filter(None, (_text(found.get("reason")), _text(found.get("message")))))


def _clone_error(text: str) -> str:
    """Of a clone that was killed before it could report, the last line of its log."""
    try:
        error = json.loads(text)
        found = f"{error['error']}: {error['message']}"
    except (ValueError, TypeError, LookupError):
        found = text.strip().rpartition("\n")[2]
    return found


def parse_volume(body: JsonObject) -> ObservedVolume:
    """A PersistentVolume as ``manifests.data_volume`` made it, or another one."""
    identity, spec = parse_identity(body), _object(body, "spec")
    labels = _texts(_object(body, "metadata"), "labels")
    namespace = labels.get(LABEL_NAMESPACE, "")
    is_ours = labels.items() >= DATA_LABELS.items() and identity.name == data_volume_name(namespace)
    claim = _object(spec, "claimRef")
    is_reserved = (claim.get("namespace"), claim.get("name")) == (namespace, DATA_CLAIM)
    return ObservedVolume(
        identity=identity,
        namespace=namespace if is_ours else "",
        path=_text(_object(spec, "hostPath").get("path")),
        claim_uid=_text(claim.get("uid")) if is_reserved else "",
    )


def parse_claim(body: JsonObject) -> ObservedClaim:
    """A PersistentVolumeClaim as ``manifests.data_volume`` made it, or another one.

    What has an owner is another's, whatever its labels say: a pod's own claim gets them from its template.
    """
    metadata = _object(body, "metadata")
    labels = _texts(metadata, "labels")
    return ObservedClaim(
        identity=parse_identity(body),
        is_ours=labels.items() >= DATA_LABELS.items() and not metadata.get("ownerReferences"),
        volume=_text(_object(body, "spec").get("volumeName")),
    )


def _phase(status: JsonObject, ended: Mapping[str, JsonObject]) -> JobPhase:
    if "Failed" in ended:
        return "failed"
    if "Complete" in ended:
        return "succeeded"
    return "running" if status.get("active") and status.get("ready") else "pending"


def _object(body: JsonObject, field: str) -> JsonObject:
    """The object in this field; an empty one if there is something else, or nothing."""
    value = body.get(field)
    return value if isinstance(value, dict) else {}


def _objects(body: JsonObject, field: str) -> Iterator[JsonObject]:
    """The objects of the list in this field."""
    value = body.get(field)
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _texts(body: JsonObject, field: str) -> dict[str, str]:
    """The texts of the object in this field, e.g. labels."""
    return {name: text for name, text in _object(body, field).items() if isinstance(text, str)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _is_deleting(metadata: JsonObject) -> bool:
    return metadata.get("deletionTimestamp") is not None


def _number(text: str | None, largest: int = 10**9) -> int | None:
    """A number of a label or an annotation, in digits; None if it is something else or out of range."""
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > len(str(largest)):
        return None
    return int(text) if int(text) <= largest else None
