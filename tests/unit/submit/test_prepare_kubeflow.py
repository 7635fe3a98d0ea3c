"""What `prepare` adds to a Kubeflow SparkApplication, what it keeps, and what it refuses."""

import copy
from typing import Any

import pytest

from colocation.model.names import node_label
from colocation.submit import ManifestError, prepare
from colocation.submit.kubeflow import NETWORK_POLICY_STEP

from .applications_under_test import container, pod_spec, sales_group, spark_application

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ON_GROUP = {"key": node_label("shop", "sales"), "operator": "In", "values": ["true"]}


def terms(application: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pod_spec(application, "executor")["affinity"]["nodeAffinity"][REQUIRED][
        "nodeSelectorTerms"
    ]
    return found


def on_node(name: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "In", "values": [name]}


def executor_with(**template_spec: Any) -> dict[str, Any]:
    return {"instances": 3, "template": {"spec": template_spec}}


def test_executors_run_on_the_groups_nodes_only() -> None:
    """By the label that the operator keeps on them: executors that start later follow the group to other nodes."""
    prepared = prepare(spark_application(), sales_group()).application
    assert terms(prepared) == [{"matchExpressions": [ON_GROUP]}]
    assert prepare(spark_application(), sales_group(nodes=("node-9",))).application == prepared


def test_executors_may_start_elsewhere_where_the_group_allows_it() -> None:
    """A preference, in addition to those of the manifest; nodes that the manifest names are not checked."""
    theirs = {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    named = {"nodeSelectorTerms": [{"matchFields": [on_node("node-9")]}]}
    affinity = {"nodeAffinity": {PREFERRED: [theirs], REQUIRED: named}}
    application = spark_application(executor=executor_with(affinity=affinity))
    prepared = prepare(application, sales_group(executor_affinity="Preferred")).application
    ours = {"weight": 100, "preference": {"matchExpressions": [ON_GROUP]}}
    assert pod_spec(prepared, "executor")["affinity"]["nodeAffinity"] == {PREFERRED: [theirs, ours], REQUIRED: named}


def test_a_group_without_a_map_binds_no_executor() -> None:
    """Before the first map there is nothing to be near to; executors that start later prefer the nodes of the map."""
    prepared = prepare(spark_application(), sales_group(nodes=(), stable=False)).application
    preference = {"weight": 100, "preference": {"matchExpressions": [ON_GROUP]}}
    assert pod_spec(prepared, "executor")["affinity"] == {"nodeAffinity": {PREFERRED: [preference]}}


def test_executors_spread_over_nodes_per_application() -> None:
    """Spreading counts the pods of one application and group, and is a wish, so a lost node blocks nothing."""
    (constraint,) = pod_spec(prepare(spark_application(), sales_group()).application, "executor")[
        "topologySpreadConstraints"
    ]
    assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"
    assert constraint["labelSelector"]["matchLabels"] == {"colocation.dev/group": "sales", "spark-role": "executor"}
    assert constraint["matchLabelKeys"] == ["spark-app-selector"]


def test_executors_mount_the_data_read_only_and_the_driver_does_not() -> None:
    """A task may read its node's replicas of its own namespace, and nothing may write them past the agent."""
    prepared = prepare(spark_application(), sales_group(data_root="/disk/colocation")).application
    mounts = {item["mountPath"]: item for item in container(prepared, "executor")["volumeMounts"]}
    assert mounts["/disk/colocation/shop"]["readOnly"] is True
    claim = {"claimName": "colocation-data", "readOnly": True}
    assert {"name": "colocation-data", "persistentVolumeClaim": claim} in pod_spec(prepared, "executor")["volumes"]
    assert [item["mountPath"] for item in container(prepared, "driver")["volumeMounts"]] == [
        "/var/run/secrets/colocation.dev"
    ]


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_both_get_a_token_for_the_agents_and_their_authority(role: str) -> None:
    """The token has the agents' audience; CA and addresses come from the group's ConfigMap."""
    prepared = prepare(spark_application(), sales_group()).application
    volumes = {item["name"]: item for item in pod_spec(prepared, role)["volumes"]}
    assert volumes["colocation-access"]["projected"]["sources"] == [
        {"serviceAccountToken": {"audience": "colocation.dev", "expirationSeconds": 3600, "path": "token"}},
        {"configMap": {"name": "sales-spark", "items": [
            {"key": "ca.crt", "path": "ca.crt"}, {"key": "agents.json", "path": "agents.json"},
        ]}},
    ]


def test_executors_know_their_node() -> None:
    """Spark publishes the attribute; our file system reads NODE_NAME."""
    env = container(prepare(spark_application(), sales_group()).application, "executor")["env"]
    assert {item["name"]: item["valueFrom"]["fieldRef"]["fieldPath"] for item in env} == {
        "NODE_NAME": "spec.nodeName", "SPARK_EXECUTOR_ATTRIBUTE_NODE_NAME": "spec.nodeName",
    }


@pytest.mark.parametrize(
    ("executor", "account"),
    [
        pytest.param({}, "spark", id="absent: the driver's"),
        pytest.param({"serviceAccount": "other"}, "other", id="given: kept"),
        pytest.param({"template": {"spec": {"serviceAccountName": "other"}}}, None, id="in the template: kept there"),
    ],
)
def test_executors_run_under_an_account_with_rights(executor: dict[str, Any], account: str | None) -> None:
    """Executors read from other nodes' agents under their own ServiceAccount."""
    prepared = prepare(spark_application(executor=executor), sales_group()).application
    assert prepared["spec"]["executor"].get("serviceAccount") == account


def test_the_recipe_is_in_the_configuration() -> None:
    """The application finds its namespace, data root and file system without a line of its own."""
    conf = prepare(spark_application(), sales_group()).application["spec"]["sparkConf"]
    assert conf["spark.colocation.namespace"] == "shop"
    assert conf["spark.colocation.dataRoot"] == "/var/lib/colocation"
    assert conf["spark.hadoop.fs.coloc.impl"] == "dev.colocation.spark.ColocFileSystem"
    assert conf["spark.sql.requireAllClusterKeysForCoPartition"] == "false"


@pytest.mark.parametrize(
    ("version", "given", "expected"),
    [
        pytest.param("4.1.4", None, None, id="4.1 makes no NetworkPolicy"),
        pytest.param("4.3.0", None, NETWORK_POLICY_STEP, id="4.3 does"),
        pytest.param("4.10.0", None, NETWORK_POLICY_STEP, id="versions are numbers"),
        pytest.param("4.3.0", "a.Step", f"a.Step,{NETWORK_POLICY_STEP}", id="theirs is kept"),
        pytest.param("4.3.0", NETWORK_POLICY_STEP, NETWORK_POLICY_STEP, id="not twice"),
    ],
)
def test_the_network_policy_step_is_left_out_from_4_3_on(version: str, given: str | None, expected: str | None) -> None:
    """Kubeflow's chart has no right to NetworkPolicies, which Spark makes from 4.3 on."""
    key = "spark.kubernetes.driver.pod.excludedFeatureSteps"
    application = spark_application(sparkVersion=version, sparkConf={key: given} if given else {})
    assert prepare(application, sales_group()).application["spec"]["sparkConf"].get(key) == expected


@pytest.mark.parametrize(
    ("image", "conf", "expected"),
    [
        pytest.param(None, {}, "spark:installed", id="absent: the installation's"),
        pytest.param("mine", {}, "mine", id="given: kept"),
        pytest.param(None, {"spark.kubernetes.container.image": "mine"}, "mine", id="given as configuration: kept"),
    ],
)
def test_the_image_is_the_manifests_or_the_default(image: str | None, conf: dict[str, str], expected: str) -> None:
    """A manifest without an image runs on the image that came with the operator."""
    application = spark_application(sparkConf=conf, **({"image": image} if image else {}))
    assert prepare(application, sales_group()).application["spec"]["image"] == expected


def test_what_the_manifest_sets_is_kept() -> None:
    """Labels, tolerations, volumes, containers, environment and configuration of the author stay."""
    application = spark_application(
        sparkConf={"spark.sql.shuffle.partitions": "8", "spark.sql.files.openCostInBytes": "4m",
                   "spark.scheduler.minRegisteredResourcesRatio": "0.5",
                   "spark.scheduler.maxRegisteredResourcesWaitingTime": "5s"},
        executor=executor_with(
            tolerations=[{"operator": "Exists"}],
            volumes=[{"name": "scratch", "emptyDir": {}}],
            containers=[
                {"name": "log-shipper", "image": "shipper"},
                {"name": "spark-kubernetes-executor", "env": [{"name": "TZ", "value": "UTC"}],
                 "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]},
            ],
        ),
    )
    prepared = prepare(application, sales_group()).application
    spec, spark = pod_spec(prepared, "executor"), container(prepared, "executor")
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert [item["name"] for item in spec["volumes"]] == ["scratch", "colocation-data", "colocation-access"]
    assert [item["name"] for item in spec["containers"]] == ["log-shipper", "spark-kubernetes-executor"]
    assert spark["env"][0] == {"name": "TZ", "value": "UTC"}
    assert spark["volumeMounts"][0] == {"name": "scratch", "mountPath": "/scratch"}
    assert prepared["spec"]["sparkConf"]["spark.sql.shuffle.partitions"] == "8"
    assert prepared["spec"]["sparkConf"]["spark.sql.files.openCostInBytes"] == "4m"
    assert prepared["spec"]["sparkConf"]["spark.scheduler.minRegisteredResourcesRatio"] == "0.5"
    assert prepared["spec"]["sparkConf"]["spark.scheduler.maxRegisteredResourcesWaitingTime"] == "5s"


def test_the_given_manifest_is_not_changed() -> None:
    """prepare is pure: its argument can be used again."""
    application = spark_application(executor=executor_with(containers=[{"name": "spark-kubernetes-executor"}]))
    before = copy.deepcopy(application)
    prepare(application, sales_group())
    assert application == before


@pytest.mark.parametrize("version", ["4.1.4", "4.3.0"])
@pytest.mark.parametrize("stable", [True, False])
def test_preparing_twice_changes_nothing_more(version: str, stable: bool) -> None:
    """A prepared manifest is a fixed point, so --dry-run's output can be submitted."""
    group = sales_group(stable=stable)
    once = prepare(spark_application(sparkVersion=version), group).application
    assert prepare(once, group).application == once


def test_preparing_again_takes_a_new_decision() -> None:
    """A manifest prepared while the group was unstable does not carry the old reason on."""
    unstable = prepare(spark_application(), sales_group(stable=False, reason="NodeGone")).application
    again = prepare(unstable, sales_group()).application
    assert again == prepare(spark_application(), sales_group()).application


def test_lists_in_the_configuration_are_joined() -> None:
    """Keys that take a list hold theirs and ours."""
    key = "spark.sql.sources.useListFilesFileSystemList"
    conf = prepare(spark_application(sparkConf={key: "s3a"}), sales_group()).application["spec"]["sparkConf"]
    assert conf[key] == "s3a,coloc"


def test_their_node_affinity_holds_too() -> None:
    """Each of their terms is narrowed to the group's nodes; within a term everything must fit."""
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}
    theirs = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
              "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    application = spark_application(executor=executor_with(affinity=theirs))
    prepared = prepare(application, sales_group(nodes=("node-1",))).application
    assert terms(prepared) == [{"matchExpressions": [zone, ON_GROUP]}]
    assert "podAffinity" in pod_spec(prepared, "executor")["affinity"]


def test_nodes_that_they_name_are_narrowed_to_the_groups() -> None:
    """Of the nodes that the manifest names, those with the group's label remain."""
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2", "node-9"]}
    theirs = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}}}
    prepared = prepare(spark_application(executor=executor_with(affinity=theirs)), sales_group()).application
    assert terms(prepared) == [{"matchExpressions": [hostname, ON_GROUP]}]


