"""What `prepare` adds to Kubeflow's SparkConnect, what it keeps, and what it refuses."""

from typing import Any

import pytest

from colocation.submit import ManifestError, prepare
from colocation.submit.direct import direct_submission
from colocation.submit.prepare import Overrides, override

from .applications_under_test import pod_spec, sales_group


def connect_server(**spec: Any) -> dict[str, Any]:
    """The least SparkConnect, labelled with the group; ``spec`` adds or replaces fields."""
    return {
        "apiVersion": "sparkoperator.k8s.io/v1alpha1",
        "kind": "SparkConnect",
        "metadata": {"name": "notebooks", "namespace": "shop", "labels": {"colocation.dev/group": "sales"}},
        "spec": {"sparkVersion": "4.1.4", "server": {}, "executor": {"instances": 3}, **spec},
    }


def only_container(application: dict[str, Any], role: str) -> dict[str, Any]:
    """That of the pod of ``server`` or ``executor``."""
    [found] = pod_spec(application, role)["containers"]
    return dict(found)


def test_server_and_executors_are_placed() -> None:
    """Executors on the group's nodes with its files, both with the token; prepared again, it is the same."""
    prepared = prepare(connect_server(), sales_group())
    made = prepared.application
    assert prepared.decision.colocated
    assert pod_spec(made, "executor")["affinity"]["nodeAffinity"]
    server, executor = (only_container(made, role) for role in ("server", "executor"))
    assert [server["name"], executor["name"]] == ["spark-kubernetes-driver", "spark-kubernetes-executor"]
    assert [len(one["volumeMounts"]) for one in (server, executor)] == [1, 2]
    assert made["spec"]["image"] == "spark:installed"
    assert made["spec"]["sparkConf"]["spark.sql.catalog.colocation"] == "dev.colocation.spark.ColocationCatalog"
    assert prepare(made, sales_group()).application == made


def test_executors_have_the_servers_account() -> None:
    """Also when the command gives it; Secrets are environment of both."""
    made = connect_server()
    override(made, Overrides(service_account="spark", secrets=("lake",), image="own:1"))
    prepared = prepare(made, sales_group()).application
    for role in ("server", "executor"):
        assert pod_spec(prepared, role)["serviceAccountName"] == "spark"
        assert only_container(prepared, role)["envFrom"] == [{"secretRef": {"name": "lake"}}]
    assert prepared["spec"]["image"] == "own:1"


def test_a_server_without_an_account_is_warned_of() -> None:
    """It would run as `default` and, without a driver's rights, be restarted without end and a word."""
    [warning] = prepare(connect_server(), sales_group()).warnings
    assert warning == (
        "spec.server.template.spec.serviceAccountName is not given: the server runs as ServiceAccount default, and is "
        "restarted without end if that lacks a Spark driver's rights; give spark, which `colocation init -n shop` makes"
    )
    made = connect_server()
    override(made, Overrides(service_account="spark"))
    assert prepare(made, sales_group()).warnings == ()


def test_few_executors_are_noted() -> None:
    """Cores are counted as those of an application."""
    crowded = connect_server(executor={"instances": 3, "cores": 100})
    assert "cores" in prepare(crowded, sales_group(buckets=8)).decision.note


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"server": None, "executor": []}, r"spec.executor is \[\]; allowed: a mapping", id="shape"),
        pytest.param({"executor": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "node-9"}}}}},
                     r"spec.executor.template.spec.nodeSelector.*node-9", id="another node"),
        pytest.param({"sparkConf": {"spark.kubernetes.executor.podTemplateFile": "/x"}},
                     "spark.kubernetes.executor.podTemplateFile", id="another template"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(spec: dict[str, Any], message: str) -> None:
    """With the field and what to do."""
    with pytest.raises(ManifestError, match=message):
        prepare(connect_server(**spec), sales_group())


def test_what_is_missing_is_named() -> None:
    """As Kubeflow's operator requires it."""
    application = connect_server()
    del application["spec"]["server"]
    with pytest.raises(ManifestError, match="spec lacks server, which Kubeflow's operator requires"):
        prepare(application, sales_group())


def test_it_needs_the_operator() -> None:
    """A Job runs a driver once; the message names what serves without Kubeflow's operator."""
    with pytest.raises(ManifestError, match="examples/sql-server"):
        direct_submission(prepare(connect_server(), sales_group()), "notebooks")
