"""The chart's policies on a real API server: who may write what of a table's and a group's status."""

import json
import time
from collections.abc import Iterator

import pytest

from colocation.manifests.holder_pod import HolderSettings, holder_pod
from colocation.model.names import LABEL_LEADS, node_label
from colocation.model.table import ColocatedTableStatus
from tests.support.waiting import until

from .charts import SYSTEM, rendered
from .control_plane import ControlPlane, running_plane
from .objects import COLUMNS, JsonObject, as_json, group, table

NAMESPACE = "shop"
LOADER = f"system:serviceaccount:{NAMESPACE}:spark"
OPERATOR = f"system:serviceaccount:{SYSTEM}:colocation-operator"
ADMINISTRATOR, EDITOR = "an-administrator", "an-editor"
SNAPSHOT: JsonObject = {"id": 1, "manifest": f"sha256:{1:064x}", "committedAt": "2026-11-21T00:00:00Z"}
CONDITION = {"type": "Ready", "status": "True", "reason": "Reconciled"}
OPERATORS_WORDS: JsonObject = {
    "observedGeneration": 1, "accepted": True, "group": "sales", "groupId": "1.1", "buckets": 2, "replicas": 2,
    "columns": COLUMNS, "conditions": [CONDITION],
}  # fmt: skip
FORGED: JsonObject = {
    "observedGeneration": 7, "accepted": False, "group": "bank/vault", "groupId": "9.9", "buckets": 3, "replicas": 3,
    "columns": COLUMNS[:1], "conditions": [{**CONDITION, "status": "False"}],
}  # fmt: skip
DEADLINE_SECONDS = 60
OWN_LABEL = {"app.kubernetes.io/managed-by": "colocation-operator"}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Our kinds, the chart's roles and policies; a group with a table that the operator has accepted."""
    with running_plane() as own:
        for name in (NAMESPACE, SYSTEM):
            assert own.kubectl("create", "namespace", name).returncode == 0
        kinds = ("ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
        for item in rendered(*kinds):
            done = own.kubectl("create", "-f", "-", stdin=as_json(item))
            assert done.returncode == 0, done.stderr
        bind(own, "colocation-user", f"--serviceaccount={NAMESPACE}:spark")
        for role in ("colocation-edit", "colocation-view"):
            bind(own, role, f"--user={EDITOR}")
        bind(own, "colocation-admin", f"--user={ADMINISTRATOR}")
        reader = "--resource=colocatedtables.colocation.dev/status,colocationgroups.colocation.dev/status"
        own.kubectl("create", "clusterrole", "reader", "--verb=get", reader)  # kubectl patch reads what it patches
        for subject in (f"--user={OPERATOR}", f"--serviceaccount={NAMESPACE}:spark"):
            bind(own, "reader", subject)
        own.kubectl("create", "clusterrole", "reader-of-all", "--verb=get", "--resource=nodes,pods")
        own.kubectl("create", "clusterrole", "pod-maker", "--verb=create,patch,delete", "--resource=pods")
        for role in ("reader-of-all", "pod-maker"):
            own.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", f"--user={OPERATOR}")
        for body in (group(), table()):
            done = own.kubectl("create", "--namespace", NAMESPACE, "-f", "-", stdin=as_json(body))
            assert done.returncode == 0, done.stderr
        until_in_force(own)
        assert patch(own, OPERATOR, "ct/orders", OPERATORS_WORDS) == ""
        yield own


def bind(plane: ControlPlane, role: str, subject: str) -> None:
    name = f"{role}-{subject.rpartition(':')[2].rpartition('=')[2]}"
    done = plane.kubectl("create", "rolebinding", name, "--namespace", NAMESPACE, f"--clusterrole={role}", subject)
    assert done.returncode == 0, done.stderr


def until_in_force(plane: ControlPlane) -> None:
    """The API server learns of new policies by its own watches."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not patch(plane, LOADER, "ct/orders", {"accepted": True}):
        assert time.monotonic() < deadline
    foreign = ("create", "configmap", "x", "-n", NAMESPACE, "--dry-run=server", "--as", OPERATOR)
    while plane.kubectl(*foreign).returncode == 0:
        assert time.monotonic() < deadline
    for kind in ("cg", "ct"):  # all policies
        while not create(plane, EDITOR, marked(kind)):
            plane.kubectl("delete", kind, "marked", "--namespace", NAMESPACE)
            assert time.monotonic() < deadline


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("sales-spark", True), ("sales.bank-spark-shared", True), ("coredns", False), ("extension-apiserver", False)],
)
def test_the_operator_writes_no_config_maps_but_its_own(plane: ControlPlane, name: str, allowed: bool) -> None:
    """RBAC lets it write all of them; the API server lets others write theirs."""
    metadata = {"name": name, "labels": OWN_LABEL}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}
    apply = ["apply", "--server-side", "--force-conflicts", "--namespace", NAMESPACE, "-f", "-"]
    assert plane.kubectl(*apply, stdin=as_json({**body, "data": {}})).returncode == 0
    done = plane.kubectl(*apply, "--field-manager=operator", "--as", OPERATOR, stdin=as_json(body))
    assert (done.returncode == 0) is allowed, done.stderr
    assert allowed or "the operator writes ConfigMaps whose name" in done.stderr


def test_the_operator_takes_no_config_map_of_others(plane: ControlPlane) -> None:
    """A fitting name is not enough."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine-spark"}, "data": {"a": "b"}}
    apply = ["apply", "--server-side", "--namespace", NAMESPACE, "-f", "-"]
    done = plane.kubectl(*apply, "--as", OPERATOR, stdin=as_json(body))
    assert "labels as its own" in done.stderr


