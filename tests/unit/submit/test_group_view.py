"""What the submitter reads of a group and of its ConfigMap."""

from typing import Any

import pytest

from colocation.manifests.spark_pods import SparkPlacement, render_properties, spark_defaults
from colocation.model.group import ColocationGroupStatus
from colocation.model.names import config_map_of
from colocation.model.reader_rules import Freshness
from colocation.submit import GroupView, ManifestError, group_label, prepare
from colocation.submit.group_view import read_properties

from .applications_under_test import pod_spec, spark_application


def group_object(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "sales", "namespace": "shop"}, "spec": {}, "status": status}


def config_map(**changes: Any) -> dict[str, Any]:
    placement = SparkPlacement(namespace="shop", group="sales", **changes)
    return {"data": {"spark-defaults.conf": render_properties(spark_defaults(placement))}}


def test_the_operators_words_are_kept() -> None:
    """Reason and message of the Stable condition reach the submitter unchanged."""
    condition = {"type": "Stable", "status": "False", "reason": "NodeGone", "message": "node-2 is gone"}
    view = GroupView.from_objects(group_object(stable=False, reason="NodeGone", conditions=[condition]), config_map())
    assert view.instability == "NodeGone: node-2 is gone"


def test_the_installations_settings_come_from_the_config_map() -> None:
    """Data root and image are chart values; users see them in their group's ConfigMap."""
    view = GroupView.from_objects(group_object(stable=True), config_map(data_root="/disk", spark_image="spark:1"))
    assert (view.data_root, view.spark_image) == ("/disk", "spark:1")


@pytest.mark.parametrize("status", [{}, {"stable": None}])
def test_a_group_without_a_verdict_is_not_stable(status: dict[str, Any]) -> None:
    """Before the operator's first pass nothing is known."""
    view = GroupView.from_objects(group_object(**status), config_map())
    assert view.stable is False
    assert view.instability == "the operator has not reported on it yet"


@pytest.mark.parametrize("stable", [True, False, None])
def test_a_verdict_of_a_silent_operator_is_no_stable_one(stable: bool | None) -> None:
    """Whatever it said last: the reason is its silence, the decision degrades as for any unstable group."""
    silent = Freshness(message="no sign of life since noon")
    condition = {"type": "Stable", "status": "False", "reason": "NodeGone", "message": "node-2 is gone"}
    group = group_object(stable=stable, reason="NodeGone", conditions=[condition])
    view = GroupView.from_objects(group, config_map(spark_image="spark:1"), freshness=silent)
    assert (view.stable, view.instability) == (False, "OperatorSilent: no sign of life since noon")
    prepared = prepare(spark_application(), view)
    reason = "group is not stable: OperatorSilent: no sign of life since noon"
    assert str(prepared.decision) == f"colocate: false, reason: {reason}"


@pytest.mark.parametrize(
    ("agents", "verdict"),
    [
        pytest.param('{"node-1": "https://192.0.2.1:8440"}', True, id="each bucket has a live replica"),
        pytest.param('{"node-2": "https://192.0.2.2:8440"}', False, id="bucket 1 has none"),
        pytest.param("{}", False, id="no agent is ready"),
        pytest.param("[", False, id="not JSON"),
        pytest.param("3", False, id="no object"),
    ],
)
def test_live_replicas_are_those_on_nodes_whose_agents_the_config_map_names(agents: str, verdict: bool) -> None:
    """And of which the status does not say that they are not complete."""
    rows = [["node-1", "node-2"], ["node-1"]]
    data = {**config_map()["data"], "agents.json": agents}
    group = group_object(stable=False, reason="NodeNotReady", backendsPerBucketSeq=rows)
    view = GroupView.from_objects(group, {"data": data})
    assert view.liveness.is_whole == verdict
    assert prepare(spark_application(), view.model_copy(update={"spark_image": "x"})).decision.colocated == verdict
    corrupt = [{"bucket": 1, "reason": "ReplicaCorrupt", "replicas": {"node-1": "corrupt"}}]
    group["status"]["unstableBuckets"] = corrupt
    assert not GroupView.from_objects(group, {"data": data}).liveness.is_whole


def test_properties_survive_the_round_trip() -> None:
    """What the operator writes, the submitter reads."""
    conf = spark_defaults(SparkPlacement(namespace="shop", group="sales", spark_image="spark:1"))
    assert read_properties(render_properties(conf)) == conf


@pytest.mark.parametrize(
    "application",
    [
        pytest.param({}, id="no metadata"),
        pytest.param({"metadata": {"labels": None}}, id="no labels"),
        pytest.param({"metadata": {"labels": {"colocation.dev/group": ""}}}, id="empty"),
    ],
)
def test_an_application_without_the_label_is_explained(application: dict[str, Any]) -> None:
    """The message shows the label to write."""
    with pytest.raises(ManifestError, match=r"colocation\.dev/group: sales"):
        group_label(application)


def test_a_group_of_another_namespace_is_named_by_two_labels() -> None:
    """Label values hold no slash; the reference is that of colocateWith."""
    labels = {"colocation.dev/group": "sales", "colocation.dev/group-namespace": "accounts"}
    assert group_label({"metadata": {"labels": labels}}) == "accounts/sales"
    group = GroupView.from_status(("accounts", "sales"), ColocationGroupStatus(), "/data", None, "shop")
    assert (group.namespace, group.group_namespace, group.labels) == ("shop", "accounts", labels)


@pytest.mark.parametrize(("allowed", "refused"), [([], True), (["bank"], True), (["shop"], False), (["*"], False)])
def test_a_group_of_another_namespace_allows_applications_as_tables(allowed: list[str], refused: bool) -> None:
    """In its own namespace no list is asked."""
    group = {**group_object(stable=True), "spec": {"allowedNamespaces": allowed}}
    group["metadata"] = {"name": "sales", "namespace": "accounts"}
    assert GroupView.from_objects(group, config_map(), "accounts").stable
    if refused:
        with pytest.raises(ManifestError, match=r"NamespaceNotAllowed: group accounts/sales allows namespaces \["):
            GroupView.from_objects(group, config_map(), "shop")
    else:
        assert GroupView.from_objects(group, config_map(), "shop").group_namespace == "accounts"


def test_pods_mount_what_the_operator_keeps_in_their_own_namespace() -> None:
    """A pod cannot mount another namespace's ConfigMap."""
    group = GroupView.from_status(("accounts", "sales"), ColocationGroupStatus(), "/data", "spark:installed", "shop")
    prepared = prepare(spark_application(), group).application
    volumes = {item["name"]: item for item in pod_spec(prepared, "driver")["volumes"]}
    source = volumes["colocation-access"]["projected"]["sources"][1]["configMap"]
    assert source["name"] == config_map_of("shop", ("accounts", "sales")) != "sales-spark"
    assert prepared["spec"]["sparkConf"]["spark.colocation.namespace"] == "shop"
    assert prepare(prepared, group).application == prepared
