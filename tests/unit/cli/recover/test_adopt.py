"""`adopt`, over a cluster in memory and what the operator tells of the nodes."""

import json
from typing import Any

import pytest
from urllib3.exceptions import ProtocolError

from colocation.cli.errors import CommandFailed
from colocation.cli.recover import adopt as command
from colocation.model.adoption import OrphanFolder, Orphans, OrphanSnapshot, adoption_from
from colocation.model.agent import RecycledSchema
from colocation.model.table import Column, TableSnapshot

from ..conftest import FakeCluster, Run

REFUSED = {("ColocatedTable", "secret"), ("ColocationGroup", "forbidden")}
LOST = {("ColocatedTable", "unlucky")}
"""The API server goes away between the trial and the real thing."""
SCHEMA = RecycledSchema(columns=(Column(name="k", type="bigint"),), bucketed_by=("k",), buckets=8)


def snapshot(number: int, missing: tuple[int, ...] | None = (), copies: int = 2, **schema: Any) -> OrphanSnapshot:
    taken = TableSnapshot(
        id=number, manifest=f"sha256:{number:064x}", committed_at=f"2026-11-{number:02}T00:00:00Z", rows=10, bytes=2048
    )
    return OrphanSnapshot(
        uid="0a1b2c3d-0000", snapshot=taken, table_schema=SCHEMA.model_copy(update=schema), nodes=("node-1",),
        missing_buckets=missing, copies=copies,
    )  # fmt: skip


def folder(table: str, *snapshots: OrphanSnapshot, namespace: str = "shop", uid: str = "0a1b2c3d") -> OrphanFolder:
    return OrphanFolder(
        namespace=namespace, directory=f"{table}-{uid}", table=table, nodes=("node-1", "node-2"), snapshots=snapshots
    )