CONFLICTS = [
    pytest.param(
        spark_application(executor=executor_with(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
            {"matchFields": [on_node("node-9")]}]}}})), ["node-9", "node-1"], id="nodes outside the group"),
    pytest.param(
        spark_application(executor={"nodeSelector": {"kubernetes.io/hostname": "node-9"}}), ["node-9", "node-1"],
        id="node selector outside the group"),
    pytest.param(
        spark_application(nodeSelector={"kubernetes.io/hostname": "node-9"}), ["node-9", "node-1"],
        id="application's node selector outside the group"),
    pytest.param(
        spark_application(executor=executor_with(volumes=[{"name": "colocation-data", "emptyDir": {}}])),
        ["emptyDir", "persistentVolumeClaim"], id="volume of our name"),
    pytest.param(
        spark_application(executor=executor_with(containers=[{
            "name": "spark-kubernetes-executor",
            "volumeMounts": [{"name": "mine", "mountPath": "/var/lib/colocation/shop"}]}])),
        ["mine", "colocation-data"], id="another mount at the data"),
    pytest.param(
        spark_application(executor=executor_with(containers=[{
            "name": "spark-kubernetes-executor", "env": [{"name": "NODE_NAME", "value": "x"}]}])),
        ["'x'", "spec.nodeName"], id="another node name"),
    pytest.param(
        spark_application(executor={"envVars": {"NODE_NAME": "x"}}), ["'x'", "node"],
        id="another node name by envVars"),
    pytest.param(
        spark_application(sparkConf={"spark.hadoop.fs.coloc.impl": "other.FileSystem"}),
        ["other.FileSystem", "ColocFileSystem"], id="another file system"),
    pytest.param(
        spark_application(sparkConf={"spark.colocation.namespace": "elsewhere"}), ["elsewhere", "shop"],
        id="tables of another namespace"),
]  # fmt: skip