OUR_LABEL = node_label(NAMESPACE, "sales")


@pytest.mark.parametrize(
    ("change", "objection"),
    [
        pytest.param({"metadata": {"labels": {OUR_LABEL: "true"}}}, "", id="our label"),
        pytest.param({"metadata": {"labels": {OUR_LABEL: None}}}, "", id="our label away"),
        pytest.param({"metadata": {"labels": {"disk": "slow"}}}, "and no others", id="another's label"),
        pytest.param({"metadata": {"labels": {"disk": None}}}, "and no others", id="another's label away"),
        pytest.param({"metadata": {"labels": {"new": "x"}}}, "and no others", id="a new label"),
        pytest.param({"metadata": {"annotations": {"a": "b"}}}, "nothing else", id="an annotation"),
        pytest.param({"metadata": {"finalizers": ["example.com/mine"]}}, "nothing else", id="a finalizer"),
        pytest.param({"spec": {"unschedulable": True}}, "nothing else", id="a cordon"),
        pytest.param({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, "nothing else", id="a taint"),
    ],
)
def test_the_operator_changes_nothing_of_nodes_but_its_labels(
    plane: ControlPlane, change: JsonObject, objection: str
) -> None:
    """RBAC lets it patch all of a Node but the status."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"disk": "fast"}}}
    assert plane.kubectl("apply", "--server-side", "-f", "-", stdin=as_json(node)).returncode == 0
    done = plane.kubectl("patch", "node", "node-1", "--type=merge", "--as", OPERATOR, "-p", as_json(change))
    assert (done.returncode == 0) is (not objection), done.stderr
    assert objection in done.stderr


@pytest.mark.parametrize(
    ("change", "objection"),
    [
        pytest.param({"labels": {LABEL_LEADS: "true"}}, "", id="our label"),
        pytest.param({"labels": {LABEL_LEADS: None}}, "", id="our label away"),
        pytest.param({"labels": {"app": "other"}}, "of pods only", id="another's label"),
        pytest.param({"labels": {"app": None}}, "of pods only", id="another's label away"),
        pytest.param({"annotations": {"a": "b"}}, "nothing else", id="an annotation"),
        pytest.param({"finalizers": ["example.com/mine"]}, "nothing else", id="a finalizer"),
        pytest.param(None, "nothing else", id="an image"),
    ],
)
def test_the_operator_changes_nothing_of_pods_but_its_leaders_label(
    plane: ControlPlane, change: JsonObject | None, objection: str
) -> None:
    """RBAC lets it patch pods of its namespace, and with them what they run."""
    containers = [{"name": "app", "image": "good"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app", "labels": {"app": "one"}},
           "spec": {"nodeName": "node-1", "serviceAccountName": "app", "containers": containers}}  # fmt: skip
    inside = ("--namespace", NAMESPACE)
    plane.kubectl("create", "serviceaccount", "app", *inside)
    assert plane.kubectl("apply", "--server-side", *inside, "-f", "-", stdin=as_json(pod)).returncode == 0
    body = {"metadata": change} if change else {"spec": {"containers": [{"name": "app", "image": "bad"}]}}
    done = plane.kubectl("patch", "pod", "app", *inside, "--as", OPERATOR, "-p", as_json(body))
    assert (done.returncode == 0) is (not objection), done.stderr
    assert objection in done.stderr


def holder(**changes: object) -> JsonObject:
    """The pod that the operator makes, with other fields of the spec."""
    settings = HolderSettings(namespace=NAMESPACE, image="good")
    pod = holder_pod("node-1", {"metadata": {"name": "colocation-operator", "uid": "1"}}, settings)
    return {**pod, "spec": {**pod["spec"], **changes}}


OTHER = {**holder(), "metadata": {"name": "other", "namespace": NAMESPACE}}
HOST_PATH = [{"name": "all", "hostPath": {"path": "/"}}]


@pytest.mark.parametrize(
    ("pod", "objection"),
    [
        pytest.param(holder(), "", id="a holder"),
        pytest.param(OTHER, "and no others", id="another pod"),
        pytest.param(holder(volumes=HOST_PATH), "without a token", id="with the node's disk"),
        pytest.param(holder(hostNetwork=True), "without a token", id="in the node's network"),
        pytest.param(holder(serviceAccountName="app"), "without a token", id="with another account"),
        pytest.param(holder(automountServiceAccountToken=True), "without a token", id="with a token"),
    ],
)
def test_the_operator_makes_and_deletes_holder_pods_only(plane: ControlPlane, pod: JsonObject, objection: str) -> None:
    """RBAC lets it create and delete all pods of its namespace."""
    inside = ("--namespace", NAMESPACE)
    for account in ("app", "colocation-holder"):
        plane.kubectl("create", "serviceaccount", account, *inside)
    done = plane.kubectl("create", *inside, "--as", OPERATOR, "-f", "-", stdin=as_json(pod))
    assert (done.returncode == 0) is (not objection), done.stderr
    assert objection in done.stderr
    if objection:
        assert plane.kubectl("create", *inside, "-f", "-", stdin=as_json(pod)).returncode == 0
    at_once = ("--grace-period=0", "--force")
    name = pod["metadata"]["name"]
    deleted = plane.kubectl("delete", "pod", name, *inside, *at_once, "--as", OPERATOR)
    assert (deleted.returncode == 0) is (pod is not OTHER), deleted.stderr
    plane.kubectl("delete", "pod", name, *inside, *at_once)


def patch(plane: ControlPlane, user: str, what: str, status: JsonObject | None) -> str:
    """The API server's objection to a patch of a status; empty when it is taken."""
    command = ["patch", what, "--namespace", NAMESPACE, "--subresource=status", "--type=merge", "--as", user]
    return plane.kubectl(*command, "-p", as_json({"status": status})).stderr


def create(plane: ControlPlane, user: str, body: JsonObject) -> str:
    """The API server's objection to an object; empty when it is taken."""
    return plane.kubectl("create", "--namespace", NAMESPACE, "--as", user, "-f", "-", stdin=as_json(body)).stderr


def marked(kind: str) -> JsonObject:
    """A table or group with the mark that only the operator sets."""
    if kind == "cg":
        body = group(name="marked")
        return {**body, "metadata": {**body["metadata"], "labels": {"colocation.dev/private": "true"}}}
    body = table(name="marked")
    return {**body, "metadata": {**body["metadata"], "annotations": {"colocation.dev/recovers": "somebody's uid"}}}


def status_of(plane: ControlPlane, what: str) -> JsonObject:
    found: JsonObject = json.loads(plane.kubectl("get", what, "--namespace", NAMESPACE, "-o", "json").stdout)["status"]
    return found


def test_every_field_is_somebodys() -> None:
    """A field that the model gains has to be given to the loaders or to the operator."""
    fields = {field.alias or name for name, field in ColocatedTableStatus.model_fields.items()}
    loaders = {"snapshot", "history", "commits"}
    assert fields == OPERATORS_WORDS.keys() | loaders == FORGED.keys() | loaders


def test_loaders_commit(plane: ControlPlane) -> None:
    """The snapshot, what it replaced and the commit's key, whatever else the status holds."""
    key = {"writer": "stream", "version": 7, "snapshotId": 1}
    assert patch(plane, LOADER, "ct/orders", {"snapshot": SNAPSHOT, "history": [], "commits": [key]}) == ""
    after = {**SNAPSHOT, "id": 2}
    assert patch(plane, LOADER, "ct/orders", {"snapshot": after, "history": [SNAPSHOT]}) == ""
    found = status_of(plane, "ct/orders")
    assert (found["snapshot"]["id"], found["commits"]) == (2, [key])
    assert {field: found[field] for field in OPERATORS_WORDS} == OPERATORS_WORDS


def test_a_commit_tells_the_columns_of_its_rows(plane: ControlPlane) -> None:
    """Those of the spec, and none but together with the rows."""
    body = table(name="replaced", columns=[{"name": "k", "type": "bigint"}], bucketedBy=["k"], partitionedBy=[])
    made = plane.kubectl("create", "--namespace", NAMESPACE, "-o", "json", "-f", "-", stdin=as_json(body))
    columns = json.loads(made.stdout)["spec"]["columns"]
    assert patch(plane, OPERATOR, "ct/replaced", OPERATORS_WORDS) == ""
    assert patch(plane, LOADER, "ct/replaced", {"snapshot": SNAPSHOT}) == ""
    after = {**SNAPSHOT, "id": 2}
    assert "status.columns is written by the operator" in patch(plane, LOADER, "ct/replaced", {"columns": columns})
    forged = {"snapshot": after, "columns": FORGED["columns"]}
    assert "status.columns is written by the operator" in patch(plane, LOADER, "ct/replaced", forged)
    assert patch(plane, LOADER, "ct/replaced", {"snapshot": after, "columns": columns}) == ""
    assert status_of(plane, "ct/replaced")["columns"] == columns


@pytest.mark.parametrize("field", FORGED)
@pytest.mark.parametrize("is_removed", [False, True], ids=["changed", "removed"])
def test_loaders_change_nothing_else(plane: ControlPlane, field: str, is_removed: bool) -> None:
    """Alone or next to a commit; the message names what is allowed."""
    before = status_of(plane, "ct/orders")
    objection = patch(plane, LOADER, "ct/orders", {field: None if is_removed else FORGED[field], "snapshot": SNAPSHOT})
    allowed = "you may change status.snapshot, status.history and status.commits only"
    assert f"status.{field} is written by the operator; {allowed}" in objection
    assert status_of(plane, "ct/orders") == before


def test_loaders_remove_no_status(plane: ControlPlane) -> None:
    """All of it would be gone with it."""
    assert "is written by the operator" in patch(plane, LOADER, "ct/orders", None)


@pytest.mark.parametrize("user", [OPERATOR, ADMINISTRATOR])
def test_operator_and_administrators_write_everything(plane: ControlPlane, user: str) -> None:
    """An administrator puts right what is wrong; kubectl edit --subresource=status works for them."""
    for what, status, good in (
        ("ct/orders", FORGED, OPERATORS_WORDS), ("cg/sales", {"stable": False}, {"stable": True}),
    ):  # fmt: skip
        assert patch(plane, user, what, status) == ""
        assert patch(plane, user, what, good) == ""


def test_status_of_groups_is_the_operators(plane: ControlPlane) -> None:
    """Also for those who may patch it by their roles."""
    role = ["create", "role", "patcher", "--namespace", NAMESPACE, "--verb=patch,get"]
    plane.kubectl(*role, "--resource=colocationgroups.colocation.dev,colocationgroups.colocation.dev/status")
    binding = ["create", "rolebinding", "patcher", "--namespace", NAMESPACE, "--role=patcher"]
    plane.kubectl(*binding, "--user=patcher")
    objection = patch(plane, "patcher", "cg/sales", {"stable": True, "members": []})
    assert "the status of a ColocationGroup is written by the operator" in objection


def test_right_to_act_for_the_operator_may_be_of_one_object(plane: ControlPlane) -> None:
    """By its name, as any right: everything may be written into that table's status, and into no other one's."""
    repairer = "a-repairer"
    right = ["--verb=update", "--resource=colocatedtables.colocation.dev/operator", "--resource-name=orders"]
    done = plane.kubectl("create", "role", "repairer", "--namespace", NAMESPACE, *right)
    assert done.returncode == 0, done.stderr
    binding = ["create", "rolebinding", "repairer", "--namespace", NAMESPACE, "--role=repairer"]
    plane.kubectl(*binding, f"--user={repairer}")
    for role in ("colocation-user", "reader"):
        bind(plane, role, f"--user={repairer}")
    assert create(plane, OPERATOR, table(name="lines")) == ""
    until(lambda: not patch(plane, repairer, "ct/orders", FORGED))  # the API server learns of rights by its own watches
    assert patch(plane, repairer, "ct/orders", OPERATORS_WORDS) == ""
    assert "is written by the operator" in patch(plane, repairer, "ct/lines", OPERATORS_WORDS)


def test_marks_are_the_operators(plane: ControlPlane) -> None:
    """No one takes a dropped table's files, or closes a group, by a mark; other marks and changes are free."""
    objection = create(plane, EDITOR, marked("ct"))
    assert "the annotation colocation.dev/recovers is set by the operator" in objection
    assert "the label colocation.dev/private is set by the operator" in create(plane, EDITOR, marked("cg"))
    for kind in ("ct", "cg"):
        assert create(plane, OPERATOR, marked(kind)) == ""
    annotate = ["annotate", "--namespace", NAMESPACE, "--as", EDITOR, "--overwrite"]
    label = ["label", "--namespace", NAMESPACE, "--as", EDITOR, "--overwrite"]
    assert plane.kubectl(*annotate, "cg/sales", "recover.colocation.dev/12345678=").returncode == 0
    assert plane.kubectl(*label, "cg/sales", "team=a").returncode == 0
    assert plane.kubectl(*annotate, "ct/marked", "team=a").returncode == 0
    assert plane.kubectl(*annotate, "ct/marked", "colocation.dev/recovers-").returncode != 0
    assert plane.kubectl(*annotate, "ct/orders", "colocation.dev/recovers=x").returncode != 0
    adopting = plane.kubectl(*annotate, "ct/orders", "colocation.dev/adopts=0a1b2c3d")
    assert "`colocation adopt` sets it, and needs the ClusterRole colocation-admin" in adopting.stderr
    assert plane.kubectl(*label, "cg/sales", "colocation.dev/private=true").returncode != 0
