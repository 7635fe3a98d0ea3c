"""The admin API of the real operator: real tokens, real rights, real groups; and the examples of the documentation."""

import contextlib
import json
import re
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from colocation.admin_api.openapi import document
from devcluster import binaries
from tests.support.certificates import self_signed
from tests.support.waiting import until

from .control_plane import ControlPlane, NoSuchObject
from .installation import SYSTEM, Installation, installed
from .objects import as_json, group, table
from .test_operator import STABLE, UNSTABLE

NAMESPACE, OTHER = "shop", "accounts"
NAMESPACES = (NAMESPACE, OTHER, "people")
HOST = f"colocation-operator.{SYSTEM}.svc"
REPOSITORY = Path(__file__).parents[2]
HOW_TO = REPOSITORY / "docs" / "how-to" / "admin-api.md"
USER_ROLES = REPOSITORY / "charts" / "colocation-operator" / "templates" / "user-roles.yaml"
OPS = "system:serviceaccount:people"
CLONES_SECONDS = 300.0
"""The operator gives a node's clones one after the other."""


@dataclass(frozen=True)
class AdminApi:
    """The admin API as an admin's client sees it; ``tokens`` by who has them."""

    installation: Installation
    context: ssl.SSLContext
    port: str
    tokens: dict[str, str]

    def ask(
        self, method: str, path: str, who: str | None = "admin", body: bytes | None = None
    ) -> tuple[int, dict[str, Any]]:
        """(status, JSON) of a request."""
        headers = {"Authorization": f"Bearer {self.tokens[who]}"} if who else {}
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def meta(self) -> dict[str, Any]:
        """The whole of GET /api/colocate."""
        status, answer = self.ask("GET", "/api/colocate")
        assert (status, answer["status"]) == (200, "OK")
        return answer["colocate_meta"]

    def group_id(self, namespace: str = NAMESPACE) -> dict[str, Any]:
        """The id of the group ``sales`` as Doris writes it."""
        text = self.installation.read("cg", "sales", namespace)["status"]["groupId"]
        db, _, number = text.partition(".")
        return {"dbId": db, "grpId": int(number)}

    def path(self, name: str, namespace: str = NAMESPACE) -> str:
        """The path of a request about the group ``sales``."""
        group_id = self.group_id(namespace)
        return f"/api/colocate/{name}?db_id={group_id['dbId']}&group_id={group_id['grpId']}"


