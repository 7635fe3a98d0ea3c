"""A manifest that was prepared before, for the group as it was then; and what a schedule keeps of a decision."""

from collections.abc import Callable
from typing import Any

import pytest

from colocation.model.names import node_label
from colocation.submit import ManifestError, prepare
from colocation.submit.spark_conf import RETIRED_DEGRADE_REASON

from .applications_under_test import apache_application, sales_group, schedule, spark_application

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Make = Callable[..., dict[str, Any]]

ALL_KINDS = pytest.mark.parametrize(
    "make", [pytest.param(spark_application, id="Kubeflow"), pytest.param(schedule, id="schedule"),
             pytest.param(apache_application, id="Apache")]
)  # fmt: skip


def zone(name: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [name]}]}


@ALL_KINDS
@pytest.mark.parametrize("affinity", ["Required", "Preferred"])
def test_a_group_that_moved_is_followed(make: Make, affinity: str) -> None:
    """By the label alone; what an earlier preparation added is taken out again, of either kind."""
    before, after = sales_group(nodes=("node-1", "node-2")), sales_group(nodes=("node-2", "node-3"))
    assert prepare(make(), before).application == prepare(make(), after).application
    once = prepare(make(), before.model_copy(update={"executor_affinity": affinity})).application
    assert prepare(once, after) == prepare(make(), after)


def executor_templates(application: dict[str, Any]) -> list[dict[str, Any]]:
    """The executors' pod template, wherever the kind holds it."""
    spec = application["spec"].get("template", application["spec"])
    return [spec["executor"]["template"] if "executor" in spec else spec["executorSpec"]["podTemplateSpec"]]


def executor_affinities(application: dict[str, Any]) -> list[dict[str, Any]]:
    return [template["spec"]["affinity"] for template in executor_templates(application)]


def test_names_of_nodes_that_an_earlier_release_put_in_go() -> None:
    """Only the author's own terms, each with the group's label, are left."""
    names = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in ("a", "b")]
    paired = [{**zone("z"), **name} for name in names]
    template = {
        "metadata": {"annotations": {"colocation.dev/nodes": "a,b"}},
        "spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": paired}}}},
    }
    again = prepare(spark_application(executor={"template": template}), sales_group()).application
    [affinity] = executor_affinities(again)
    [term] = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    label = {"key": node_label("shop", "sales"), "operator": "In", "values": ["true"]}
    assert term == {"matchExpressions": [*zone("z")["matchExpressions"], label]}
    [placed] = executor_templates(again)
    assert placed["metadata"]["annotations"] == {"colocation.dev/node-label": label["key"]}


def test_their_own_affinity_survives_a_move() -> None:
    """Their terms are paired with the nodes of now; preferences and other affinities stay."""
    affinity = {"nodeAffinity": {
        REQUIRED: {"nodeSelectorTerms": [zone("a"), zone("b")]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": zone("a")}],
    }, "podAntiAffinity": {REQUIRED: []}}  # fmt: skip
    application = spark_application(executor={"template": {"spec": {"affinity": affinity}}})
    before, after = sales_group(nodes=("node-1", "node-2")), sales_group(nodes=("node-3",))
    assert prepare(prepare(application, before).application, after) == prepare(application, after)


def test_a_node_that_the_author_names_stays_named() -> None:
    """It looks like what we add, and is not ours: the group moving away from it is a contradiction."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    application = spark_application(executor={"template": {"spec": {"affinity": affinity}}})
    once = prepare(application, sales_group()).application
    assert prepare(once, sales_group()).application == once
    with pytest.raises(ManifestError, match="node-9"):
        prepare(once, sales_group(nodes=("node-9",)))


@ALL_KINDS
def test_the_decision_stands_on_the_object(make: Make) -> None:
    """In the annotation, in EXPLAIN's words."""
    prepared = prepare(make(), sales_group(stable=False, reason="NodeGone", message="node-2 is gone"))
    assert prepared.application["metadata"]["annotations"]["colocation.dev/decision"] == (
        "colocate: false, reason: group is not stable: NodeGone: node-2 is gone"
    )


def test_a_schedule_freezes_no_decision() -> None:
    """Its runs start at other times: the group as it is then decides, in Spark's session."""
    prepared = prepare(schedule(), sales_group(stable=False, reason="NodeGone"))
    assert RETIRED_DEGRADE_REASON not in prepared.application["spec"]["template"]["sparkConf"]
    assert prepared.decision.colocated is False


def test_the_runs_of_a_schedule_are_applications() -> None:
    """Kubeflow's controller makes a SparkApplication of the template: that is what submit makes of one."""
    runs = prepare(schedule(), sales_group()).application["spec"]
    assert runs["template"] == prepare(spark_application(), sales_group()).application["spec"]
    assert runs["schedule"] == "@daily"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"template": spark_application()["spec"]}, "spec lacks schedule", id="no schedule"),
        pytest.param({"schedule": "@daily"}, "spec.template lacks type", id="no template"),
    ],
)
def test_what_is_no_schedule_is_refused(spec: dict[str, Any], message: str) -> None:
    """The message names the field by its path."""
    with pytest.raises(ManifestError, match=message):
        prepare({**schedule(), "spec": spec}, sales_group())


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"dynamicAllocation": {"enabled": True}}, None, id="Kubeflow's field: its operator sets it"),
        pytest.param({"sparkConf": {"spark.dynamicAllocation.enabled": "true"}}, "true", id="by configuration"),
        pytest.param({"sparkConf": {"spark.dynamicAllocation.enabled": "true",
                                    "spark.dynamicAllocation.shuffleTracking.enabled": "false"}}, "false", id="given"),
        pytest.param({}, None, id="not dynamic"),
    ],
)  # fmt: skip
def test_dynamic_allocation_tracks_shuffle_files(spec: dict[str, Any], expected: str | None) -> None:
    """Executors come and go on the group's nodes; those with shuffle files stay."""
    application = prepare(spark_application(**spec), sales_group()).application
    conf = application["spec"]["sparkConf"]
    assert conf.get("spark.dynamicAllocation.shuffleTracking.enabled") == expected
    assert application["spec"]["executor"]["template"]["spec"]["affinity"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param({"sparkConf": {"spark.kubernetes.driver.podTemplateFile": "/x"}},
                     ["'/x'", "spec.driver.template"], id="a template file"),
        pytest.param({"hadoopConf": {"fs.coloc.impl": "x.Y"}}, ["hadoopConf", "'x.Y'", "ColocFileSystem"],
                     id="the file system by hadoopConf"),
    ],
)  # fmt: skip
def test_configuration_may_not_undo_the_placement(spec: dict[str, Any], words: list[str]) -> None:
    """Kubeflow's operator and Spark would prefer one of the two without a word."""
    with pytest.raises(ManifestError) as refused:
        prepare(spark_application(**spec), sales_group())
    assert all(word in str(refused.value) for word in words)


def test_their_extensions_and_ours_hold() -> None:
    """Keys that take a list hold both."""
    prepared = prepare(spark_application(sparkConf={"spark.plugins": "my.Plugin"}), sales_group())
    plugins = prepared.application["spec"]["sparkConf"]["spark.plugins"].split(",")
    assert plugins == ["my.Plugin", "dev.colocation.spark.ColocationPlugin"]
