"""`adopt`, over a cluster in memory and what the operator reports of the nodes."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import ProtocolError

from colocation.cli.errors import CommandFailed
from colocation.cli.port_forward import OperatorUnreachable
from colocation.cli.recover import adopt as command
from colocation.model.adoption import Folders, FolderSnapshot, NamedTable, TableFolder
from colocation.model.agent import RecycledSchema
from colocation.model.names import ANNOTATION_DISCARDED_FOLDERS, table_directory
from colocation.model.table import Column, TableSnapshot

from ..conftest import FakeCluster, Run

REFUSED = {("ColocatedTable", "secret"), ("ColocationGroup", "forbidden")}
LOST = {("ColocatedTable", "unlucky")}
"""The API server goes away between the trial and the real thing."""
COLUMNS = (Column(name="k", type="bigint"),)
SCHEMA = RecycledSchema(columns=COLUMNS, bucketed_by=("k",), buckets=8)
UID = "0a1b2c3d-0000"
Json = dict[str, Any]


def snapshot(number: int, missing: tuple[int, ...] | None = (), copies: int = 2, **schema: Any) -> FolderSnapshot:
    taken = TableSnapshot(
        id=number, manifest=f"sha256:{number:064x}", committed_at=f"2026-11-{number:02}T00:00:00Z", rows=10, bytes=2048
    )
    return FolderSnapshot(
        snapshot=taken, table_schema=SCHEMA.model_copy(update=schema), nodes=("node-1", "node-2"),
        missing_buckets=missing, copies=copies,
    )  # fmt: skip


def folder(table: str, *snapshots: FolderSnapshot, namespace: str = "shop", uid: str = "0a1b2c3d") -> TableFolder:
    return TableFolder(
        namespace=namespace, directory=f"{table}-{uid}", table=table, nodes=("node-1", "node-2"), snapshots=snapshots
    )


class Nodes:
    """What the operator reports, and what the command has written by then."""

    def __init__(self) -> None:
        self.see: Callable[[], Folders] = Folders
        self.made: list[Json] = []
        self.tables: dict[str, Json] = {}
        self.annotated: list[tuple[str, str, str]] = []
        self.committed: list[Json] = []
        self.named: dict[str, str] = {}
        self.conflicts = 0
        self.accepted: list[str] = []

    @property
    def adopted(self) -> dict[str, str]:
        """Table that was created -> whose folder it takes over."""
        tables = [one["metadata"] for one in self.made if one["kind"] == "ColocatedTable"]
        return {one["name"]: one["annotations"]["colocation.dev/adopts"] for one in tables}

    def hold(
        self, *folders: TableFolder, tables: tuple[NamedTable, ...] = (), etcd_restored: bool = False
    ) -> None:
        """Until their tables are created."""
        self.see = lambda: Folders(
            folders=tuple(one for one in folders if self.adopted.get(one.table) != one.uid_digits),
            tables=tables,
            etcd_restored=etcd_restored,
        )

    # The cluster

    def create(self, body: Json, *, dry_run: bool = False) -> bool:
        key = body["kind"], body["metadata"]["name"]
        names = {(one["kind"], one["metadata"]["name"]) for one in self.made}
        if key in names | {("ColocatedTable", "taken")}:
            return False
        if key in REFUSED:
            raise CommandFailed(f"{key[0]} {key[1]} is refused: quota")
        if dry_run:
            return True
        if key in LOST:
            raise ProtocolError("connection reset")
        self.made.append(body)
        return True

    def read_table(self, namespace: str, name: str) -> Json:
        return self.tables[name]

    def annotate_table(self, table: Json, annotation: str, value: str) -> None:
        self.annotated.append((table["metadata"]["name"], annotation, value))

    def commit(self, table: Json, status: Json) -> None:
        if self.conflicts:
            self.conflicts -= 1
            raise ApiException(status=409)
        self.committed.append(status)

    def nodes(self) -> list[Json]:
        return [
            {"metadata": {"name": name, "annotations": {ANNOTATION_DISCARDED_FOLDERS: text}}}
            for name, text in self.named.items()
        ]

    def annotate_node(self, node: str, annotation: str, text: str) -> None:
        assert annotation == ANNOTATION_DISCARDED_FOLDERS
        self.named[node] = text


@pytest.fixture
def nodes(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    found = Nodes()
    for name in ("create", "read_table", "annotate_table", "commit", "nodes", "annotate_node"):
        monkeypatch.setattr(cluster, name, getattr(found, name), raising=False)
    monkeypatch.setattr(cluster, "accept_restored_etcd", found.accepted.append, raising=False)
    monkeypatch.setattr(command, "fetch_folders", lambda connection, namespace: found.see())
    monkeypatch.setattr(command, "POLL_SECONDS", 0)
    return found


# Tables that are missing


def test_tables_are_created_in_one_group_per_bucket_key(run: Run, nodes: Nodes) -> None:
    """The group has as many replicas as there are copies; the tables say whose files they take over."""
    two_keys = {"columns": (Column(name="a", type="int"), Column(name="b", type="string")), "bucketed_by": ("a", "b")}
    nodes.hold(
        folder("orders", snapshot(3, copies=3)),
        folder("lines", snapshot(2), uid="11111111"),
        folder("wide", snapshot(1, **two_keys), uid="22222222"),
        folder("foreign", snapshot(1), namespace="lake"),
    )
    done = run("adopt", "--yes", "-o", "json")
    assert done.exit_code == 0
    assert [(one["table"], one["group"], one["action"], one["done"]) for one in json.loads(done.stdout)] == [
        ("orders", "adopted-bigint-8", "create table", True),
        ("lines", "adopted-bigint-8", "create table", True),
        ("wide", "adopted-int-string-8", "create table", True),
    ]
    groups = {body["metadata"]["name"]: body["spec"] for body in nodes.made if body["kind"] == "ColocationGroup"}
    assert groups == {
        "adopted-bigint-8": {"bucketKey": ["bigint"], "buckets": 8, "replicas": 3, "deletionPolicy": "Retain"},
        "adopted-int-string-8": {
            "bucketKey": ["int", "string"], "buckets": 8, "replicas": 2, "deletionPolicy": "Retain",
        },
    }  # fmt: skip
    assert nodes.adopted == {"orders": "0a1b2c3d", "lines": "11111111", "wide": "22222222"}
    table = next(body for body in nodes.made if body["metadata"]["name"] == "orders")
    assert table["spec"]["colocateWith"] == "adopted-bigint-8"


def test_without_yes_nothing_is_changed(run: Run, nodes: Nodes) -> None:
    """It prints what would be done, in which group, and what is skipped."""
    nodes.hold(folder("orders", snapshot(3, missing=(4,)), snapshot(2)), folder("lines", snapshot(3), uid="11111111"))
    done = run("adopt", "--table", "orders", "--group", "sales")
    assert done.exit_code == 0 and nodes.made == []
    assert "would create table in group sales" in done.stdout and "add --yes" in done.stdout
    assert "shop/orders: snapshot 3: no node has complete buckets 4" in done.stdout
    assert "lines" not in done.stdout


def test_folders_elsewhere_are_named(run: Run, nodes: Nodes) -> None:
    """Where nothing is left in the namespace that is looked at: it is only the context's."""
    nodes.hold(folder("orders", snapshot(3), namespace="lake"), tables=())
    for verb, *options in (["adopt"], ["adopt", "--yes"], ["discard", "--discard"]):
        done = run("adopt", *options)
        assert (done.exit_code, nodes.made) == (0, [])
        assert done.stdout == (
            f"nothing to {verb} of tables of namespace 'shop'; there are folders of lake/orders: choose -n, or -A\n"
        )
    assert "nothing to adopt of table 'nope' of namespace 'shop'" in run("adopt", "--table", "nope").stdout
    nodes.hold()
    assert "every table folder on the nodes belongs to a table" in run("adopt").stdout


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["-A", "-n", "shop"], "-A is all namespaces, -n shop one: leave one of them out"),
        (["--discard", "--recycled"], "--discard makes no tables: leave --group and --recycled out"),
        (["--discard", "--group", "sales"], "--discard makes no tables: leave --group and --recycled out"),
    ],
)
def test_options_that_contradict_are_refused(run: Run, nodes: Nodes, options: list[str], refusal: str) -> None:
    """Before anything is done."""
    done = run("adopt", "--yes", *options)
    assert (done.exit_code, refusal in done.stderr) == (2, True)


