"""The demo on the user's cluster: where it refuses to run, and what it calls a success."""

import pytest

from demo import __main__ as demo
from demo import users_cluster
from demo.users_cluster import Refused, Wishes, check, expected_rows, shortcomings, wishes

NODES = ["a", "b", "c"]
ASKED = Wishes("registry.example.com/data", "0.1.0")
JOINED = {"colocate": True, "exchanges": 0, "seconds": 1.0, "answer_ok": True}
SHUFFLED = {"colocate": False, "exchanges": 2, "seconds": 2.0, "answer_ok": True}


def test_a_kubeconfig_alone_starts_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It may be set for something else; exit code 2, before the cluster is asked for anything."""
    monkeypatch.setenv("KUBECONFIG", "/home/me/production")
    monkeypatch.delenv("IMAGE_REGISTRY", raising=False)
    monkeypatch.setattr(users_cluster, "run_demo", lambda *given, **more: pytest.fail("it ran"))
    assert demo.main(["run"]) == 2
    said = capsys.readouterr().err
    assert "a cluster of yours (/home/me/production)" in said and "IMAGE_REGISTRY=registry.example.com/data" in said


def test_images_and_node_are_asked_for_by_name() -> None:
    """The tag is the release's unless given; without a name no node is drained."""
    environment = {"IMAGE_REGISTRY": "registry.example.com/data/"}
    assert wishes("mine", environment) == ASKED
    environment |= {"IMAGE_TAG": "mine", "LOSE_NODE": "b", "DATA_ROOT": "/mnt/fast"}
    assert wishes("mine", environment) == Wishes("registry.example.com/data", "mine", "b", "/mnt/fast")


@pytest.mark.parametrize(
    ("asked", "nodes", "namespaces", "kinds", "words"),
    [
        pytest.param(ASKED, NODES, ["default", "shop"], [], "the cluster has shop already", id="namespace"),
        pytest.param(ASKED, NODES, ["colocation-system"], [], "has colocation-system already", id="installed"),
        pytest.param(
            ASKED, NODES, [], ["colocationgroups.colocation.dev"], "helm uninstall colocation", id="another namespace"
        ),
        pytest.param(ASKED, ["a", "b"], [], [], "needs 3 nodes that take pods; the cluster has 2", id="small"),
        pytest.param(
            Wishes("r", "t", lose_node="d"), NODES, [], [], "LOSE_NODE=d is no node that takes pods; there are: a, b",
            id="no such node",
        ),
    ],
)  # fmt: skip
def test_a_cluster_where_it_might_meet_something_is_refused(
    asked: Wishes, nodes: list[str], namespaces: list[str], kinds: list[str], words: str
) -> None:
    """The words say what is there, or what is missing."""
    with pytest.raises(Refused, match=words):
        check(asked, nodes, namespaces, kinds)


def test_a_cluster_without_colocation_is_taken() -> None:
    """With the node that may be drained, too."""
    check(Wishes("r", "t", lose_node="a"), NODES, ["default", "kube-system"], ["jobs.example.com"])


def test_the_answer_is_counted_apart_from_spark() -> None:
    """100,000 orders on seven days, four lines each."""
    rows = expected_rows()
    assert sum(int(str(row[1])) for row in rows) == 400_000
    assert [row[0] for row in rows] == [f"1995-01-0{day}" for day in range(1, 8)]
    assert sum(float(str(row[2])) for row in rows) == 4000 * sum(range(100))


def test_what_was_not_kept_is_named() -> None:
    """Of the join without the drained node as well."""
    assert shortcomings({"colocated": JOINED, "shuffle": SHUFFLED, "node_drained": JOINED}) == []
    drained = {**JOINED, "colocate": False, "answer_ok": False}
    assert shortcomings({"colocated": JOINED, "shuffle": JOINED, "node_drained": drained}) == [
        "the answers are right", "the colocated joins have no Exchange", "the join with disableColocateJoin shuffles",
    ]  # fmt: skip
