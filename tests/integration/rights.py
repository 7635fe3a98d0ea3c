"""Which rights the chart grants to our own accounts, and which of them the API server saw used: from its audit log.

What agents ask the API server about a caller (SubjectAccessReview) counts as a use of the caller's right.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from .charts import SYSTEM, rendered
from .objects import JsonObject

Right = tuple[str, str, str, str]
"""Namespace where it was used or is granted ("" = all of them), API group, resource with its subresource, verb."""
FORBIDDEN = 403
IMPLIED = {("", "", "configmaps", "create")}
"""Server-side apply of an object that is not there asks for `create`, too; the audit log shows it as a patch."""


_SIGNERS = ("", "certificates.k8s.io", "signers")
_REQUESTS = "certificatesigningrequests"
ASKED_WITH: dict[Right, tuple[Right, ...]] = {
    ("", "certificates.k8s.io", f"{_REQUESTS}/approval", "patch"): ((*_SIGNERS, "approve"),),
    ("", "certificates.k8s.io", f"{_REQUESTS}/status", "patch"): ((*_SIGNERS, "sign"),),
}
"""Admission plugins ask for these when the right next to them is used; the audit log shows only the write."""


def chart_rights() -> list[JsonObject]:
    """The ServiceAccounts, roles and bindings of operator, agents and clone Jobs."""
    kinds = ("ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")
    return rendered(*kinds, settings="rbac.userRoles=false")


def granted(account: str) -> set[Right]:
    """What the chart's bindings give to a ServiceAccount of ours."""
    objects = chart_rights()
    rules = {(item["kind"], item["metadata"]["name"]): item["rules"] for item in objects if "rules" in item}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": SYSTEM}
    bound = [item for item in objects if subject in item.get("subjects", [])]
    return {
        (item["metadata"].get("namespace", ""), group, resource, verb)
        for item in bound
        for rule in rules[item["roleRef"]["kind"], item["roleRef"]["name"]]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }


def _user(account: str) -> str:
    return f"system:serviceaccount:{SYSTEM}:{account}"


def _events(log: Path) -> Iterator[JsonObject]:
    for line in log.read_text().splitlines():
        yield json.loads(line)


def used(log: Path, account: str) -> set[Right]:
    """What an account asked for and got."""
    found: set[Right] = set()
    for event in _events(log):
        what = event.get("objectRef")
        if not what or event.get("responseStatus", {}).get("code") == FORBIDDEN:
            continue
        if event["user"]["username"] == _user(account):
            right = _right(what, what.get("apiGroup", ""), event["verb"])
            found |= {right, *ASKED_WITH.get(right, ())}
        asked = event.get("requestObject", {}).get("spec", {})
        if asked.get("user") == _user(account):
            attributes = asked["resourceAttributes"]
            found.add(_right(attributes, attributes["group"], attributes["verb"]))
    return found


def _right(what: JsonObject, group: str, verb: str) -> Right:
    resource = "/".join(filter(None, [what["resource"], what.get("subresource")]))
    return what.get("namespace", ""), group, resource, verb


def refused(log: Path, account: str) -> set[Right]:
    """What an account asked for and did not get."""
    return {
        _right(event["objectRef"], event["objectRef"].get("apiGroup", ""), event["verb"])
        for event in _events(log)
        if event["user"]["username"] == _user(account) and event.get("responseStatus", {}).get("code") == FORBIDDEN
        and event.get("objectRef")
    }  # fmt: skip


def unused(log: Path, account: str) -> set[Right]:
    """What the chart grants and no one used; a right for all namespaces has to be used outside of our own."""
    seen = used(log, account)
    return {
        right
        for right in granted(account) - IMPLIED
        if not any(one[1:] == right[1:] and (one[0] == SYSTEM) == (right[0] == SYSTEM) for one in seen)
    }
