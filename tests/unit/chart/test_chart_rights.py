"""What each account may do: least privilege, as the chart renders it."""

from types import SimpleNamespace
from typing import Any

import pytest

from colocation.cli.doctor import command
from colocation.model.names import AGENT_SIGNER_NAME, DATA_CLAIM, LEASE_NAME

from .conftest import Render, one

Right = tuple[str, str, str]


def rights(role: dict[str, Any]) -> set[Right]:
    """A role's rules as (API group, resource, verb)."""
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }


def test_agents_ask_who_a_caller_is_what_it_may_and_for_a_certificate(render: Render) -> None:
    """A hijacked agent may read nothing of the cluster but certificates, requests for them, and readiness."""
    role = one(render(), "ClusterRole", "colocation-agent")
    assert [rule["nonResourceURLs"] for rule in role["rules"] if "nonResourceURLs" in rule] == [["/readyz"]]
    assert rights(role) == {
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
        ("certificates.k8s.io", "certificatesigningrequests", "create"),
        ("certificates.k8s.io", "certificatesigningrequests", "get"),
    }


@pytest.mark.parametrize(
    ("signer", "verbs"),
    [(AGENT_SIGNER_NAME, ["approve", "sign"]), ("clusterissuers.cert-manager.io/ours", ["approve"])],
)
def test_the_operator_approves_for_one_signer_only(render: Render, signer: str, verbs: list[str]) -> None:
    """Kubernetes' own signers make certificates for kubelets and administrators."""
    objects = render(**{"agent.tls.signerName": signer, "agent.tls.ca": "PEM"})
    rules = [rule for item in objects for rule in item.get("rules", []) if "signers" in rule.get("resources", ())]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in rules] == [([signer], verbs)]
    operator = rights(one(objects, "ClusterRole", "colocation-operator"))
    may_sign = ("certificates.k8s.io", "certificatesigningrequests/status", "patch") in operator
    assert may_sign == ("sign" in verbs)


def test_clones_only_read_data(render: Render) -> None:
    """A clone Job reads other agents' files, lists none of their tables, and has no token for the API server."""
    objects = render()
    role = one(objects, "ClusterRole", "colocation-clone")
    assert rights(role) == {("colocation.dev", "colocatedtables/data", "get")}
    assert one(objects, "ServiceAccount", "colocation-clone")["automountServiceAccountToken"] is False


def test_the_operator_reads_no_secrets_and_makes_pods_in_its_own_namespace_only(render: Render) -> None:
    """Jobs, too, there only; a table it makes to bring a dropped one back, and changes none."""
    objects = render()
    wide = rights(one(objects, "ClusterRole", "colocation-operator"))
    resources = {resource for _, resource, _ in wide}
    assert not resources & {"secrets", "pods/exec", "serviceaccounts", "roles", "clusterroles", "*"}
    assert not resources & {"pods", "jobs", "leases"}
    assert {verb for _, resource, verb in wide if resource == "colocatedtables"} == {"get", "list", "watch", "create"}
    assert {verb for _, resource, verb in wide if resource == "persistentvolumes"} == {
        "get", "list", "watch", "create", "delete",
    }  # fmt: skip
    assert {verb for _, resource, verb in wide if resource == "nodes"} == {"list", "watch", "patch"}
    own = one(objects, "Role", "colocation-operator")
    assert {verb for _, resource, verb in rights(own) if resource == "jobs"} == {"create", "delete", "list", "watch"}
    assert {verb for _, resource, verb in rights(own) if resource == "pods"} == {
        "list", "watch", "create", "patch", "delete",
    }  # fmt: skip


def test_the_operator_deletes_no_claims_but_its_own(render: Render) -> None:
    """Their name is fixed, so that the right can name it; a claim that goes may take its data along."""
    rules = one(render(), "ClusterRole", "colocation-operator")["rules"]
    of_claims = [rule for rule in rules if rule["resources"] == ["persistentvolumeclaims"]]
    assert [(rule.get("resourceNames"), rule["verbs"]) for rule in of_claims] == [
        (None, ["list", "watch", "create"]), ([DATA_CLAIM], ["get", "delete"]),
    ]  # fmt: skip


def test_the_operator_makes_tokens_of_its_own_account_only(render: Render) -> None:
    """For agents; of any other account it would be that one."""
    objects = render()
    every = [rule for item in objects for rule in item.get("rules", [])]
    rules = [rule for rule in every if "serviceaccounts/token" in rule.get("resources", ())]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in rules] == [(["colocation-operator"], ["create"])]
    assert rules[0] in one(objects, "Role", "colocation-operator")["rules"]


def test_administrators_may_do_what_the_commands_do(render: Render) -> None:
    """On Nodes: list, label, annotate. Whole collections no one deletes."""
    admin = rights(one(render(), "ClusterRole", "colocation-admin"))
    assert {verb for _, resource, verb in admin if resource == "nodes"} == {"get", "list", "patch"}
    assert "deletecollection" not in {verb for _, _, verb in admin}


