"""The commands' view of a cluster: groups, tables, nodes, events as the API server has them."""

from typing import Any, cast

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from ..model.names import (
    API_GROUP,
    API_VERSION,
    GROUP_KIND,
    GROUP_PLURAL,
    LABEL_DRAIN,
    TABLE_PLURAL,
    spark_config_map_name,
)
from .errors import HTTP_NOT_FOUND, CommandFailed

Json = dict[str, Any]


class Cluster:
    """One API server and the namespace that commands look at.

    Raises:
        ConfigException: no kubeconfig, or not the context.
    """

    def __init__(self, context: str | None, namespace: str | None) -> None:
        self.connection = connect(context)
        self.namespace = namespace or _context_namespace(context) or "default"
        self._objects = client.CustomObjectsApi(self.connection)
        self._core = client.CoreV1Api(self.connection)

    def groups(self) -> list[Json]:
        """The ColocationGroups of the namespace, by name."""
        return self._list(GROUP_PLURAL)

    def tables(self) -> list[Json]:
        """The ColocatedTables of the namespace, by name."""
        return self._list(TABLE_PLURAL)

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

    def spark_config_map(self, group: str) -> Json | None:
        """The ConfigMap ``<group>-spark``, or None when the operator has not made it yet."""
        try:
            found = self._core.read_namespaced_config_map(spark_config_map_name(group), self.namespace)
        except ApiException as error:
            if error.status == HTTP_NOT_FOUND:
                return None
            raise
        return {"data": dict(found.data or {})}

    def set_drain(self, node: str, drain: bool) -> None:
        """Mark a node for drain, or take the mark away.

        Raises:
            CommandFailed: there is no such node.
        """
        labels = {LABEL_DRAIN: "true" if drain else None}
        try:
            self._core.patch_node(node, {"metadata": {"labels": labels}})
        except ApiException as error:
            if error.status != HTTP_NOT_FOUND:
                raise
            nodes: list[Any] = self._core.list_node().items
            names = sorted(str(item.metadata.name) for item in nodes)
            raise CommandFailed(f"there is no node {node!r}; there are: {', '.join(names)}") from error

    def events(self, group: str) -> list[Json]:
        """The events of one group, oldest first."""
        selector = f"involvedObject.kind={GROUP_KIND},involvedObject.name={group}"
        found = self._core.list_namespaced_event(self.namespace, field_selector=selector)
        items = cast("list[Json]", self.connection.sanitize_for_serialization(found)["items"])
        return sorted(items, key=lambda item: item.get("lastTimestamp") or item.get("eventTime") or "")

    def _find(self, name: str, items: list[Json], what: str) -> Json:
        for item in items:
            if item["metadata"]["name"] == name:
                return item
        names = ", ".join(item["metadata"]["name"] for item in items) or "none"
        raise CommandFailed(f"there is no {what} {name!r} in namespace {self.namespace!r}; there are: {names}")

    def _list(self, plural: str) -> list[Json]:
        try:
            answer = self._objects.list_namespaced_custom_object(API_GROUP, API_VERSION, self.namespace, plural)
        except ApiException as error:
            if error.status == HTTP_NOT_FOUND:
                raise CommandFailed(
                    f"the cluster knows no {plural}.{API_GROUP}: install the operator's chart (helm install colocation "
                    "charts/colocation-operator)"
                ) from error
            raise
        return sorted(cast("Json", answer)["items"], key=lambda item: item["metadata"]["name"])


def connect(context: str | None) -> client.ApiClient:
    """A client from the kubeconfig (``KUBECONFIG``), or from the pod that this runs in.

    Raises:
        ConfigException: neither is there.
    """
    settings = client.Configuration()
    try:
        config.load_kube_config(context=context, client_configuration=settings)
    except config.ConfigException:
        if context is not None:
            raise
        try:
            config.load_incluster_config(client_configuration=settings)
        except config.ConfigException:
            config.load_kube_config(client_configuration=settings)
    settings.retries = 1
    return client.ApiClient(settings)


def _context_namespace(context: str | None) -> str | None:
    try:
        contexts, active = config.list_kube_config_contexts()
    except config.ConfigException:
        return None
    chosen = next((item for item in contexts if item["name"] == context), active) if context else active
    return cast("str | None", chosen["context"].get("namespace"))
