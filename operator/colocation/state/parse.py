"""Kubernetes' JSON objects -> the observation's types."""

from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from ..manifests.clone_job import (
    ANNOTATION_FAILURES,
    ANNOTATION_NAMESPACE,
    ANNOTATION_SOURCE,
    ANNOTATION_TARGET,
)
from ..model.base import Frozen
from ..model.group import ColocationGroupSpec, ColocationGroupStatus
from ..model.names import (
    ANNOTATION_MARKED_UNSTABLE,
    ANNOTATION_RECOVERS,
    LABEL_BUCKET,
    LABEL_GROUP,
    LABEL_PRIVATE,
    RECOVER_PREFIX,
)
from ..model.table import ColocatedTableSpec, ColocatedTableStatus
from .observation import (
    Identity,
    JobPhase,
    ObservedAgent,
    ObservedCloneJob,
    ObservedGroup,
    ObservedNode,
    ObservedTable,
)

JsonObject = dict[str, Any]
Spec = TypeVar("Spec", bound=Frozen)


def parse_time(text: str | None) -> datetime | None:
    """An RFC 3339 time, or None when there is none."""
    return datetime.fromisoformat(text).astimezone(UTC) if text else None


def format_time(time: datetime) -> str:
    """RFC 3339 in UTC, in seconds, as Kubernetes writes times."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_identity(body: JsonObject) -> Identity:
    """The metadata of any object."""
    metadata = body["metadata"]
    created_at = parse_time(metadata["creationTimestamp"])
    if created_at is None:
        raise ValueError(f"object {metadata.get('name')!r} has an empty creationTimestamp")
    return Identity(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=metadata.get("generation", 0),
        created_at=created_at,
        deleting="deletionTimestamp" in metadata,
    )


def parse_group(body: JsonObject) -> ObservedGroup:
    """A ColocationGroup."""
    spec, error = _parse_spec(ColocationGroupSpec, body)
    status = ColocationGroupStatus.model_validate(body.get("status", {}))
    annotations = body["metadata"].get("annotations", {})
    return ObservedGroup(
        identity=parse_identity(body),
        spec=spec,
        spec_error=error,
        status=status,
        marked_unstable=annotations.get(ANNOTATION_MARKED_UNSTABLE),
        private=body["metadata"].get("labels", {}).get(LABEL_PRIVATE) == "true",
        recover_requests=frozenset(
            name.removeprefix(RECOVER_PREFIX) for name in annotations if name.startswith(RECOVER_PREFIX)
        ),
    )


def parse_table(body: JsonObject) -> ObservedTable:
    """A ColocatedTable."""
    spec, error = _parse_spec(ColocatedTableSpec, body)
    status = ColocatedTableStatus.model_validate(body.get("status", {}))
    recovers = body["metadata"].get("annotations", {}).get(ANNOTATION_RECOVERS)
    return ObservedTable(parse_identity(body), spec, error, status, recovers)


def _parse_spec(kind: type[Spec], body: JsonObject) -> tuple[Spec | None, str]:
    """The spec, or None and what is wrong with it: the CRD cannot check everything that the model does."""
    try:
        return kind.model_validate(body.get("spec", {})), ""
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, part['loc'])) or 'spec'}: {part['msg']}" for part in error.errors()]
        return None, "; ".join(problems)


def parse_node(body: JsonObject) -> ObservedNode:
    """A Node."""
    metadata = body["metadata"]
    conditions = body.get("status", {}).get("conditions", [])
    ready: JsonObject = next((condition for condition in conditions if condition["type"] == "Ready"), {})
    return ObservedNode(
        name=metadata["name"],
        labels=metadata.get("labels", {}),
        ready=ready.get("status") == "True",
        ready_changed_at=parse_time(ready.get("lastTransitionTime")),
        not_ready_message=ready.get("message", "the node has no Ready condition"),
        deleting="deletionTimestamp" in metadata,
    )


def parse_agent(body: JsonObject) -> ObservedAgent | None:
    """An agent's pod; None before it is on a node."""
    metadata = body["metadata"]
    node = body.get("spec", {}).get("nodeName")
    if not node:
        return None
    return ObservedAgent(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        node=node,
        address=body.get("status", {}).get("podIP"),
        deleting="deletionTimestamp" in metadata,
    )


def parse_clone_job(body: JsonObject) -> ObservedCloneJob | None:
    """A clone Job as ``manifests.clone_job`` made it; None for a Job that merely carries its labels."""
    metadata, status = body["metadata"], body.get("status", {})
    annotations, labels = metadata.get("annotations", {}), metadata["labels"]
    if not {ANNOTATION_NAMESPACE, ANNOTATION_TARGET, ANNOTATION_FAILURES} <= annotations.keys():
        return None
    ended = {item["type"]: item for item in status.get("conditions", []) if item["status"] == "True"}
    phase = _phase(status, ended)
    end = ended.get("Failed") or ended.get("Complete") or {}
    return ObservedCloneJob(
        identity=parse_identity(body),
        group_namespace=annotations[ANNOTATION_NAMESPACE],
        group=labels[LABEL_GROUP],
        bucket=int(labels[LABEL_BUCKET]),
        source=annotations.get(ANNOTATION_SOURCE),
        target=annotations[ANNOTATION_TARGET],
        failures=int(annotations[ANNOTATION_FAILURES]) + (phase == "failed"),
        phase=phase,
        started_at=parse_time(status.get("startTime")),
        finished_at=parse_time(end.get("lastTransitionTime")),
        message=end.get("message", ""),
    )


def _phase(status: JsonObject, ended: JsonObject) -> JobPhase:
    if "Failed" in ended:
        return "failed"
    if "Complete" in ended:
        return "succeeded"
    return "running" if status.get("active", 0) and status.get("ready", 0) else "pending"
