"""Tables, groups and agents as the Kubernetes API knows them: the library's one seam to the cluster.

``Catalog`` is small so that tests can replace the cluster by a few objects in memory.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import urllib3
from pydantic import ValidationError

from colocation.model.base import Frozen
from colocation.model.conditions import ConditionType, Reason
from colocation.model.freshness import CURRENT, Freshness
from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus, namespace_refusal
from colocation.model.names import (
    AGENTS_KEY,
    API_GROUP,
    API_VERSION,
    GROUP_PLURAL,
    TABLE_PLURAL,
    config_map_of,
    group_key,
    group_reference,
    private_group_name,
    table_directory,
)
from colocation.model.problems import problems_of
from colocation.model.salvage import salvage
from colocation.model.table import (
    MAX_COUNT,
    ColocatedTableSpec,
    ColocatedTableStatus,
    TableSnapshot,
    placing_group,
)
from colocation.sign_of_life import OperatorLife

HTTP_FORBIDDEN = 403
HTTP_NOT_FOUND = 404
HTTP_CONFLICT = 409
HTTP_SERVER_ERROR = 500
PASSING_FAILURES = (408, 429)
"""Beside server errors: request timeout, too many requests."""
REQUEST_TIMEOUT_SECONDS = 30

KubernetesObject = dict[str, Any]
Part = TypeVar("Part", bound=Frozen)


class NotInCatalog(Exception):
    """The table, group or ConfigMap does not exist."""


class NotAllowed(Exception):
    """The API server does not let this ServiceAccount or user do that."""


class RequestRefused(Exception):
    """The API server refuses a request for another reason, such as a name that no object can have."""


class InvalidObject(ValueError):
    """An object, or its status, cannot be understood; the message begins with the reason."""


class WriteConflict(Exception):
    """The object was changed by someone else since it was read; this write did nothing."""


class NoAnswer(Exception):
    """The API server failed, or did not answer: what was asked of it may have been done, or may still be."""


@dataclass(frozen=True)
class TableObject:
    """A ColocatedTable as it was at ``resource_version``.

    Attributes:
        status: of one that cannot be understood, what can.
        status_error: what is wrong with the rest; empty = nothing.
        lost_id: the id of a snapshot that is part of that rest, as far as it says one.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    spec: ColocatedTableSpec
    status: ColocatedTableStatus
    status_error: str = ""
    lost_id: int = 0

    @property
    def directory(self) -> str:
        """Its folder below the namespace's, ``<table>-<uid8>``."""
        return table_directory(self.name, self.uid)

    @property
    def group(self) -> str:
        """The group whose map says where its rows lie, as ``get_group`` takes it; its own when it is in no group."""
        key = placing_group(self.namespace, self.spec, self.status)
        return group_reference(self.namespace, key) if key[1] else private_group_name(self.name, self.uid)

    @property
    def last_id(self) -> int:
        """The largest id that a snapshot of it had; 0 = none."""
        listed = (self.status.snapshot, *self.status.history)
        return max([self.lost_id, *(snapshot.id for snapshot in listed if snapshot is not None)])

    def check_status(self) -> None:
        """Refuse to rely on a status that somebody spoiled.

        Raises:
            InvalidObject: saying what is wrong with it, and how to mend it.
        """
        if self.status_error:
            raise InvalidObject(
                f"{Reason.INVALID_STATUS}: the status of table {self.namespace}.{self.name} cannot be understood: "
                f"{self.status_error}; restore it, or load all of the table anew with mode overwrite"
            )

    @property
    def refusal(self) -> str | None:
        """Why the operator refused it, or that it has not judged it yet; None when it is accepted.

        A status that somebody spoiled is no refusal: the next load may mend it.
        """
        if self.status.accepted:
            return None
        for condition in self.status.conditions:
            if condition.type == ConditionType.ACCEPTED:
                if condition.reason == Reason.INVALID_STATUS:
                    return None
                return f"{condition.reason}: {condition.message}"
        return "the operator has not accepted it yet"


@dataclass(frozen=True)
class GroupObject:
    """A ColocationGroup as it was read."""

    namespace: str
    name: str
    spec: ColocationGroupSpec
    status: ColocationGroupStatus

    @property
    def full_name(self) -> str:
        """``<namespace>/<name>``."""
        return f"{self.namespace}/{self.name}"

    def refusal(self, namespace: str) -> str:
        """Why tables of a namespace may not be in it, whatever their status says; empty when they may."""
        return namespace_refusal((self.namespace, self.name), self.spec.allowed_namespaces, namespace)


@dataclass(frozen=True)
class AgentAddresses:
    """What the ConfigMap ``<group>-spark`` tells: ready agents' URLs by node, and whether the operator lives."""

    urls: dict[str, str]
    freshness: Freshness = CURRENT


class Catalog(Protocol):
    """What the library asks of the cluster.

    All methods raise ``NotInCatalog`` for what does not exist, and ``NoAnswer``.
    """

    def get_table(self, namespace: str, name: str) -> TableObject:
        """One table."""

    def get_group(self, namespace: str, group: str) -> GroupObject:
        """One group, named as tables of ``namespace`` do: ``<name>``, or ``<other namespace>/<name>``."""

    def get_agents(self, namespace: str, group: str) -> AgentAddresses:
        """The agents that readers and loaders of a group's tables in ``namespace`` may talk to.

        Also whether the operator's verdict on the group holds.
        """

    def commit(self, table: TableObject, snapshot: TableSnapshot, history: Sequence[TableSnapshot]) -> None:
        """Set ``status.snapshot`` and ``status.history`` if the table is still as it was read.

        ``status.commits`` stays as it is, but for what of it cannot be understood.

        Raises:
            WriteConflict: it is not, and nothing was changed.
            NoAnswer: it may have been done: read the table to know.
        """


