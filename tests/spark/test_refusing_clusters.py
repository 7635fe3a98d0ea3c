"""The catalog on a cluster without our kinds, with older ones, or that refuses to everyone: it names the cause."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from tests.integration.control_plane import CRDS, ControlPlane, running_control_plane

from .cluster_tables import CATALOG, CATALOG_CLASS, CATALOG_KEY

pytestmark = pytest.mark.spark

CREATE = f"""CREATE TABLE {CATALOG}.shop.orders (k BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS
             TBLPROPERTIES ('colocate_with' = 'sales', 'retention_snapshots' = '3')"""
STATEMENTS = (f"SELECT * FROM {CATALOG}.shop.orders", f"SHOW TABLES IN {CATALOG}.shop", CREATE)


@pytest.fixture
def bare() -> Iterator[ControlPlane]:
    """A cluster with namespace shop that has never seen our chart."""
    with running_control_plane() as plane:
        plane.kubectl("create", "namespace", "shop")
        yield plane


def serve_kinds_without(plane: ControlPlane, field: str, folder: Path) -> None:
    """Those of a release before this field of specs."""
    for file in CRDS.glob("*.yaml"):
        kind = yaml.safe_load(file.read_text())
        spec = kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"].pop(field, None)
        (folder / file.name).write_text(yaml.safe_dump(kind))
    for command in (("create",), ("wait", "--for=condition=Established")):
        done = plane.kubectl(*command, "-f", str(folder))
        assert done.returncode == 0, done.stderr


def error_of(application: SparkSession, plane: ControlPlane, statement: str) -> str:
    """A session's error on that cluster."""
    session = application.newSession()
    session.conf.set(CATALOG_KEY, CATALOG_CLASS)
    session.conf.set(f"{CATALOG_KEY}.kubeconfig", str(plane.kubeconfig))
    with pytest.raises(Exception) as refused:
        session.sql(statement).collect()
    return str(refused.value)


def test_a_cluster_without_our_kinds(application: SparkSession, bare: ControlPlane) -> None:
    """As of a kubeconfig whose current context is another cluster's."""
    errors = [error_of(application, bare, statement) for statement in STATEMENTS]
    assert [error for error in errors if "does not know ColocatedTables; install the chart there" not in error] == []


def test_kinds_of_an_older_release(application: SparkSession, bare: ControlPlane, tmp_path: Path) -> None:
    """A field that they do not know would be left out silently."""
    serve_kinds_without(bare, "retention", tmp_path)
    error = error_of(application, bare, CREATE)
    assert 'unknown field "spec.retention"' in error and "docs/how-to/upgrade.md#steps" in error
    assert bare.kubectl("get", "colocatedtables", "-n", "shop", "-o", "name").stdout == ""


def test_a_namespace_that_ends(application: SparkSession, bare: ControlPlane) -> None:
    """It is no missing right, for which the API server has the same status."""
    bare.serve_crds()
    bare.kubectl("delete", "namespace", "shop", "--wait=false")
    error = error_of(application, bare, CREATE)
    assert "the cluster refuses it: " in error and "because it is being terminated" in error
