"""Spark applications under review: a patch makes of them what `colocation submit` makes."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from colocation.admission.review import Verdict
from colocation.admission.spark_applications import place_application
from colocation.model.reader_rules import Freshness
from colocation.submit import GroupView, prepare

from ..submit.applications_under_test import sales_group, schedule, spark_application
from ..submit.test_prepare_connect import connect_server
from .reviews import JsonObject, creation, group, known, update

STABLE_CONDITION = {"type": "Stable", "status": "False", "reason": "NodeGone", "message": "node-2 is gone"}
UNSTABLE = {"stable": False, "reason": "NodeGone", "nodes": ["node-1"], "conditions": [STABLE_CONDITION]}


def patched(body: JsonObject, verdict: Verdict) -> JsonObject:
    """The object with the patch applied; only `add` of whole members is used."""
    result = copy.deepcopy(body)
    for step in verdict.patch:
        assert step["op"] == "add"
        *parents, member = step["path"].split("/")[1:]
        target: dict[str, Any] = result
        for parent in parents:
            target = target[parent]
        target[member] = step["value"]
    return result


def submitted(body: JsonObject, of: JsonObject) -> JsonObject:
    """What ``colocation submit`` creates."""
    config_map = {"data": {"spark-defaults.conf": "spark.kubernetes.container.image spark:installed\n"}}
    found: JsonObject = prepare(body, GroupView.from_objects(of, config_map)).application
    return found


@pytest.mark.parametrize("status", [pytest.param(None, id="stable"), pytest.param(UNSTABLE, id="unstable")])
@pytest.mark.parametrize("body", [pytest.param(spark_application(), id="once"), pytest.param(schedule(), id="often")])
def test_the_patch_makes_what_submit_makes(body: JsonObject, status: JsonObject | None) -> None:
    """The same code, the same group: the same application, decision and reason included."""
    there = group(status=status)
    verdict = place_application(creation(body), known(groups=[there]))
    assert patched(body, verdict) == submitted(body, there)


def test_an_operator_that_does_not_lead_takes_no_group_for_stable() -> None:
    """What the group's status reports may be long past."""
    silent = replace(known(), freshness=Freshness(message="this operator does not lead"))
    body = spark_application()
    decision = patched(body, place_application(creation(body), silent))["metadata"]["annotations"]
    assert decision["colocation.dev/decision"] == (
        "colocate: false, reason: group is not stable: OperatorSilent: this operator does not lead"
    )


def test_who_applies_a_server_without_an_account_is_warned() -> None:
    """In the words of `colocation submit`."""
    verdict = place_application(creation(connect_server()), known(groups=[group()]))
    assert verdict.allowed and verdict.patch
    assert verdict.warnings == prepare(connect_server(), sales_group()).warnings != ()


def test_what_was_prepared_is_not_patched() -> None:
    """`colocation submit` goes through the webhook, too."""
    there = group()
    assert place_application(creation(submitted(spark_application(), there)), known(groups=[there])) == Verdict()


def test_an_unlabelled_application_is_left_alone() -> None:
    """Even when it is sent."""
    body = spark_application()
    body["metadata"]["labels"] = {"app": "report"}
    assert place_application(creation(body), known()) == Verdict()


def test_an_update_of_anything_but_the_spec_is_left_alone() -> None:
    """Another spec would make Kubeflow's operator start the run again, so a new decision is no reason for one."""
    old = submitted(spark_application(), group())
    new = {**old, "metadata": {**old["metadata"], "labels": {**old["metadata"]["labels"], "seen": "yes"}}}
    assert place_application(update(old, new), known(groups=[group(status=UNSTABLE)])) == Verdict()


def test_a_new_spec_is_placed_again() -> None:
    """`kubectl apply` of a changed manifest: a new run, a new decision."""
    old = submitted(spark_application(), group())
    new = copy.deepcopy(old)
    new["spec"]["arguments"] = ["other"]
    there = group(status=UNSTABLE)
    assert patched(new, place_application(update(old, new), known(groups=[there]))) == submitted(new, there)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(spark_application(executor={"nodeSelector": {"kubernetes.io/hostname": "node-9"}}),
                     "'node-9' in the manifest, but the group needs ['node-1', 'node-2']", id="contradiction"),
        pytest.param(spark_application(mode="client"), "spec.mode is 'client'", id="client mode"),
    ],
)  # fmt: skip
def test_a_contradiction_is_refused_in_the_words_of_submit(body: JsonObject, message: str) -> None:
    """With both values."""
    verdict = place_application(creation(body), known())
    assert not verdict.allowed
    assert message in verdict.message


@pytest.mark.parametrize(
    ("where", "message"),
    [
        pytest.param({}, "there is no group 'sales' in namespace 'shop'; `kubectl get colocationgroups -n shop` lists "
                     "those that there are", id="here"),
        pytest.param({"colocation.dev/group-namespace": "bank"}, "namespace 'bank' has no group 'sales' that namespace "
                     "'shop' may use; correct the labels", id="in another namespace"),
    ],
)  # fmt: skip
def test_a_label_of_no_group_is_refused(where: JsonObject, message: str) -> None:
    """Anybody may ask, in any namespace's name: what groups there are is for the API server to say."""
    body = spark_application()
    body["metadata"]["labels"].update(where)
    verdict = place_application(creation(body), known(groups=[group("a"), group("b", "bank")], tables=[]))
    assert (verdict.allowed, verdict.message) == (False, message)


def test_a_generated_name_is_enough() -> None:
    """The API server names the application after the webhook."""
    body = spark_application()
    body["metadata"] = {"generateName": "report-", "labels": body["metadata"]["labels"]}
    verdict = place_application(creation(body), known())
    assert verdict.allowed
    assert "metadata/namespace" not in str(verdict.patch)
    assert patched(body, verdict)["spec"]["image"] == "spark:installed"


@pytest.mark.parametrize(
    ("members", "lets_in", "refusal"),
    [
        pytest.param("shop", "shop", "", id="tables here"),
        pytest.param("accounts", "shop", "group accounts/sales has no table in namespace 'shop'", id="no table here"),
        pytest.param("shop", "bank", "NamespaceNotAllowed: group accounts/sales allows namespaces [bank]", id="not"),
    ],
)
def test_a_group_of_another_namespace_serves_where_its_tables_are(members: str, lets_in: str, refusal: str) -> None:
    """Only there the operator keeps the ConfigMap that Spark's pods mount, and only while the group allows it."""
    status = {"stable": True, "nodes": ["node-1"],
              "members": [{"namespace": members, "name": "orders", "uid": "1"}]}  # fmt: skip
    body = spark_application()
    body["metadata"]["labels"]["colocation.dev/group-namespace"] = "accounts"
    there = group(namespace="accounts", status=status, allowedNamespaces=[lets_in])
    verdict = place_application(creation(body), known(groups=[there], tables=[]))
    assert verdict.allowed is (not refusal)
    assert refusal in verdict.message