@pytest.fixture
def made(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is created; a table or group of a name that exists is not, and one of a refused name is refused."""
    objects: list[dict[str, Any]] = []
    names = {("ColocatedTable", "taken")}

    def create(body: dict[str, Any], *, dry_run: bool = False) -> bool:
        key = body["kind"], body["metadata"]["name"]
        if key in names:
            return False
        if key in REFUSED:
            raise CommandFailed(f"{key[0]} {key[1]} is refused: quota")
        if dry_run:
            return True
        if key in LOST:
            raise ProtocolError("connection reset")
        names.add(key)
        objects.append(body)
        return True

    monkeypatch.setattr(cluster, "create", create, raising=False)
    return objects


def found(monkeypatch: pytest.MonkeyPatch, *folders: OrphanFolder) -> None:
    monkeypatch.setattr(command, "fetch_orphans", lambda connection, namespace: Orphans(folders=folders))


def test_tables_are_made_in_one_group_per_bucket_key(
    run: Run, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group has as many replicas as there are copies; the tables say whose files they take over."""
    two_keys = {"columns": (Column(name="a", type="int"), Column(name="b", type="string")), "bucketed_by": ("a", "b")}
    found(
        monkeypatch,
        folder("orders", snapshot(3, copies=3)),
        folder("lines", snapshot(2), uid="11111111"),
        folder("wide", snapshot(1, **two_keys), uid="22222222"),
        folder("foreign", snapshot(1), namespace="lake"),
    )
    done = run("adopt", "-o", "json")
    assert done.exit_code == 0
    assert [(one["table"], one["group"], one["adopted"]) for one in json.loads(done.stdout)] == [
        ("orders", "adopted-bigint-8", True),
        ("lines", "adopted-bigint-8", True),
        ("wide", "adopted-int-string-8", True),
    ]
    groups = {body["metadata"]["name"]: body["spec"] for body in made if body["kind"] == "ColocationGroup"}
    assert groups == {
        "adopted-bigint-8": {"bucketKey": ["bigint"], "buckets": 8, "replicas": 3, "deletionPolicy": "Retain"},
        "adopted-int-string-8": {
            "bucketKey": ["int", "string"], "buckets": 8, "replicas": 2, "deletionPolicy": "Retain",
        },
    }  # fmt: skip
    table = next(body for body in made if body["metadata"]["name"] == "orders")
    annotations = table["metadata"]["annotations"]
    assert annotations["colocation.dev/recovers"] == "0a1b2c3d-0000"
    adoption = adoption_from(annotations["colocation.dev/adopts"])
    assert adoption is not None and adoption.snapshot.id == 3
    assert table["spec"]["colocateWith"] == "adopted-bigint-8"


def test_what_is_passed_over_is_said(run: Run, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest snapshot that is whole is taken, and nothing where none is."""
    found(monkeypatch, folder("orders", snapshot(3, missing=(4,)), snapshot(2)), folder("bare", snapshot(1, (0,))))
    done = run("adopt")
    assert done.exit_code == 0
    assert "shop/orders: snapshot 3: no node has complete buckets 4" in done.stdout
    assert "no snapshot is complete" in done.stdout
    assert [body["metadata"]["name"] for body in made if body["kind"] == "ColocatedTable"] == ["orders"]


def test_dry_run_makes_nothing(run: Run, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what would be made, and in which group when one is named."""
    found(monkeypatch, folder("orders", snapshot(3)), folder("lines", snapshot(3), uid="11111111"))
    done = run("adopt", "--dry-run", "--table", "orders", "--group", "sales")
    assert done.exit_code == 0 and made == []
    assert "would be adopted" in done.stdout and "sales" in done.stdout and "lines" not in done.stdout


def test_of_two_folders_of_a_table_the_newer_is_taken(
    run: Run, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table had been dropped and made anew before all was lost."""
    found(monkeypatch, folder("orders", snapshot(9)), folder("orders", snapshot(12), uid="11111111"))
    results = json.loads(run("adopt", "-o", "json").stdout)
    assert [(one["directory"], one["adopted"]) for one in results] == [
        ("orders-0a1b2c3d", False),
        ("orders-11111111", True),
    ]


def test_table_that_exists_is_not_touched(
    run: Run, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was adopted, so the command fails and says why."""
    found(monkeypatch, folder("taken", snapshot(3)))
    done = run("adopt")
    assert done.exit_code == 1
    assert "a table shop/taken exists; drop or rename it first" in done.stdout


def test_a_refused_table_does_not_hinder_the_others(
    run: Run, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is reported, the exit code is 1, and no group is made that has no table."""
    other = {"columns": (Column(name="k", type="string"),)}
    found(monkeypatch, folder("secret", snapshot(3, **other)), folder("orders", snapshot(3), uid="11111111"))
    done = run("adopt", "-o", "json")
    assert done.exit_code == 1
    assert [(one["table"], one["adopted"], one["reason"]) for one in json.loads(done.stdout)] == [
        ("secret", False, "ColocatedTable secret is refused: quota"), ("orders", True, ""),
    ]  # fmt: skip
    assert "1 of 2 tables were refused" in done.stderr
    assert [body["metadata"]["name"] for body in made] == ["adopted-bigint-8", "orders"]


def test_a_refused_group_is_reported(
    run: Run, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its tables' refusal."""
    found(monkeypatch, folder("orders", snapshot(3)), folder("lines", snapshot(3), uid="11111111"))
    done = run("adopt", "--group", "forbidden")
    assert (done.exit_code, made) == (1, [])
    assert done.stdout.count("ColocationGroup forbidden is refused: quota") == 2


def test_a_group_that_is_left_without_its_table_is_said(
    run: Run, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the API server goes away in between, nothing else is possible."""
    found(monkeypatch, folder("unlucky", snapshot(3)), folder("orders", snapshot(3), uid="11111111"))
    done = run("adopt")
    assert done.exit_code == 1
    assert "group shop/adopted-bigint-8 was made for it and stays; another run uses it" in done.stdout
    assert [body["metadata"]["name"] for body in made] == ["adopted-bigint-8", "orders"]


def test_nothing_to_adopt(run: Run, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is no failure."""
    found(monkeypatch)
    done = run("adopt", "--all-namespaces")
    assert done.exit_code == 0 and "nothing to adopt" in done.stdout


def binned(table: str, *snapshots: OrphanSnapshot, **where: str) -> OrphanFolder:
    return folder(table, *snapshots, **where).model_copy(update={"recycled_nodes": ("node-1", "node-2")})


def test_folders_in_the_recycle_bins_are_listed_and_left_alone(
    run: Run, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may have dropped the table for good; that is no failure."""
    found(monkeypatch, binned("orders", snapshot(3, missing=None)))
    done = run("adopt")
    assert done.exit_code == 0 and made == []
    assert "it is in the recycle bin of node-1, node-2; to adopt it, unless it was dropped on purpose" in done.stdout


def test_a_folder_in_the_recycle_bins_is_adopted_when_that_is_asked_for(
    run: Run, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its newest snapshot, and two replicas: nobody has looked at its files."""
    found(monkeypatch, binned("orders", snapshot(3, missing=None, copies=0), snapshot(2, missing=None, copies=0)))
    done = run("adopt", "--recycled")
    assert done.exit_code == 0
    assert "snapshot 3 comes from the recycle bin of node-1, node-2; its files are not verified" in done.stdout
    [group, table] = made
    assert group["spec"]["replicas"] == 2
    adoption = adoption_from(table["metadata"]["annotations"]["colocation.dev/adopts"])
    assert adoption is not None and adoption.snapshot.id == 3


def test_a_folder_in_its_place_is_preferred_to_one_in_the_bins(
    run: Run, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one in the bin is of a table of the same name that was dropped, however new its snapshot is."""
    found(monkeypatch, binned("orders", snapshot(9, missing=None), uid="11111111"), folder("orders", snapshot(3)))
    results = json.loads(run("adopt", "--recycled", "-o", "json").stdout)
    assert [(one["directory"], one["adopted"]) for one in results] == [
        ("orders-11111111", False),
        ("orders-0a1b2c3d", True),
    ]
    assert results[0]["reason"] == "folder orders-0a1b2c3d that is in its place has one of the same table"
