"""Groups and tables on a real API server, as an operator would keep them, for the catalog in Java."""

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from colocation.model.agent import TableReference
from colocation.model.names import config_map_of, table_directory
from colocation.spark import load
from tests.integration.control_plane import ControlPlane, path_of
from tests.integration.objects import as_json
from tests.spark.loopback import LoopbackAgents

CATALOG = "lake"
CATALOG_KEY = f"spark.sql.catalog.{CATALOG}"
CATALOG_CLASS = "dev.colocation.spark.ColocationCatalog"
STABLE = {"stable": True, "reason": "AllReplicasComplete", "unstableBuckets": None, "unstableBucketCount": None}
UNSTABLE = {
    "stable": False,
    "reason": "NodeNotReady",
    "unstableBuckets": [{"bucket": 3, "reason": "NodeNotReady", "message": "node-2 is not ready"}],
    "unstableBucketCount": 1,
}
WHY_UNSTABLE = "group is not stable: NodeNotReady; bucket 3 NodeNotReady: node-2 is not ready"


def make_table(session: SparkSession, name: str, columns: str = "k BIGINT, v BIGINT", partitions: str = "") -> str:
    """An empty table of group sales, bucketed by k; its name."""
    session.sql(f"CREATE TABLE {name} ({columns}) {partitions} CLUSTERED BY (k) INTO 6 BUCKETS "
                "TBLPROPERTIES ('colocate_with'='sales')")  # fmt: skip
    return name


class ClusterTables:
    """Objects of one namespace; ``rows`` are loaded by ``colocation.spark.load``."""

    def __init__(self, plane: ControlPlane, agents: LoopbackAgents, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self._agents = agents
        self._kubectl("create", "namespace", namespace)

    def add_group(
        self, name: str, key: list[str], buckets: tuple[tuple[str, ...], ...], replicas: int = 2
    ) -> None:
        """A stable group with this map, and its ConfigMap."""
        spec = {"bucketKey": key, "buckets": len(buckets), "replicas": replicas}
        self.make("ColocationGroup", name, spec)
        self.change("cg", name, **STABLE, backendsPerBucketSeq=buckets)
        agents = f"--from-literal=agents.json={json.dumps(self._agents.urls)}"
        self._kubectl("create", "configmap", config_map_of(self.namespace, (self.namespace, name)), agents)

    def add_table(
        self, name: str, rows: DataFrame, key: list[str], partitions: tuple[str, ...] = (), group: str = "sales"
    ) -> None:
        """An accepted table of a DataFrame's schema; the DataFrame's rows are loaded, if it has any."""
        columns = [{"name": field.name, "type": field.dataType.simpleString()} for field in rows.schema.fields]
        spec = {"colocateWith": group, "columns": columns, "bucketedBy": key, "partitionedBy": list(partitions)}
        self.make("ColocatedTable", name, spec)
        self.change("ct", name, accepted=True)
        if not rows.isEmpty():
            self.load(rows, name)

    def load(self, rows: DataFrame, name: str, **options: Any) -> None:
        """Another snapshot."""
        self.configure(rows.sparkSession)
        load(rows, name, namespace=self.namespace, catalog=CATALOG, **options)

    def get(self, name: str) -> dict[str, Any]:
        """A table's object."""
        return self.plane.get(path_of("ct", name, self.namespace))

    def ask_agents_about(self, name: str) -> None:
        """The operator's question of a table."""
        table = self.get(name)
        uid, manifest = table["metadata"]["uid"], table["status"]["snapshot"]["manifest"].removeprefix("sha256:")
        directory = table_directory(name, uid)
        self._agents.ask_about(
            TableReference(namespace=self.namespace, directory=directory, manifest=manifest), uid
        )

    def change(self, kind: str, name: str, **status: Any) -> None:
        """Change an object's status, as its writers do."""
        self.plane.patch_status(path_of(kind, name, self.namespace), status)

    def change_spec(self, kind: str, name: str, **spec: Any) -> None:
        """Change an object's spec, as users do."""
        self._kubectl("patch", kind, name, "--type=merge", "-p", as_json({"spec": spec}))

    def annotate(self, kind: str, name: str, **annotations: str) -> None:
        """Change an object's annotations, as users do."""
        body = {"metadata": {"annotations": annotations}}
        self._kubectl("patch", kind, name, "--type=merge", "-p", as_json(body))

    def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        self._kubectl("delete", kind, name)

    def configure(self, session: SparkSession) -> SparkSession:
        """The session with the catalog."""
        session.conf.set(CATALOG_KEY, CATALOG_CLASS)
        session.conf.set(f"{CATALOG_KEY}.kubeconfig", str(self.plane.kubeconfig))
        return session

    def make(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        """Create an object."""
        body = {"apiVersion": "colocation.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        self._kubectl("create", "-f", "-", stdin=as_json(body))

    def _kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        where = () if arguments[:2] == ("create", "namespace") else ("-n", self.namespace)
        done = self.plane.kubectl(*arguments, *where, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout
