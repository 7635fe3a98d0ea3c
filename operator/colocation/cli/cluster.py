"""The commands' view of a cluster: groups, tables, nodes, events as the API server has them."""

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from ..common.sign_of_life import OperatorLife
from ..manifests.spark_pods import SPARK_ROLE_LABEL
from ..model.names import (
    ANNOTATION_ETCD_RESTORED,
    API_GROUP,
    API_VERSION,
    GROUP_KIND,
    GROUP_PLURAL,
    LABEL_DRAIN,
    LEASE_NAME,
    TABLE_PLURAL,
    config_map_of,
)
from ..model.reader_rules import Freshness
from ..submit.clients import list_pods
from .connection import connect, namespace_of
from .errors import HTTP_CONFLICT, HTTP_FORBIDDEN, HTTP_NOT_FOUND, CommandFailed, api_message

Json = dict[str, Any]
DRIVERS = f"{SPARK_ROLE_LABEL}=driver"


class SeenGroups(NamedTuple):
    """Groups. ``gap``: which may be missing among them, and what to do; empty when none is."""

    groups: list[Json]
    gap: str = ""


class Cluster:
    """One API server and the namespace that commands look at.

    Raises:
        ConfigException: no kubeconfig, or not the context.
    """

    def __init__(self, context: str | None, namespace: str | None) -> None:
        self.connection = connect(context)
        self.namespace = namespace or namespace_of(context) or "default"
        self._objects = client.CustomObjectsApi(self.connection)
        # Most users may not read its Lease and need not, so a refusal is not asked about again.
        self._operator_life = OperatorLife(client.CustomObjectsApi(client.ApiClient(self.connection.configuration)))

    @cached_property
    def _core(self) -> "client.CoreV1Api":
        return client.CoreV1Api(self.connection)  # made when asked for, since it loads hundreds of models

    def check_kinds(self) -> None:
        """Refuse a cluster that does not know our kinds.

        Raises:
            CommandFailed: nothing is installed there.
        """
        if API_GROUP not in {found.name for found in client.ApisApi(self.connection).get_api_versions().groups}:
            raise _not_installed(GROUP_PLURAL)

    def check_roles(self, names: Iterable[str]) -> None:
        """Refuse a cluster without these ClusterRoles of the chart, as after `helm uninstall`, which leaves the kinds.

        Without the right to see them this checks nothing.

        Raises:
            CommandFailed: one is missing.
        """
        rights = client.RbacAuthorizationV1Api(self.connection)
        for name in names:
            missing = f"the cluster has no ClusterRole {name}: install the operator (docs/how-to/install.md#install)"
            _refuse_missing(partial(rights.read_cluster_role, name), missing)

    def check_namespace(self) -> None:
        """Refuse a namespace that does not exist: the API server lists nothing in it, and reports no error.

        Without the right to see namespaces this checks nothing.

        Raises:
            CommandFailed: there is none.
        """
        missing = (
            f"there is no namespace {self.namespace!r}: choose one with -n (kubectl get namespaces lists them), or "
            f"make it: colocation init -n {self.namespace}"
        )
        _refuse_missing(partial(self._core.read_namespace, self.namespace), missing)

    def groups(self) -> list[Json]:
        """The ColocationGroups of the namespace, by name."""
        return self._list(GROUP_PLURAL)

    def tables(self) -> list[Json]:
        """The ColocatedTables of the namespace, by name."""
        return self._list(TABLE_PLURAL)

    def all_groups(self) -> list[Json]:
        """The ColocationGroups of all namespaces, by namespace and name."""
        return self._list(GROUP_PLURAL, everywhere=True)

    def all_tables(self) -> list[Json]:
        """The ColocatedTables of all namespaces, by namespace and name."""
        return self._list(TABLE_PLURAL, everywhere=True)

    def nodes(self) -> list[Json]:
        """The Nodes."""
        found = self.connection.sanitize_for_serialization(self._core.list_node())
        return cast("list[Json]", found["items"])

    def group(self, name: str) -> Json:
        """One group.

        Raises:
            CommandFailed: there is none; the message lists those that there are.
        """
        return self._find(name, self.groups(), "group")

    def table(self, name: str) -> Json:
        """One table.

        Raises:
            CommandFailed: there is none; the message lists those that there are.
        """
        return self._find(name, self.tables(), "table")

    def api_versions(self, group: str) -> tuple[str, ...]:
        """The versions of an API group that the cluster serves; none when it does not know the group."""
        groups: list[Any] = client.ApisApi(self.connection).get_api_versions().groups
        return tuple(str(one.version) for found in groups if found.name == group for one in found.versions)

    def find_table(self, name: str) -> Json | None:
        """One table; None when there is none."""
        return next((item for item in self.tables() if item["metadata"]["name"] == name), None)

    def groups_everywhere(self) -> SeenGroups:
        """The groups of all namespaces that the user may see; at least those of the namespace."""
        try:
            answer = self._objects.list_cluster_custom_object(API_GROUP, API_VERSION, GROUP_PLURAL)
        except ApiException as error:
            if error.status != HTTP_FORBIDDEN:
                raise
            gap = (
                f"groups of other namespaces than {self.namespace!r} could not be listed, because you may not; a table "
                "dropped from one of them: colocation recover TABLE --group NAMESPACE/NAME"
            )
            return SeenGroups(self.groups(), gap)
        return SeenGroups(sorted(_items(answer), key=lambda item: item["metadata"]["name"]))

    def annotate_group(self, namespace: str, name: str, annotation: str, value: str) -> None:
        """Set an annotation of a group."""
        patch = {"metadata": {"annotations": {annotation: value}}}
        self._objects.patch_namespaced_custom_object(API_GROUP, API_VERSION, namespace, GROUP_PLURAL, name, patch)

    def create(self, body: Json, *, dry_run: bool = False) -> bool:
        """Create a group or a table; False when one of its name exists. ``dry_run``: only ask whether one may.

        Raises:
            CommandFailed: the API server refuses it.
        """
        plural = GROUP_PLURAL if body["kind"] == GROUP_KIND else TABLE_PLURAL
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        how = "All" if dry_run else None
        try:
            self._objects.create_namespaced_custom_object(
                API_GROUP, API_VERSION, namespace, plural, body, dry_run=how
            )
        except ApiException as error:
            if error.status == HTTP_CONFLICT:
                return False
            raise CommandFailed(f"{body['kind']} {namespace}/{name}: {api_message(error)}") from error
        return True

    def annotate_table(self, table: Json, annotation: str, value: str) -> None:
        """Set an annotation of a table, unless it was created again since it was read."""
        metadata = table["metadata"]
        patch = {"metadata": {"uid": metadata["uid"], "annotations": {annotation: value}}}
        self._objects.patch_namespaced_custom_object(
            API_GROUP, API_VERSION, metadata["namespace"], TABLE_PLURAL, metadata["name"], patch
        )

    def read_table(self, namespace: str, name: str) -> Json:
        """A table of any namespace."""
        found = self._objects.get_namespaced_custom_object(API_GROUP, API_VERSION, namespace, TABLE_PLURAL, name)
        return cast("Json", found)

    def commit(self, table: Json, status: Json) -> None:
        """Write a table's status, unless the table was changed since it was read."""
        metadata = table["metadata"]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        self._objects.patch_namespaced_custom_object_status(
            API_GROUP, API_VERSION, metadata["namespace"], TABLE_PLURAL, metadata["name"], patch
        )

    def accept_restored_etcd(self, namespace: str) -> None:
        """Let the operator in this namespace delete again."""
        patch = {"metadata": {"annotations": {ANNOTATION_ETCD_RESTORED: None}}}
        try:
            client.CoordinationV1Api(self.connection).patch_namespaced_lease(LEASE_NAME, namespace, patch)
        except ApiException as error:
            if error.status != HTTP_FORBIDDEN:
                raise
            raise CommandFailed(
                f"you may not patch the Lease {LEASE_NAME} in namespace {namespace!r}, so deletions stay stopped: ask "
                "for the Role colocation-adopt there, and run the command again"
            ) from error

    def group_of(self, key: tuple[str, str]) -> Json:
        """One group by (namespace, name), also of another namespace whose other groups the user may not see.

        Raises:
            CommandFailed: there is none, or one may not see it.
        """
        namespace, name = key
        if namespace == self.namespace:
            return self.group(name)
        try:
            found = self._objects.get_namespaced_custom_object(API_GROUP, API_VERSION, namespace, GROUP_PLURAL, name)
        except ApiException as error:
            if error.status == HTTP_NOT_FOUND:
                raise CommandFailed(f"there is no group {name!r} in namespace {namespace!r}") from error
            if error.status == HTTP_FORBIDDEN:
                raise CommandFailed(
                    f"you may not see group {name!r} in namespace {namespace!r}: ask for the ClusterRole "
                    "colocation-view there"
                ) from error
            raise
        return cast("Json", found)

    def spark_config_map(self, group: tuple[str, str], namespace: str | None = None) -> Json | None:
        """What the operator keeps of a group (namespace, name) in a namespace; None when it has not made it yet.

        ``namespace``: default is the one that is looked at.
        """
        namespace = namespace or self.namespace
        try:
            found = self._core.read_namespaced_config_map(config_map_of(namespace, group), namespace)
        except ApiException as error:
            if error.status == HTTP_NOT_FOUND:
                return None
            raise
        return {"data": dict(found.data or {})}

    def freshness(self, config_map: Json) -> Freshness:
        """Whether the operator's verdict on the group whose ConfigMap this is holds."""
        return self._operator_life.freshness(config_map.get("data") or {})

    def find_node(self, name: str) -> Json | None:
        """A Node; None when there is none, or one may not see it."""
        try:
            found = self._core.read_node(name)
        except ApiException as error:
            if error.status not in (HTTP_NOT_FOUND, HTTP_FORBIDDEN):
                raise
            return None
        return cast("Json", self.connection.sanitize_for_serialization(found))

    def set_drain(self, node: str, drain: bool) -> None:
        """Mark a node for drain, or take the mark away.

        Raises:
            CommandFailed: there is no such node.
        """
        self._patch_node(node, {"labels": {LABEL_DRAIN: "true" if drain else None}})

    def annotate_node(self, node: str, annotation: str, text: str) -> None:
        """Annotate a node.

        Raises:
            CommandFailed: there is no such node.
        """
        self._patch_node(node, {"annotations": {annotation: text}})

    def _patch_node(self, node: str, metadata: Json) -> None:
        try:
            self._core.patch_node(node, {"metadata": metadata})
        except ApiException as error:
            if error.status != HTTP_NOT_FOUND:
                raise
            nodes: list[Any] = self._core.list_node().items
            names = sorted(str(item.metadata.name) for item in nodes)
            raise CommandFailed(f"there is no node {node!r}; there are: {', '.join(names)}") from error

    def spark_drivers(self) -> list[Json]:
        """The pods of Spark's drivers in the namespace."""
        return list_pods(self.connection, self.namespace, DRIVERS)

    def all_spark_drivers(self) -> list[Json]:
        """The pods of Spark's drivers in all namespaces."""
        found = self._core.list_pod_for_all_namespaces(label_selector=DRIVERS)
        return cast("list[Json]", self.connection.sanitize_for_serialization(found)["items"])

    def events(self, group: str) -> list[Json]:
        """The events of one group, oldest first."""
        return self._events(f",involvedObject.name={group}")

    def events_of_groups(self) -> list[Json]:
        """The events of the namespace's groups, oldest first."""
        return self._events()

    def all_events_of_groups(self) -> list[Json]:
        """The events of the groups of all namespaces, oldest first."""
        return self._events(everywhere=True)

    def _events(self, more: str = "", *, everywhere: bool = False) -> list[Json]:
        selector = f"involvedObject.kind={GROUP_KIND}{more}"
        if everywhere:
            found = self._core.list_event_for_all_namespaces(field_selector=selector)
        else:
            found = self._core.list_namespaced_event(self.namespace, field_selector=selector)
        items = cast("list[Json]", self.connection.sanitize_for_serialization(found)["items"])
        return sorted(items, key=_time_of)

    def _find(self, name: str, items: list[Json], what: str) -> Json:
        for item in items:
            if item["metadata"]["name"] == name:
                return item
        if not items:
            self.check_namespace()
        names = ", ".join(item["metadata"]["name"] for item in items) or "none"
        raise CommandFailed(
            f"there is no {what} {name!r} in namespace {self.namespace!r}; there are: {names}"
            f"{_elsewhere(name, what, is_empty=not items)}"
        )

    def _list(self, plural: str, everywhere: bool = False) -> list[Json]:
        kind = (API_GROUP, API_VERSION)
        try:
            if everywhere:
                answer = self._objects.list_cluster_custom_object(*kind, plural)
            else:
                answer = self._objects.list_namespaced_custom_object(*kind, self.namespace, plural)
        except ApiException as error:
            if error.status == HTTP_NOT_FOUND:
                raise _not_installed(plural) from error
            raise
        return sorted(_items(answer), key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"]))


def _refuse_missing(read: Callable[[], object], missing: str) -> None:
    """Raise ``CommandFailed`` with this message if the object does not exist; without the right to see it, nothing."""
    try:
        read()
    except ApiException as error:
        if error.status == HTTP_NOT_FOUND:
            raise CommandFailed(missing) from error
        if error.status != HTTP_FORBIDDEN:
            raise


def _not_installed(plural: str) -> CommandFailed:
    return CommandFailed(
        f"the cluster has no {plural}.{API_GROUP}: install the operator (docs/how-to/install.md#install), or choose "
        "another cluster with --context"
    )


def _elsewhere(name: str, what: str, *, is_empty: bool) -> str:
    """How to name an object of another namespace, for a user who seems to look for one; else empty."""
    namespace, mark, own_name = name.removeprefix("colocation.").replace(".", "/").partition("/")
    if mark:
        return f"; for one of another namespace give that: {own_name} -n {namespace}"
    return f"; `colocation {what}s -A` lists those of all namespaces: choose one with -n" if is_empty else ""


def _time_of(event: Json) -> tuple[str, int]:
    """When it happened last, to the second, and its version, which orders those of one second by their writes."""
    version = str(event["metadata"].get("resourceVersion") or "")
    return event.get("lastTimestamp") or event.get("eventTime") or "", int(version) if version.isdecimal() else 0


def _items(answer: object) -> list[Json]:
    """The objects of a list."""
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list):
        raise CommandFailed(
            "the server does not answer like a Kubernetes API server: check `server` in the kubeconfig, and whether a "
            "proxy answers in its place (HTTPS_PROXY)"
        )
    return items
