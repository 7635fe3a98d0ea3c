"""`discard`, over a cluster in memory and what the operator tells of the nodes."""

import json

import pytest

from colocation.cli.recover import discard as command
from colocation.model.adoption import OrphanFolder, Orphans
from colocation.model.names import ANNOTATION_DISCARDED_FOLDERS

from ..conftest import FakeCluster, Run
from .test_adopt import folder, snapshot

ORDERS, LINES = folder("orders", snapshot(3)), folder("lines", snapshot(2), uid="11111111")
FOREIGN = folder("orders", snapshot(1), namespace="lake")
Annotations = dict[str, str]


@pytest.fixture
def annotations(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Annotations:
    """Node -> the folders that it names, as `discard` writes them."""
    named: Annotations = {}

    def nodes() -> list[dict[str, object]]:
        return [
            {"metadata": {"name": name, "annotations": {ANNOTATION_DISCARDED_FOLDERS: text}}}
            for name, text in named.items()
        ]

    def annotate_node(node: str, annotation: str, text: str) -> None:
        assert annotation == ANNOTATION_DISCARDED_FOLDERS
        named[node] = text

    monkeypatch.setattr(cluster, "nodes", nodes, raising=False)
    monkeypatch.setattr(cluster, "annotate_node", annotate_node, raising=False)
    return named


def found(monkeypatch: pytest.MonkeyPatch, *folders: OrphanFolder) -> None:
    monkeypatch.setattr(command, "fetch_orphans", lambda connection, namespace: Orphans(folders=folders))


def test_without_yes_folders_are_listed(run: Run, annotations: Annotations, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the namespace, with what lies in them."""
    found(monkeypatch, ORDERS, LINES, FOREIGN)
    done = run("discard")
    assert (done.exit_code, annotations) == (0, {})
    for part in ("orders-0a1b2c3d", "2026-11-03T00:00:00Z", "2.0 KiB", "nothing is discarded yet", "add --yes"):
        assert part in done.stdout
    assert done.stdout.count("orders-0a1b2c3d") == 1


def test_with_yes_each_node_names_the_folders_that_lie_there(
    run: Run, annotations: Annotations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in a recycle bin goes by itself."""
    found(monkeypatch, ORDERS, LINES.model_copy(update={"recycled_nodes": ("node-2",)}), FOREIGN)
    done = run("discard", "--yes", "-o", "json")
    assert annotations == {"node-1": "shop/lines-11111111 shop/orders-0a1b2c3d", "node-2": "shop/orders-0a1b2c3d"}
    assert [(one["directory"], one["nodes"], one["discarded"]) for one in json.loads(done.stdout)] == [
        ("orders-0a1b2c3d", ["node-1", "node-2"], True), ("lines-11111111", ["node-1"], True),
    ]  # fmt: skip


def test_what_was_discarded_before_stays_so_while_it_lies_there(
    run: Run, annotations: Annotations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is gone is named no more."""
    annotations["node-1"] = "lake/orders-0a1b2c3d lake/gone-22222222"
    found(monkeypatch, ORDERS, LINES, FOREIGN)
    run("discard", "--table", "orders", "--yes")
    assert annotations["node-1"] == "lake/orders-0a1b2c3d shop/orders-0a1b2c3d"


def test_nothing_to_discard(run: Run, annotations: Annotations, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another namespace, or in the recycle bins only."""
    found(monkeypatch, FOREIGN, ORDERS.model_copy(update={"recycled_nodes": ORDERS.nodes}))
    done = run("discard", "--yes")
    assert (done.exit_code, annotations) == (0, {})
    assert "no folder of namespace shop is without a table" in done.stdout