def test_folders_in_the_recycle_bins_are_adopted_on_request(run: Run, nodes: Nodes) -> None:
    """Somebody may have dropped the table for good; to leave it alone is no failure."""
    binned = folder("orders", snapshot(3, missing=None)).model_copy(update={"recycled_nodes": ("node-1", "node-2")})
    nodes.hold(binned)
    done = run("adopt", "--yes")
    assert (done.exit_code, nodes.made) == (0, []) and "recycle bin of node-1, node-2" in done.stdout
    assert run("adopt", "--yes", "--recycled").exit_code == 0
    assert nodes.adopted == {"orders": "0a1b2c3d"}


def test_table_that_exists_is_not_touched(run: Run, nodes: Nodes) -> None:
    """It was created since the operator looked."""
    nodes.hold(folder("taken", snapshot(3)))
    done = run("adopt", "--yes")
    assert done.exit_code == 1
    assert "a table shop/taken exists; drop or rename it first" in done.stdout


def test_a_refused_table_does_not_hinder_the_others(run: Run, nodes: Nodes) -> None:
    """Each is reported, the exit code is 1, and no group is made that has no table."""
    other = {"columns": (Column(name="k", type="string"),)}
    nodes.hold(folder("secret", snapshot(3, **other)), folder("orders", snapshot(3), uid="11111111"))
    done = run("adopt", "--yes", "-o", "json")
    assert done.exit_code == 1
    assert [(one["table"], one["done"], one["reason"]) for one in json.loads(done.stdout)] == [
        ("orders", True, ""), ("secret", False, "ColocatedTable secret is refused: quota"),
    ]  # fmt: skip
    assert "1 folder was refused" in done.stderr
    assert [body["metadata"]["name"] for body in nodes.made] == ["adopted-bigint-8", "orders"]