def test_one_lease_is_the_operators_and_everybody_may_read_it(render: Render) -> None:
    """Of the namespace's Leases no one needs another; the readers can be left out."""
    rules = [rule for rule in one(render(), "Role", "colocation-operator")["rules"] if rule["resources"] == ["leases"]]
    assert [(rule.get("resourceNames"), rule["verbs"]) for rule in rules] == [
        (None, ["create"]), ([LEASE_NAME], ["get", "patch"]),
    ]  # fmt: skip
    reader = one(render(), "Role", "colocation-lease-reader")
    [rule] = reader["rules"]
    assert (rule["resources"], rule["resourceNames"], rule["verbs"]) == (["leases"], [LEASE_NAME], ["get"])
    [subject] = one(render(), "RoleBinding", "colocation-lease-reader")["subjects"]
    assert subject["name"] == "system:authenticated"
    left_out = render(**{"rbac.leaseReaders": "false"})
    assert not [item for item in left_out if item["metadata"]["name"] == "colocation-lease-reader"]


def test_spark_users_may_read_load_and_commit(render: Render) -> None:
    """What a driver needs, and nothing that changes a group."""
    user = rights(one(render(), "ClusterRole", "colocation-user"))
    for right in (
        ("colocation.dev", "colocatedtables/data", "get"),
        ("colocation.dev", "colocatedtables/data", "create"),
        ("colocation.dev", "colocatedtables/status", "patch"),
        ("", "configmaps", "get"),
    ):
        assert right in user
    assert {verb for _, resource, verb in user if resource == "colocationgroups"} == {"get", "list", "watch"}
    assert ("colocation.dev", "colocatedtables/data", "delete") not in user
    assert {verb for _, resource, verb in user if resource == "colocatedtables/status"} == {"patch"}


@pytest.mark.parametrize("account", ["operator", "agent", "clone"])
def test_each_account_is_bound_to_its_own_role(render: Render, account: str) -> None:
    """One ServiceAccount, one ClusterRole, no more subjects."""
    binding = one(render(), "ClusterRoleBinding", f"colocation-{account}")
    assert binding["roleRef"]["name"] == f"colocation-{account}"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": f"colocation-{account}", "namespace": "colocation-system"}
    ]


def test_no_rule_has_a_wildcard(render: Render) -> None:
    """Not even the administrators': each verb is one that somebody uses."""
    for role in render():
        if role["kind"] in ("Role", "ClusterRole"):
            assert not [right for right in rights(role) if "*" in right]


def test_user_roles_can_be_left_out(render: Render) -> None:
    """An administrator may bring roles of their own."""
    objects = render(**{"rbac.userRoles": "false"})
    names = {item["metadata"]["name"] for item in objects if item["kind"] == "ClusterRole"}
    assert names == {"colocation-operator", "colocation-agent", "colocation-clone", "colocation-admin-api"}


def test_the_admin_api_has_rights_of_its_own(render: Render) -> None:
    """Where it is not wanted, the operator may change no group's spec and asks no one who a caller is."""
    role = one(render(), "ClusterRole", "colocation-admin-api")
    assert [rule["nonResourceURLs"] for rule in role["rules"] if "nonResourceURLs" in rule] == [["/readyz"]]
    assert rights(role) == {
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
        ("colocation.dev", "colocationgroups", "patch"),
    }
    assert not [item for item in render(**{"adminApi.enabled": "false"}) if "admin-api" in item["metadata"]["name"]]


class Reviews:
    """An API server that allows everything, and remembers what it was asked."""

    asked: list[Right]

    def __init__(self, _connection: object) -> None:
        Reviews.asked = []

    def create_self_subject_access_review(self, body: dict[str, Any]) -> SimpleNamespace:
        given = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (given["resource"], given.get("subresource"))))
        Reviews.asked.append((given.get("group", ""), resource, given["verb"]))
        return SimpleNamespace(status=SimpleNamespace(allowed=True))


def test_doctor_asks_for_what_the_role_that_it_names_grants(render: Render, monkeypatch: pytest.MonkeyPatch) -> None:
    """An account with that role may run the command: `adopt` sets a mark that only the operator and accounts which may
    update `colocatedtables/operator` are admitted to set.
    """
    monkeypatch.setattr(command.client, "AuthorizationV1Api", Reviews)
    found = command.gather_rights(None, "shop", "colocation-system")  # type: ignore[arg-type]
    asked = {one.used_by: (one.role, right) for one, right in zip(found, Reviews.asked, strict=True)}
    assert asked["`colocation adopt`"] == ("colocation-admin", ("colocation.dev", "colocatedtables/operator", "update"))
    roles = {item["metadata"]["name"]: rights(item) for item in render() if item["kind"] in ("Role", "ClusterRole")}
    assert {role for role, right in asked.values() if role in roles and right not in roles[role]} == set()