@pytest.fixture(scope="module")
def installation(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Three nodes, the operator with a certificate, a group ``sales`` in two namespaces, one with a loaded table."""
    folder = tmp_path_factory.mktemp("installation")
    with installed(plane, folder, nodes=3) as one:
        (folder / "admin-tls").mkdir()
        self_signed(folder / "admin-tls", HOST, ["127.0.0.1"])
        one.operator_environment["COLOCATION_ADMIN_TLS_DIRECTORY"] = str(folder / "admin-tls")
        one.start_operator()
        one.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=as_json(group(buckets=3)))
        one.kubectl("create", "-n", OTHER, "-f", "-", stdin=as_json(group(bucketKey=["decimal(15,2)", "string"])))
        one.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=as_json(table()))
        one.wait("ct", "orders", NAMESPACE, "condition=Ready")
        one.load(NAMESPACE, "orders")
        for namespace in (NAMESPACE, OTHER):
            one.wait("cg", "sales", namespace, STABLE)
        yield one


@pytest.fixture(scope="module")
def api(installation: Installation) -> AdminApi:
    """An admin, an admin of one namespace, and somebody with no rights."""
    kubectl, accounts = installation.kubectl, ("admin", "shop-admin", "outsider")
    kubectl("apply", "-f", "-", stdin=json.dumps(admin_role()))
    for name in accounts:
        kubectl("create", "serviceaccount", name, "-n", "people")
    kubectl("create", "clusterrolebinding", "a", "--clusterrole=colocation-admin", "--serviceaccount=people:admin")
    subject = "--serviceaccount=people:shop-admin"
    kubectl("create", "rolebinding", "b", "-n", NAMESPACE, "--clusterrole=colocation-admin", subject)
    ours = ("--audience", "colocation.dev")
    tokens = {name: kubectl("create", "token", name, "-n", "people", *ours) for name in accounts}
    tokens["admin with the API server's token"] = kubectl("create", "token", "admin", "-n", "people")
    tokens["foreign"] = kubectl("create", "token", "admin", "-n", "people", "--audience", "vault")
    tokens["nonsense"] = "nonsense"
    context = ssl.create_default_context(cafile=str(installation.folder / "admin-tls" / "tls.crt"))
    return AdminApi(installation, context, installation.operator_environment["COLOCATION_ADMIN_PORT"], tokens)


def admin_role() -> dict[str, Any]:
    """The chart's ClusterRole colocation-admin."""
    [text] = [part for part in USER_ROLES.read_text().split("\n---\n") if "  name: colocation-admin\n" in part]
    role: dict[str, Any] = yaml.safe_load(re.sub(r"(?m)^.*\{\{.*$|^#.*$", "", text))
    return role


def test_view_is_that_of_the_seeds(api: AdminApi) -> None:
    """Ids, schemas, maps and tables, in Doris' shape and as the OpenAPI document describes it."""
    meta, (sales, other) = api.meta(), (api.group_id(), api.group_id(OTHER))
    described = document()
    schema = {"$ref": "#/components/schemas/ColocateMeta", "components": described["components"]}
    jsonschema.Draft202012Validator(schema).validate(meta)
    ids = [f"{one['dbId']}.{one['grpId']}" for one in (sales, other)]
    assert meta["groupName2Id"] == {f"{one['dbId']}_sales": one for one in (sales, other)}
    assert meta["group2Tables"] == {ids[0]: ["shop/orders"], ids[1]: []}
    assert meta["table2Group"] == {"shop/orders": sales}
    assert meta["unstableGroups"] == []
    assert meta["group2Schema"][ids[0]] == {
        "groupId": sales,
        "distributionColTypes": [
            {"type": "BIGINT", "len": -1, "isAssignedStrLenInColDefinition": False, "precision": 0, "scale": 0}
        ],
        "bucketsNum": 3,
        "replicationNum": 2,
    }
    rows = api.installation.read("cg", "sales", NAMESPACE)["status"]["backendsPerBucketSeq"]
    assert meta["group2BackendsPerBucketSeq"][ids[0]] == rows


def test_mark_stays_until_it_is_taken_back(api: AdminApi) -> None:
    """DELETE marks unstable, with who and since when; a restart changes nothing; POST takes the mark back."""
    installation = api.installation
    status, answer = api.ask("DELETE", api.path("group_stable"))
    assert (status, answer["status"], answer["stable"], answer["reason"]) == (200, "OK", False, "MarkedUnstable")
    assert re.search(rf"{OPS}:admin, since 20\d\d-", answer["message"])
    assert api.meta()["unstableGroups"] == [api.group_id()]
    installation.wait("cg", "sales", NAMESPACE, UNSTABLE)
    assert api.ask("DELETE", api.path("group_stable"))[1]["message"] == answer["message"]
    installation.stop_operator(signal.SIGKILL)
    installation.start_operator()
    installation.wait("cg", "sales", NAMESPACE, "jsonpath={.status.reason}=MarkedUnstable")
    until_it_serves(api)
    status, answer = api.ask("POST", api.path("group_stable"))
    assert (status, answer["stable"], answer["reason"]) == (200, True, "AllReplicasComplete")
    installation.wait("cg", "sales", NAMESPACE, STABLE)
    assert api.meta()["unstableGroups"] == []
    shown = {event["reason"] for event in installation.get("events", "-n", NAMESPACE)["items"]}
    assert {"MarkedUnstable", "MarkRemoved"} <= shown


def until_it_serves(api: AdminApi) -> None:
    """Until the operator that was started again leads and has made its first pass."""
    url = f"https://127.0.0.1:{api.port}/api/colocate"
    subprocess.run(
        ["curl", "-skf", "-o", "/dev/null", "--retry", "100", "--retry-all-errors", "--retry-delay", "1",
         "-H", f"Authorization: Bearer {api.tokens['admin']}", url],
        check=True, timeout=120,
    )  # fmt: skip


def test_no_request_makes_an_unstable_group_stable(api: AdminApi) -> None:
    """POST on a group whose node is away is answered with what is wrong."""
    api.installation.set_ready("node-3", False)
    try:
        api.installation.wait("cg", "sales", NAMESPACE, UNSTABLE)
        status, answer = api.ask("POST", api.path("group_stable"))
        assert (status, answer["stable"], answer["reason"]) == (200, False, "NodeNotReady")
    finally:
        api.installation.set_ready("node-3", True)
        api.installation.wait("cg", "sales", NAMESPACE, STABLE)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["node-1", "node-2"]], "Invalid bucket num. expected: 3, actual: 1"),
        ([["node-1"]] * 3, "Invalid backend num per bucket. expected: 2, actual: 1"),
        ([["node-1", "node-9"]] * 3, "The backend node-9 does not exist or not available"),
        ([[10004, 10002]] * 3, "The backend 10004 does not exist or not available"),
    ],
)
def test_wrong_sequences_are_refused_in_the_seeds_words(api: AdminApi, rows: list[Any], message: str) -> None:
    """400, and the group's spec is as before."""
    status, answer = api.ask("POST", api.path("bucketseq"), body=json.dumps(rows).encode())
    assert (status, answer) == (400, {"status": "FAILED", "error": "InvalidBucketSequence", "message": message})
    assert "bucketSequence" not in api.installation.read("cg", "sales", NAMESPACE)["spec"]