def test_a_refused_group_is_reported(run: Run, nodes: Nodes) -> None:
    """As its tables' refusal."""
    nodes.hold(folder("orders", snapshot(3)), folder("lines", snapshot(3), uid="11111111"))
    done = run("adopt", "--yes", "--group", "forbidden")
    assert (done.exit_code, nodes.made) == (1, [])
    assert done.stdout.count("ColocationGroup forbidden is refused: quota") == 2


def test_a_group_that_is_left_without_its_table_is_named(run: Run, nodes: Nodes) -> None:
    """Where the API server goes away in between, nothing else is possible."""
    nodes.hold(folder("unlucky", snapshot(3)), folder("orders", snapshot(3), uid="11111111"))
    done = run("adopt", "--yes")
    assert done.exit_code == 1
    assert "group shop/adopted-bigint-8 was made for it and stays; another run uses it" in done.stdout
    assert [body["metadata"]["name"] for body in nodes.made] == ["adopted-bigint-8", "orders"]


def test_nothing_to_adopt(run: Run, nodes: Nodes) -> None:
    """Which is no failure."""
    done = run("adopt", "--all-namespaces", "--yes")
    assert done.exit_code == 0 and "nothing to adopt" in done.stdout


def test_the_command_ends_when_nodes_do_not_hand_over_their_folders(run: Run, nodes: Nodes) -> None:
    """It names them; another run goes on."""
    nodes.see = lambda: Folders(folders=(folder("orders", snapshot(3)),))
    done = run("adopt", "--yes", "--wait-seconds", "0")
    assert done.exit_code == 1 and "not done after 0 s: shop/orders-0a1b2c3d" in done.stderr
    assert nodes.adopted == {"orders": "0a1b2c3d"}


def test_the_command_ends_with_the_names_of_agents_that_give_no_answer(run: Run, nodes: Nodes) -> None:
    """And lets the operator delete nothing: it would recycle the folder."""
    refusing = folder("orders", snapshot(3, None)).model_copy(update={"problem": "node n1: 403", "is_checked": False})
    nodes.hold(refusing, etcd_restored=True)
    done = run("adopt", "-A", "--yes", "--wait-seconds", "0")
    assert "not done after 0 s: shop/orders-0a1b2c3d (node n1: 403); run the command again" in done.stderr
    assert (done.exit_code, nodes.accepted, nodes.made) == (1, [], [])


