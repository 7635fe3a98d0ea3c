"""One structured log line for every action that the operator performed: what, to which object, why, decided from what.

Events of Kubernetes are left out: they say themselves what they say, and go with their objects.
"""

import logging
from dataclasses import fields
from typing import Any

from ..common.logs import audit
from ..model.group import ColocationGroupStatus
from ..reconcile.actions import Action, PostEvent, WriteConfigMap, WriteGroupStatus, WriteTableStatus
from ..state.objects import Identity

logger = logging.getLogger("colocation.audit")

LONGEST_TEXT = 300
"""Of a field's value; whatever is longer is cut."""


def audit_action(scope: str, action: Action) -> None:
    """Log an action that was performed."""
    if not isinstance(action, PostEvent) and logger.isEnabledFor(logging.INFO):
        audit(logger, type(action).__name__, scope=scope, **_described(action))


def _described(action: Action) -> dict[str, object]:
    """The fields of the line: those of the action, short."""
    match action:
        case WriteGroupStatus(group, status):
            return {**_object(group), **_map_of(status)}
        case WriteTableStatus(table, status):
            snapshot = status.get("snapshot")
            return {**_object(table), "group": status.get("group"), "accepted": status.get("accepted"),
                    "snapshot": snapshot.get("id") if isinstance(snapshot, dict) else None}  # fmt: skip
        case WriteConfigMap(group):
            return {**_object(group), "in_namespace": action.content.placement.namespace}
    described: dict[str, object] = {}
    for field in fields(action):
        described |= _field(field.name, getattr(action, field.name))
    return described


def _field(name: str, value: Any) -> dict[str, object]:
    if isinstance(value, Identity):
        prefix = "" if name in ("group", "table") else f"{name}_"
        return {f"{prefix}{key}": text for key, text in _object(value).items()}
    if value is None or isinstance(value, bool | int | float):
        return {name: value}
    if hasattr(value, "model_dump"):
        text = value.model_dump_json(by_alias=True)
    elif isinstance(value, tuple | list):
        text = ", ".join(str(getattr(item, "directory", item)) for item in value)
    else:
        text = str(value)
    return {name: text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"}


def _object(identity: Identity) -> dict[str, object]:
    return {
        "namespace": identity.namespace,
        "name": identity.name,
        "uid": identity.uid,
        "decided_from": identity.resource_version,
    }


def _map_of(status: Any) -> dict[str, object]:
    """Of a group's status: the verdict, and the map's version."""
    found = ColocationGroupStatus.model_validate(status)
    return {"stable": found.stable, "reason": found.reason, "map_version": found.map_version}