@pytest.mark.parametrize(("application", "values"), CONFLICTS)
def test_a_contradiction_is_refused_with_both_values(application: dict[str, Any], values: list[str]) -> None:
    """Nothing of the author's is overwritten silently."""
    with pytest.raises(ManifestError) as refused:
        prepare(application, sales_group())
    for value in values:
        assert value in str(refused.value)


def without(field: str) -> dict[str, Any]:
    application = spark_application()
    del application["spec"][field]
    return application


@pytest.mark.parametrize(
    ("application", "message"),
    [
        pytest.param({**spark_application(), "kind": "Pod"}, "kind 'Pod'", id="another kind"),
        pytest.param({**spark_application(), "apiVersion": "v1"}, "sparkoperator.k8s.io/v1beta2", id="another version"),
        pytest.param({**spark_application(), "spec": None}, "spec lacks type", id="no spec"),
        pytest.param({**spark_application(), "spec": []}, "spec is []", id="spec is a list"),
        pytest.param({**spark_application(), "metadata": {}}, "neither name nor generateName", id="no name"),
        pytest.param(without("driver"), "spec lacks driver", id="no driver"),
        pytest.param(spark_application(mode="client"), "spec.mode is 'client'", id="client mode"),
        pytest.param(spark_application(sparkVersion="newest"), "spec.sparkVersion is 'newest'", id="no version"),
        pytest.param(spark_application(executor=[]), "spec.executor is []", id="executor is a list"),
        pytest.param(
            {**spark_application(), "metadata": {"name": "x", "namespace": "other"}}, "metadata.namespace is 'other'",
            id="another namespace"),
    ],
)  # fmt: skip
def test_what_is_no_application_is_refused_by_field(application: dict[str, Any], message: str) -> None:
    """The message names the field and what is allowed."""
    with pytest.raises(ManifestError, match=message.replace("[", r"\[").replace("]", r"\]")):
        prepare(application, sales_group())


def test_no_image_anywhere_is_refused() -> None:
    """Without a default image the manifest has to name one."""
    with pytest.raises(ManifestError, match=r"spec\.image is not given"):
        prepare(spark_application(), sales_group(spark_image=None))
