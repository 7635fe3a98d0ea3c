"""Policies that the API server carries out: there by default, where it knows them."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from colocation.model.names import NODE_LABEL_PREFIX

from .conftest import CHART, IMAGE, Render

OF_STATUS = {"colocation-table-status", "colocation-group-status", "colocation-table-marks", "colocation-group-marks"}
ON_THE_OPERATOR = {"colocation-own-config-maps", "colocation-node-labels", "colocation-own-pods"}
POLICIES = {*OF_STATUS, *ON_THE_OPERATOR, "colocation-data-pods", "colocation-data-volumes"}


def policies(objects: list[dict[str, Any]], kind: str = "ValidatingAdmissionPolicy") -> dict[str, dict[str, Any]]:
    return {item["metadata"]["name"]: item["spec"] for item in objects if item["kind"] == kind}


def test_policies_are_bound_and_deny(render: Render) -> None:
    """Each by its own binding; a policy that cannot be evaluated lets nothing through."""
    objects = render()
    found = policies(objects)
    bindings = policies(objects, "ValidatingAdmissionPolicyBinding")
    assert found.keys() == bindings.keys() == POLICIES | ON_THE_OPERATOR
    assert all(spec["failurePolicy"] == "Fail" for spec in found.values())
    assert all(spec == {"policyName": name, "validationActions": ["Deny"]} for name, spec in bindings.items())


def test_every_policy_of_status_exempts_the_operator_and_anyone_who_may_act_for_it(render: Render) -> None:
    """The operator by its account, administrators by a right."""
    found = policies(render())
    for spec in (found[name] for name in OF_STATUS):
        [not_the_operator, may_not] = [one["expression"] for one in spec["matchConditions"]]
        [rule] = spec["matchConstraints"]["resourceRules"]
        resource = rule["resources"][0].partition("/")[0]
        assert not_the_operator == (
            "request.userInfo.username != 'system:serviceaccount:colocation-system:colocation-operator'"
        )
        assert f"resource('{resource}').subresource('operator')" in may_not


def test_who_adopts_hears_which_right_it_takes(render: Render) -> None:
    """The mark that `colocation adopt` sets is refused to those who may only create tables."""
    [_, mark] = policies(render())["colocation-table-marks"]["validations"]
    assert "`colocation adopt` sets it, and needs the ClusterRole colocation-admin" in mark["message"]


def test_the_operator_makes_volumes_below_the_data_root_only(render: Render) -> None:
    """The one that is configured."""
    [_, where] = policies(render(dataRoot="/disk"))["colocation-data-volumes"]["validations"]
    assert "== '/disk/' + variables.tenant" in where["expression"]


def test_the_operator_is_held_to_what_it_writes_of_others(render: Render) -> None:
    """ConfigMaps with names of its own, labels of Nodes with its own prefix: the policies that are about it."""
    for name in ON_THE_OPERATOR:
        [condition] = policies(render())[name]["matchConditions"]
        account = "system:serviceaccount:colocation-system:colocation-operator"
        assert condition["expression"] == f"request.userInfo.username == '{account}'"
    [labels, _] = policies(render())["colocation-node-labels"]["validations"]
    assert labels["expression"].count(f"key.startsWith('{NODE_LABEL_PREFIX}')") == 2


def test_policies_can_be_left_out(render: Render) -> None:
    """With the webhooks, they are one of two lines of defence; the operator is the third."""
    assert not policies(render(**{"admissionPolicy.enabled": "false"}))


@pytest.mark.parametrize(("version", "is_taken"), [("1.29.15", False), ("1.30.0", True)])
def test_the_chart_needs_kubernetes_1_30(helm: Path, version: str, is_taken: bool) -> None:
    """Before that the API server knows no such policies, nor the expressions of the CRDs, and refuses the CRDs."""
    command = [str(helm), "template", "colocation", str(CHART), "--kube-version", version, *IMAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == is_taken
    assert is_taken or "chart requires kubeVersion: >=1.30.0-0" in done.stderr