def test_an_operator_that_does_not_answer_yet_is_asked_again(run: Run, nodes: Nodes) -> None:
    """After a restore of etcd its pod has another name for a while; not longer than the command may wait."""
    nodes.hold(folder("orders", snapshot(3)))
    see, left = nodes.see, [1, 2]

    def unreachable_at_first() -> Folders:
        if left:
            raise OperatorUnreachable(f"the operator's pod does not answer: {left.pop()}")
        return see()

    nodes.see = unreachable_at_first
    done = run("adopt", "--yes")
    assert done.exit_code == 0 and nodes.adopted == {"orders": "0a1b2c3d"}
    assert "the operator's pod does not answer: 1; asking again" in done.stderr
    left[:] = [3]
    done = run("adopt", "--yes", "--wait-seconds", "0")
    assert (done.exit_code, done.stderr) == (1, "error: the operator's pod does not answer: 3\n")


# Tables that exist


def living(**fields: Any) -> NamedTable:
    known = {"columns": COLUMNS, "snapshot": snapshot(2).snapshot, **fields}
    return NamedTable(namespace="shop", name="orders", directory=table_directory("orders", UID), **known)


def stored(uid: str = UID, number: int = 2) -> Json:
    columns = [{"name": "k", "type": "bigint"}]
    return {
        "metadata": {"namespace": "shop", "name": "orders", "uid": uid, "resourceVersion": "7"},
        "spec": {"columns": columns, "bucketedBy": ["k"], "retention": {"seconds": 10**9, "snapshots": 10}},
        "status": {"snapshot": snapshot(number).snapshot.to_json_dict()},
    }


def test_a_table_takes_over_a_folder_and_gets_its_commits(run: Run, nodes: Nodes) -> None:
    """First one, then the other; the snapshot that it had stays in its history. A conflict is tried again."""
    nodes.tables["orders"], nodes.conflicts = stored(), 1
    other, own = folder("orders", snapshot(2), uid="11111111"), folder("orders", snapshot(4), snapshot(3), snapshot(2))

    def see() -> Folders:
        if not nodes.annotated:
            return Folders(folders=(other,), tables=(living(),), etcd_restored=True)
        newest = snapshot(4 if nodes.committed else 2).snapshot
        table = living(is_whole=True, adopts="11111111", snapshot=newest)
        return Folders(folders=(own,), tables=(table,), etcd_restored=True)

    nodes.see = see
    done = run("adopt", "--yes", "-o", "json")
    assert done.exit_code == 0
    assert nodes.annotated == [("orders", "colocation.dev/adopts", "11111111")]
    [status] = nodes.committed
    assert (status["snapshot"]["id"], [one["id"] for one in status["history"]]) == (4, [2])
    assert [(one["action"], one["done"]) for one in json.loads(done.stdout)] == [
        ("take over folder", True), ("commit snapshot", True),
    ]  # fmt: skip


def test_a_table_that_took_over_a_folder_gets_its_snapshot(run: Run, nodes: Nodes) -> None:
    """Once the nodes have verified the files, which they do after they have handed them over."""
    nodes.tables["orders"] = {**stored(), "status": {}}
    verified = iter((None, None, ()))

    def see() -> Folders:
        own = folder("orders", snapshot(2, next(verified, ())))
        committed = snapshot(2).snapshot if nodes.committed else None
        return Folders(folders=(own,), tables=(living(snapshot=committed, adopts="11111111"),))

    nodes.see = see
    done = run("adopt", "--yes", "-o", "json")
    assert (done.exit_code, [one["snapshot"]["id"] for one in nodes.committed]) == (0, [2])
    assert [(one["action"], one["done"]) for one in json.loads(done.stdout)] == [("commit snapshot", True)]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param(stored(number=3), "the table was loaded meanwhile", id="loaded since the nodes were asked"),
        pytest.param(stored(uid="99999999-new"), "has another uid now", id="another table of the name"),
        pytest.param({**stored(), "status": {"snapshot": 7}}, "status.snapshot", id="its status cannot be read"),
    ],
)
def test_a_table_that_changed_gets_no_commit(run: Run, nodes: Nodes, table: Json, problem: str) -> None:
    """What was acknowledged since is never replaced."""
    nodes.tables["orders"] = table
    known = (living(is_whole=True),)
    nodes.see = lambda: Folders(folders=(folder("orders", snapshot(4), snapshot(2)),), tables=known, etcd_restored=True)
    done = run("adopt", "--yes", "-o", "json")
    assert (done.exit_code, nodes.committed) == (1, [])
    assert problem in json.loads(done.stdout)[0]["reason"]