@pytest.mark.parametrize(
    ("who", "method", "path", "status", "error"),
    [
        (None, "GET", "/api/colocate", 401, "Unauthorized"),
        ("nonsense", "GET", "/api/colocate", 401, "Unauthorized"),
        ("foreign", "GET", "/api/colocate", 401, "Unauthorized"),
        (None, "GET", "/api/nothing", 401, "Unauthorized"),
        ("outsider", "GET", "/api/colocate", 403, "Forbidden"),
        ("outsider", "DELETE", "/api/colocate/group_stable?db_id=00000001&group_id=2", 403, "Forbidden"),
        ("shop-admin", "GET", "/api/colocate", 403, "Forbidden"),
        ("shop-admin", "DELETE", "/api/colocate/group_stable?db_id=00000001&group_id=2", 403, "Forbidden"),
        ("admin", "DELETE", "/api/colocate/group_stable?db_id=00000001&group_id=2", 404, "NoSuchGroup"),
        ("admin", "DELETE", "/api/colocate/group_stable?db_id=00000001", 400, "MissingParameter"),
        ("admin", "GET", "/api/colocate?db_id=00000001", 404, "NoSuchGroup"),
        ("shop-admin", "GET", "/api/colocate?db_id=00000001", 403, "Forbidden"),
        ("shop-admin", "GET", "/api/colocate?db_id=shop", 400, "InvalidParameter"),
        ("admin", "PUT", "/api/colocate/group_stable", 405, "MethodNotAllowed"),
        ("admin", "GET", "/api/nothing", 404, "NoSuchRequest"),
    ],
)
def test_requests_that_are_not_served(
    api: AdminApi, who: str | None, method: str, path: str, status: int, error: str
) -> None:
    """Those who are no admins learn nothing, not even which groups there are."""
    answered, body = api.ask(method, path, who)
    assert (answered, body["status"], body["error"]) == (status, "FAILED", error)


def test_admin_of_a_namespace_sees_and_changes_its_groups_only(api: AdminApi) -> None:
    """With ``db_id`` the right in that namespace is enough; another namespace's group might as well not exist."""
    sales = api.group_id()
    status, answer = api.ask("GET", f"/api/colocate?db_id={sales['dbId']}", "shop-admin")
    assert (status, answer["colocate_meta"]["groupName2Id"]) == (200, {"sales": sales})
    assert api.ask("POST", api.path("group_stable"), "shop-admin")[0] == 200
    refused = api.ask("POST", api.path("group_stable", OTHER), "shop-admin")
    assert refused == api.ask("POST", "/api/colocate/group_stable?db_id=00000001&group_id=2", "shop-admin")
    assert refused[0] == 403


def test_tokens_of_the_api_server_are_taken(api: AdminApi) -> None:
    """People have no others."""
    assert api.ask("GET", "/api/colocate", "admin with the API server's token")[0] == 200


def test_examples_of_the_documentation_work_as_they_stand(api: AdminApi, tmp_path: Path) -> None:
    """All commands of the how-to, in their order, by bash; the map becomes the one that was set, and is free again."""
    installation = api.installation
    certificate = (installation.folder / "admin-tls" / "tls.crt").read_text()
    ca = {"metadata": {"name": "colocation-operator-ca"}, "data": {"ca.crt": certificate}}
    installation.kubectl(
        "create", "-n", SYSTEM, "-f", "-", stdin=as_json({"apiVersion": "v1", "kind": "ConfigMap", **ca})
    )
    (tmp_path / ".curlrc").write_text(f'silent\nshow-error\nfail\nconnect-to = "{HOST}:443:127.0.0.1:{api.port}"\n')
    *blocks, last = re.findall(r"```sh\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    tools = binaries.KUBERNETES.program("kubectl").parent
    environment = {
        "PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tmp_path), "CURL_HOME": str(tmp_path),
        "KUBECONFIG": str(installation.plane.kubeconfig),
    }  # fmt: skip
    def bash(script: str) -> str:
        command = ["bash", "-euo", "pipefail", "-c", script]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    answers = [json.loads(line) for line in bash("".join(blocks)).splitlines() if line.startswith("{")]
    assert [answer["status"] for answer in answers] == ["OK"] * 5
    assert [answer.get("stable") for answer in answers[2:]] == [False, True, True]
    [rows] = re.findall(r"--data '(.*)'", "".join(blocks))
    follow_map(installation, json.loads(rows))
    bash(last)
    assert "bucketSequence" not in installation.read("cg", "sales", NAMESPACE)["spec"]


def follow_map(installation: Installation, rows: list[list[str]]) -> None:
    """Play the Job controller until the group's map is the one that was set."""

    def is_followed() -> bool:
        found = installation.read("cg", "sales", NAMESPACE)["status"]
        assert found["stable"]
        for job in installation.read("jobs", namespace=SYSTEM)["items"]:
            if not job.get("status", {}).get("succeeded"):
                with contextlib.suppress(NoSuchObject):  # the operator deletes a Job that it does not want any more
                    installation.run_clone(job["metadata"]["name"])
        return [set(row) for row in found["backendsPerBucketSeq"]] == [set(row) for row in rows]

    until(is_followed, CLONES_SECONDS)