class KubernetesCatalog:
    """The catalog in a cluster: in-cluster configuration inside a pod, else the kubeconfig."""

    def __init__(self) -> None:
        import kubernetes

        kubernetes.config.load_config()
        self._objects = kubernetes.client.CustomObjectsApi()
        self._core = kubernetes.client.CoreV1Api()
        self._operator_life = OperatorLife(self._objects)
        self._api_error: type[Exception] = kubernetes.client.ApiException

    def get_table(self, namespace: str, name: str) -> TableObject:
        return parse_table(self._get(TABLE_PLURAL, namespace, name, "ColocatedTable"))

    def get_group(self, namespace: str, group: str) -> GroupObject:
        return parse_group(self._get(GROUP_PLURAL, *group_key(namespace, group), "ColocationGroup"))

    def get_agents(self, namespace: str, group: str) -> AgentAddresses:
        name = config_map_of(namespace, group_key(namespace, group))
        config_map = self._call(
            f"ConfigMap {namespace}/{name}", self._core.read_namespaced_config_map, name, namespace
        )
        data = config_map.data or {}
        return AgentAddresses(json.loads(data.get(AGENTS_KEY, "{}")), self._operator_life.freshness(data))

    def commit(self, table: TableObject, snapshot: TableSnapshot, history: Sequence[TableSnapshot]) -> None:
        status = {
            "snapshot": snapshot.to_json_dict(),
            "history": [replaced.to_json_dict() for replaced in history],
        }
        if table.status_error:
            status["commits"] = [known.to_json_dict() for known in table.status.commits]
        body = {"metadata": {"resourceVersion": table.resource_version, "uid": table.uid}, "status": status}
        self._call(
            f"ColocatedTable {table.namespace}/{table.name}",
            self._objects.patch_namespaced_custom_object_status,
            API_GROUP, API_VERSION, table.namespace, TABLE_PLURAL, table.name, body,
            _content_type="application/merge-patch+json",
        )

    def _get(self, plural: str, namespace: str, name: str, kind: str) -> KubernetesObject:
        return self._call(
            f"{kind} {namespace}/{name}",
            self._objects.get_namespaced_custom_object,
            API_GROUP, API_VERSION, namespace, plural, name,
        )

    def _call(self, subject: str, method: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, _request_timeout=REQUEST_TIMEOUT_SECONDS, **options)
        except self._api_error as error:
            status = getattr(error, "status", None)
            if status == HTTP_NOT_FOUND:
                raise NotInCatalog(f"{subject} does not exist") from error
            if status == HTTP_FORBIDDEN:
                raise NotAllowed(
                    f"{subject}: this account may not see or change it; ask for ClusterRole colocation-user in that "
                    "namespace (colocation-view is enough for a group of another one)"
                ) from error
            if status == HTTP_CONFLICT:
                raise WriteConflict(f"{subject} was changed by someone else") from error
            if not status or status >= HTTP_SERVER_ERROR or status in PASSING_FAILURES:
                reason = getattr(error, "reason", None) or error
                raise NoAnswer(f"{subject}: the API server answered {status or 'nothing'}: {reason}") from error
            said = getattr(error, "body", None) or getattr(error, "reason", None)
            raise RequestRefused(f"{subject}: the API server answered {status}: {said}") from error
        except urllib3.exceptions.HTTPError as error:
            raise NoAnswer(f"{subject}: the API server's answer was lost: {error}") from error


def parse_table(item: KubernetesObject) -> TableObject:
    """A ColocatedTable as the API server gives it.

    Whoever loads tables may write their status, and tables are older or newer than this version: nothing is trusted.

    Raises:
        InvalidObject: its spec cannot be understood (``InvalidSpec``).
    """
    metadata = item["metadata"]
    name = f"{metadata['namespace']}.{metadata['name']}"
    status, status_error = salvage(ColocatedTableStatus, item.get("status"))
    return TableObject(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        spec=_parse(ColocatedTableSpec, item.get("spec"), Reason.INVALID_SPEC, f"the spec of table {name}"),
        status=status,
        status_error=status_error,
        lost_id=_lost_id(item.get("status")) if status_error else 0,
    )


def _lost_id(status: object) -> int:
    """The id of a snapshot of which something else cannot be understood; 0 = it says none that can be counted on."""
    snapshot = status.get("snapshot") if isinstance(status, dict) else None
    number = snapshot.get("id") if isinstance(snapshot, dict) else None
    return number if type(number) is int and 0 < number < MAX_COUNT // 2 else 0


def _parse(kind: type[Part], given: object, reason: Reason, what: str) -> Part:
    part = "spec" if reason == Reason.INVALID_SPEC else "status"
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise InvalidObject(f"{reason}: {what} cannot be understood: {problems_of(error, part)}; correct it") from error


def parse_group(item: KubernetesObject) -> GroupObject:
    """A ColocationGroup as the API server gives it.

    Raises:
        InvalidObject: its spec (``InvalidSpec``) or status (``InvalidStatus``) cannot be understood.
    """
    metadata = item["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    return GroupObject(
        namespace=metadata["namespace"],
        name=metadata["name"],
        spec=_parse(ColocationGroupSpec, item.get("spec"), Reason.INVALID_SPEC, f"the spec of group {name}"),
        status=_parse(
            ColocationGroupStatus, item.get("status") or {}, Reason.INVALID_STATUS, f"the status of group {name}"
        ),
    )