# Deletions after a restore of etcd


@pytest.mark.parametrize(
    ("arguments", "is_accepted"),
    [
        pytest.param(("-A", "--yes"), True, id="all"),
        pytest.param(("-A",), False, id="it only shows"),
        pytest.param(("--yes",), False, id="one namespace"),
        pytest.param(("-A", "--yes", "--table", "orders"), False, id="one table"),
        pytest.param(("-A", "--yes", "--group", "forbidden"), False, id="the cluster refuses a group"),
        pytest.param(("-A", "--yes", "--discard"), False, id="what is not wanted is let go first"),
    ],
)
def test_deletions_go_on_once_everything_was_adopted(
    run: Run, nodes: Nodes, arguments: tuple[str, ...], is_accepted: bool
) -> None:
    """Until then the report states that nothing is deleted."""
    nodes.hold(folder("orders", snapshot(3)), etcd_restored=True)
    done = run("adopt", *arguments)
    assert nodes.accepted == (["colocation-system"] if is_accepted else [])
    assert ("nothing is deleted until" in done.stdout) is not (is_accepted or "--discard" in arguments)


# Tables that were deleted on purpose

ORDERS, LINES = folder("orders", snapshot(3)), folder("lines", snapshot(2), uid="11111111")
FOREIGN = folder("orders", snapshot(1), namespace="lake")


def test_folders_to_discard_are_listed(run: Run, nodes: Nodes) -> None:
    """Those of the namespace, with what is in them, and none that a table has."""
    own = NamedTable(namespace="shop", name="kept", directory="kept-22222222")
    nodes.hold(ORDERS, LINES, FOREIGN, folder("kept", snapshot(1), uid="22222222"), tables=(own,))
    done = run("adopt", "--discard")
    assert (done.exit_code, nodes.named) == (0, {})
    for part in ("orders-0a1b2c3d", "2026-11-03T00:00:00Z", "2.0 KiB", "nothing is discarded yet", "add --yes"):
        assert part in done.stdout
    assert done.stdout.count("orders-0a1b2c3d") == 1 and "kept-22222222" not in done.stdout


def test_each_node_names_the_folders_that_go_there(run: Run, nodes: Nodes) -> None:
    """What is in a recycle bin goes by itself."""
    nodes.hold(ORDERS, LINES.model_copy(update={"recycled_nodes": ("node-2",)}), FOREIGN)
    done = run("adopt", "--discard", "--yes", "-o", "json")
    assert nodes.named == {"node-1": "shop/lines-11111111 shop/orders-0a1b2c3d", "node-2": "shop/orders-0a1b2c3d"}
    assert [(one["directory"], one["nodes"], one["discarded"]) for one in json.loads(done.stdout)] == [
        ("orders-0a1b2c3d", ["node-1", "node-2"], True), ("lines-11111111", ["node-1"], True),
    ]  # fmt: skip


def test_what_was_discarded_before_stays_so_while_it_is_there(run: Run, nodes: Nodes) -> None:
    """A folder that is gone is not named any longer."""
    nodes.named["node-1"] = "lake/orders-0a1b2c3d lake/gone-22222222"
    nodes.hold(ORDERS, LINES, FOREIGN)
    run("adopt", "--discard", "--table", "orders", "--yes")
    assert nodes.named["node-1"] == "lake/orders-0a1b2c3d shop/orders-0a1b2c3d"


def test_nothing_to_discard(run: Run, nodes: Nodes) -> None:
    """Of another namespace, or in the recycle bins only."""
    nodes.hold(FOREIGN, ORDERS.model_copy(update={"recycled_nodes": ORDERS.nodes}))
    done = run("adopt", "--discard", "--yes")
    assert (done.exit_code, nodes.named) == (0, {})
    assert "nothing to discard" in done.stdout
