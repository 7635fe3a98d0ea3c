"""A table's whole life by kubectl and `colocation`, with real agents, and the operator restarted between the steps."""

import hashlib
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from kubernetes.config import kube_config

from colocation.cli.main import main
from colocation.cli.port_forward import FOLDERS_PATH
from colocation.manifests.data_volume import data_claim
from colocation.model.adoption import Folders
from colocation.model.names import DATA_CLAIM, DEFAULT_DATA_ROOT, data_volume_name, table_directory
from colocation.reconcile.evidence import READERS_LEARN_SECONDS
from tests.support.waiting import until

from .control_plane import ControlPlane
from .installation import CHART_ACCOUNTS, LOADER, SYSTEM, Installation, installed
from .objects import JsonObject, as_json, group, table
from .rights import refused, unused
from .test_operator import operator_pod

DEADLINE_SECONDS = 100
SHOP, LAKE, ELSEWHERE = "shop", "lake", "elsewhere"
NAMESPACES = (SHOP, LAKE)
BUCKETS = 3
STOCK = {"buckets": BUCKETS, "bucketSequence": [["node-2", "node-3"]] * BUCKETS, "deletionPolicy": "Retain"}
"""It stays while its only table is in no group."""


@pytest.fixture(scope="module")
def installation(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Three nodes, a group ``sales`` with loaded tables on nodes 1 and 2, a group ``stock`` on nodes 2 and 3."""
    with installed(plane, tmp_path_factory.mktemp("life"), nodes=3) as one:
        one.operator_environment |= operator_pod(one, "operator")
        one.start_operator()
        create(one, group("sales", buckets=BUCKETS, bucketSequence=[["node-1", "node-2"]] * BUCKETS))
        create(one, group("stock", **STOCK))
        for name in ("orders", "customers"):
            create(one, table(name))
            one.wait("ct", name, SHOP, "condition=Ready")
            one.load(SHOP, name)
        yield one


@pytest.fixture(autouse=True)
def restarted(installation: Installation) -> None:
    """Every test begins with a new operator, and with no clone left that no one ran."""
    run_clones(installation)
    if installation.operator is not None:
        installation.stop_operator()
    installation.start_operator()


def create(installation: Installation, body: JsonObject, namespace: str = SHOP) -> None:
    installation.kubectl("create", "-n", namespace, "-f", "-", stdin=as_json(body))


def edit(installation: Installation, name: str, **spec: object) -> None:
    patch = as_json({"spec": spec})
    installation.kubectl("patch", "ct", name, "-n", SHOP, "--type=merge", "-p", patch)


def status_of(installation: Installation, kind: str, name: str) -> JsonObject:
    return installation.read(kind, name, SHOP).get("status", {})


def accepted_condition(installation: Installation, name: str) -> JsonObject:
    """The table's condition ``Accepted``."""
    return next(one for one in status_of(installation, "ct", name)["conditions"] if one["type"] == "Accepted")


def colocation(installation: Installation, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, as a user runs it."""
    command = [sys.executable, "-c", "from colocation.cli.main import main; main()", *arguments]
    environment = {**os.environ, "KUBECONFIG": str(installation.plane.kubeconfig)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=90)


def files_of(installation: Installation, name: str) -> dict[str, dict[str, str]]:
    """Node -> path -> digest of the live table's data files."""
    return {
        node: {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        for node, (folder, files) in paths_of(installation, name).items()
    }


def paths_of(installation: Installation, name: str) -> dict[str, tuple[Path, list[Path]]]:
    """Node -> the live table's folder and its data files, which an agent may remove at any time; nodes without any are
    left out.
    """
    uid = installation.read("ct", name, SHOP)["metadata"]["uid"]
    folders = {node: installation.data_root(node) / SHOP / table_directory(name, uid) for node in installation.nodes}
    found = {node: (folder, list(folder.glob("data/**/*.parquet"))) for node, folder in folders.items()}
    return {node: (folder, files) for node, (folder, files) in found.items() if files}


def run_clones(installation: Installation) -> None:
    """What Job controller and kubelets do with every clone Job that has not ended."""
    for job in installation.read("jobs", namespace=SYSTEM)["items"]:
        if not job.get("status", {}).get("conditions"):
            installation.run_clone(job["metadata"]["name"])


def test_table_moves_once_all_its_files_are_there(installation: Installation) -> None:
    """Until then the old group places it; the operator is killed on the way; the other table is not touched."""
    before, others = files_of(installation, "orders"), files_of(installation, "customers")
    assert set(before) == {"node-1", "node-2"}
    edit(installation, "orders", colocateWith="stock")
    installation.wait("ct", "orders", SHOP, "condition=Reconciling")
    until(lambda: bool(installation.read("jobs", namespace=SYSTEM)["items"]))
    assert status_of(installation, "ct", "orders")["group"] == "sales"
    installation.stop_operator()
    run_clones(installation)
    installation.start_operator()

    def moved() -> bool:
        run_clones(installation)
        return status_of(installation, "ct", "orders")["group"] == "stock"

    until(moved)
    drops_wait = READERS_LEARN_SECONDS + DEADLINE_SECONDS  # of an operator that has just started
    until(lambda: set(paths_of(installation, "orders")) == {"node-2", "node-3"}, drops_wait)
    after = files_of(installation, "orders")
    assert after["node-3"] == before["node-1"]
    assert files_of(installation, "customers") == others
    installation.wait("cg", "sales", SHOP, "condition=Stable")
    until(lambda: status_of(installation, "cg", "stock")["tables"] == ["orders"])


def test_change_that_does_not_fit_is_refused_with_both_values(installation: Installation) -> None:
    """It stays where it is, and is well again when the change is taken back."""
    create(installation, group("wide", buckets=4, deletionPolicy="Retain"))
    edit(installation, "orders", colocateWith="wide")
    installation.wait("ct", "orders", SHOP, "condition=Accepted=false")
    accepted = accepted_condition(installation, "orders")
    assert accepted["reason"] == "SchemaMismatch"
    assert "3 should be 4, as in group wide" in accepted["message"]
    assert status_of(installation, "ct", "orders")["group"] == "stock"
    edit(installation, "orders", colocateWith="stock")
    installation.wait("ct", "orders", SHOP, "condition=Accepted")


def test_columns_that_files_do_not_fit_are_refused(installation: Installation) -> None:
    """By the operator, as there is no webhook here; what was accepted before is remembered over its restart."""
    columns = installation.read("ct", "customers", SHOP)["spec"]["columns"]
    edit(installation, "customers", columns=[one for one in columns if one["name"] != "o_tags"])
    installation.wait("ct", "customers", SHOP, "condition=Accepted=false")
    accepted = accepted_condition(installation, "customers")
    assert accepted["reason"] == "InvalidSpec"
    assert "column o_tags (array<string>) exists and is no longer in the spec" in accepted["message"]
    edit(installation, "customers", columns=columns)
    installation.wait("ct", "customers", SHOP, "condition=Accepted")


def test_columns_change_with_rows_that_replace_all(installation: Installation) -> None:
    """As SQL's REPLACE TABLE does it: its first half is taken back, and comes again, and then there are the rows."""
    found = installation.read("ct", "customers", SHOP)
    before, manifest = found["spec"]["columns"], found["status"]["snapshot"]["manifest"]
    after = [one for one in before if one["name"] != "o_tags"]

    def names() -> list[str]:
        return [one["name"] for one in status_of(installation, "ct", "customers")["columns"]]

    def define(columns: list[JsonObject], replaces: str | None) -> None:
        patch = {"metadata": {"annotations": {"colocation.dev/replaces": replaces}}, "spec": {"columns": columns}}
        installation.kubectl("patch", "ct", "customers", "-n", SHOP, "--type=merge", "-p", as_json(patch))
        generation = installation.read("ct", "customers", SHOP)["metadata"]["generation"]
        until(lambda: status_of(installation, "ct", "customers")["observedGeneration"] == generation)
        assert status_of(installation, "ct", "customers")["accepted"]

    for _ in range(2):
        define(after, manifest)
        installation.wait("ct", "customers", SHOP, "condition=Reconciling")
        assert names() == [one["name"] for one in before]
        define(before, None)
    define(after, manifest)
    installation.load(SHOP, "customers", 2, columns=after)
    installation.wait("ct", "customers", SHOP, "condition=Accepted")
    define([*after, {"name": "more", "type": "int"}], None)
    until(lambda: names() == [*(one["name"] for one in after), "more"])
    define(after, status_of(installation, "ct", "customers")["snapshot"]["manifest"])
    installation.load(SHOP, "customers", 3, columns=after)


def test_table_in_no_group_keeps_its_files(installation: Installation) -> None:
    """A private group places it from where they are; it goes when the table comes back."""
    before = files_of(installation, "orders")
    edit(installation, "orders", colocateWith="")
    until(lambda: status_of(installation, "ct", "orders")["group"].startswith("orders-"))
    alone = status_of(installation, "ct", "orders")["group"]
    installation.wait("cg", alone, SHOP, "condition=Stable")
    assert files_of(installation, "orders") == before
    edit(installation, "orders", colocateWith="stock")
    until(lambda: status_of(installation, "ct", "orders")["group"] == "stock")
    installation.wait("cg", alone, SHOP, "delete")


def test_table_dropped_while_the_operator_is_away_comes_back(installation: Installation) -> None:
    """`kubectl delete` returns at once; the table waits with its mark; `colocation recover` brings all of it back.

    Also what was loaded while the operator was away.
    """
    installation.stop_operator()
    installation.load(SHOP, "orders", snapshot_id=2)
    before, snapshot = files_of(installation, "orders"), status_of(installation, "ct", "orders")["snapshot"]
    installation.kubectl("delete", "ct", "orders", "-n", SHOP, "--timeout=5s")
    installation.start_operator()
    until(lambda: "orders*" in status_of(installation, "cg", "stock")["tables"])
    assert "orders*" in colocation(installation, "tables", "-n", SHOP).stdout
    until(lambda: all(list((installation.data_root(node) / ".recycle").glob("shop.orders-*")) for node in before))

    done = colocation(installation, "recover", "orders", "-n", SHOP)
    assert done.returncode == 0, done.stderr
    assert "shop/orders is back: snapshot 2, 3 rows" in done.stdout
    assert status_of(installation, "ct", "orders")["snapshot"] == snapshot
    until(lambda: files_of(installation, "orders") == before)
    until(lambda: status_of(installation, "cg", "stock")["tables"] == ["orders"])

    def stable() -> bool:
        run_clones(installation)
        return bool(status_of(installation, "cg", "stock")["stable"])

    until(stable)
    again = colocation(installation, "recover", "orders", "-n", SHOP)
    assert again.returncode == 1
    assert "exists" in again.stderr


@pytest.mark.parametrize("options", [[], ["--recycled"]], ids=["in its place", "from the recycle bin"])
def test_lost_table_comes_back_by_adopt(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """With the rights of the chart, the operator has the agents verify what is in the folder."""
    create(installation, group("gone", buckets=BUCKETS))
    create(installation, table("lost", colocateWith="gone"))
    installation.wait("ct", "lost", SHOP, "condition=Ready")
    installation.load(SHOP, "lost")
    before = files_of(installation, "lost")
    folders = [folder for folder, _ in paths_of(installation, "lost").values()]
    installation.stop_operator()
    for kind, name in (("ct", "lost"), ("cg", "gone")):
        installation.kubectl("delete", kind, name, "-n", SHOP, "--timeout=5s")
    for folder in folders if options else []:
        folder.rename(folder.parents[1] / ".recycle" / f"{SHOP}.{folder.name}.1790000000")
    installation.start_operator()
    until(lambda: installation.answered_nodes() == set(installation.nodes))

    done = adopt(installation, monkeypatch, "--table", "lost", "--yes", "--wait-seconds", "60", *options)
    assert done.exit_code == 0, done.output
    assert status_of(installation, "ct", "lost")["snapshot"]["rows"] == BUCKETS
    installation.wait("ct", "lost", SHOP, "condition=Accepted")
    until(lambda: files_of(installation, "lost") == before)
    installation.kubectl("delete", "ct", "lost", "-n", SHOP, "--timeout=5s")
    installation.kubectl("delete", "cg", "adopted-bigint-3", "-n", SHOP, "--timeout=5s")


def adopt(installation: Installation, monkeypatch: pytest.MonkeyPatch, *options: str) -> Result:
    """The command; the operator, which has no pod here, is asked on loopback and not through a port-forward."""
    url = f"http://127.0.0.1:{installation.operator_environment['COLOCATION_SNAPSHOT_PORT']}{FOLDERS_PATH}"

    def fetch_folders(*_: object) -> Folders:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return Folders.model_validate_json(answer.read())

    monkeypatch.setattr("colocation.cli.recover.adopt.fetch_folders", fetch_folders)
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(installation.plane.kubeconfig))
    return CliRunner().invoke(main, ["adopt", "-n", SHOP, *options])


def test_table_made_again_sees_no_old_files(installation: Installation) -> None:
    """And the dropped one cannot come back while it is there."""
    installation.kubectl("delete", "ct", "orders", "-n", SHOP, "--timeout=5s")
    create(installation, table("orders", colocateWith="stock"))
    installation.wait("ct", "orders", SHOP, "condition=Ready")
    until(lambda: status_of(installation, "cg", "stock")["tables"] == ["orders", "orders*"])
    assert "snapshot" not in status_of(installation, "ct", "orders")
    assert files_of(installation, "orders") == {}
    refused = colocation(installation, "recover", "orders", "-n", SHOP)
    assert refused.returncode == 1
    assert "exists; drop it" in refused.stderr


def test_group_goes_with_its_last_table(installation: Installation) -> None:
    """Once the recycle bin has given up on it, and not before."""
    create(installation, table("brief", colocateWith="passing", buckets=2, replicas=1, recycleAfterSeconds=3))
    installation.wait("ct", "brief", SHOP, "condition=Ready")
    installation.load(SHOP, "brief")
    until(lambda: bool(status_of(installation, "cg", "passing")["members"][0].get("snapshot")))
    installation.kubectl("delete", "ct", "brief", "-n", SHOP, "--timeout=5s")
    until(lambda: status_of(installation, "cg", "passing")["tables"] == ["brief*"])
    installation.wait("cg", "passing", SHOP, "delete", DEADLINE_SECONDS)


def test_group_of_another_namespace(installation: Installation) -> None:
    """Refused until it allows the namespace; then the table is in, with a ConfigMap where its pods run."""
    create(installation, table("clicks", colocateWith="shop/sales"), LAKE)
    installation.wait("ct", "clicks", LAKE, "condition=Accepted=false")
    conditions = installation.read("ct", "clicks", LAKE)["status"]["conditions"]
    assert {one["reason"] for one in conditions} == {"NamespaceNotAllowed"}
    patch = as_json({"spec": {"allowedNamespaces": [LAKE]}})
    installation.kubectl("patch", "cg", "sales", "-n", SHOP, "--type=merge", "-p", patch)
    installation.wait("ct", "clicks", LAKE, "condition=Ready")
    until(lambda: "lake/clicks" in status_of(installation, "cg", "sales")["tables"])
    installation.load(LAKE, "clicks")
    data = installation.read("configmaps", "sales.shop-spark-shared", LAKE)["data"]
    template = data["executor-pod-template.yaml"]
    assert "name: sales.shop-spark-shared" in template
    installation.wait("cg", "sales", SHOP, "condition=Stable")


def test_spark_pods_get_their_namespaces_files(installation: Installation) -> None:
    """A volume and a claim on it where pods of a group run; both again after the claim went with its namespace."""
    for namespace in (SHOP, LAKE):
        until(lambda namespace=namespace: is_served(installation, namespace))  # type: ignore[misc]
    before = volume_of(installation, LAKE)
    installation.kubectl("delete", "pvc", DATA_CLAIM, "-n", LAKE, "--wait=false")

    def is_served_again() -> bool:
        let_go(installation)
        if not is_served(installation, LAKE):
            return False
        after = volume_of(installation, LAKE)
        return after["metadata"]["uid"] != before["metadata"]["uid"]

    until(is_served_again)
    assert volume_of(installation, LAKE)["spec"]["hostPath"]["path"] == f"{DEFAULT_DATA_ROOT}/{LAKE}"


def test_what_has_our_name_is_left_alone(installation: Installation) -> None:
    """The group reports it. Without it, pods get theirs; when the group goes, volume and claim go."""
    taken = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": data_volume_name(ELSEWHERE)},
        "spec": {"hostPath": {"path": "/srv"}, "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
    }  # fmt: skip
    installation.kubectl("create", "-f", "-", stdin=as_json(taken))
    claim = data_claim(ELSEWHERE)
    del claim["metadata"]["labels"]
    installation.kubectl("create", "namespace", ELSEWHERE)
    create(installation, claim, ELSEWHERE)
    create(installation, group("parts", buckets=BUCKETS, deletionPolicy="Retain"), ELSEWHERE)
    for kind, name, what in (
        ("pvc", DATA_CLAIM, "PersistentVolumeClaim"), ("pv", data_volume_name(ELSEWHERE), "PersistentVolume "),
    ):  # fmt: skip
        until(lambda what=what: stalled_message(installation).startswith(what))  # type: ignore[misc]
        assert volume_of(installation, ELSEWHERE)["spec"]["hostPath"]["path"] == "/srv"
        installation.kubectl("delete", kind, name, "-n", ELSEWHERE, "--wait=false")
        let_go(installation)
        installation.stop_operator()
        installation.start_operator()  # the next full list would show it, too
    until(lambda: is_served(installation, ELSEWHERE))
    installation.kubectl("delete", "cg", "parts", "-n", ELSEWHERE)

    def is_gone() -> bool:
        let_go(installation)
        claims = {one["metadata"]["name"] for one in installation.read("pvc", namespace=ELSEWHERE)["items"]}
        return not volume_of(installation, ELSEWHERE) and DATA_CLAIM not in claims

    until(is_gone)


def stalled_message(installation: Installation) -> str:
    """What is in the way of the group elsewhere."""
    conditions = installation.read("cg", "parts", ELSEWHERE).get("status", {}).get("conditions", [])
    return next((one["message"] for one in conditions if one["type"] == "Stalled"), "")


def volume_of(installation: Installation, namespace: str) -> JsonObject:
    """The namespace's volume; empty while there is none."""
    found = installation.read("pv")["items"]
    return next((one for one in found if one["metadata"]["name"] == data_volume_name(namespace)), {})


def is_served(installation: Installation, namespace: str) -> bool:
    """Whether the namespace has a claim, and a volume for just that one; none of them is on its way out."""
    volume, claims = volume_of(installation, namespace), installation.read("pvc", namespace=namespace)["items"]
    ours = [one["metadata"] for one in claims if "deletionTimestamp" not in one["metadata"]]
    return (
        bool(volume) and "deletionTimestamp" not in volume["metadata"]
        and [volume["spec"].get("claimRef", {}).get("uid")] == [one["uid"] for one in ours]
    )  # fmt: skip


def let_go(installation: Installation) -> None:
    """What Kubernetes' controllers do with deleted claims that no pod uses, and volumes that no claim has."""
    volumes = [(kind, one) for kind in ("pv", "pvc") for one in installation.read(kind)["items"]]
    for kind, one in volumes:
        metadata = one["metadata"]
        if "deletionTimestamp" in metadata and metadata.get("finalizers"):
            where = ["-n", metadata["namespace"]] if "namespace" in metadata else []
            patch = ["--type=merge", "-p", as_json({"metadata": {"finalizers": None}})]
            installation.kubectl("patch", kind, metadata["name"], *where, *patch)


def test_replaced_snapshots_go_when_their_time_is_over(installation: Installation) -> None:
    """The loader's history is cut by the operator, and by no one before."""
    edit(installation, "customers", retention={"seconds": 5, "snapshots": 10})
    now = status_of(installation, "ct", "customers")["snapshot"]
    old = {**now, "id": 0, "committedAt": "2026-11-20T00:00:00Z"}
    new = {**now, "id": 2, "committedAt": "2999-01-01T00:00:00Z"}
    patch = as_json({"status": {"snapshot": new, "history": [old]}})
    installation.kubectl("patch", "ct", "customers", "-n", SHOP, "--subresource=status", "--type=merge", "-p", patch)
    generation = installation.read("ct", "customers", SHOP)["metadata"]["generation"]
    until(lambda: status_of(installation, "ct", "customers")["observedGeneration"] == generation)
    assert [one["id"] for one in status_of(installation, "ct", "customers")["history"]] == [0]
    patch = as_json({"status": {"snapshot": {**new, "committedAt": now["committedAt"]}}})
    installation.kubectl("patch", "ct", "customers", "-n", SHOP, "--subresource=status", "--type=merge", "-p", patch)
    until(lambda: not status_of(installation, "ct", "customers").get("history"))


def test_admin_api_asks_who_calls(installation: Installation) -> None:
    """And what they may do; this one may nothing. On loopback and without a certificate it speaks plain HTTP."""
    token = (installation.folder / LOADER / "token").read_text()
    port = installation.operator_environment["COLOCATION_ADMIN_PORT"]
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/colocate", headers={"Authorization": f"Bearer {token}"}
    )

    def is_refused() -> bool:
        try:
            urllib.request.urlopen(request).close()
        except urllib.error.HTTPError as error:
            return error.code == 403
        except urllib.error.URLError:
            return False  # it does not listen yet
        return False

    until(is_refused)


def test_a_deleted_holder_is_made_again(installation: Installation) -> None:
    """Its node takes pods, so no one asks for the node."""

    def holders() -> set[str]:
        pods = installation.read("pods", namespace=SYSTEM)["items"]
        return {pod["metadata"]["uid"] for pod in pods if pod["metadata"]["name"] == "colocation-holder-node-1"}

    until(lambda: bool(holders()))
    before = holders()
    installation.kubectl("delete", "pod", "colocation-holder-node-1", "--namespace", SYSTEM, "--wait=false")
    until(lambda: bool(holders() - before))


@pytest.mark.parametrize("account", CHART_ACCOUNTS)
def test_every_right_of_the_chart_was_used(installation: Installation, account: str) -> None:
    """By all tests of this file together, which ran with these rights only; nothing else was asked for."""
    log = installation.plane.audit_log
    assert unused(log, account) == set()
    assert refused(log, account) == set()
