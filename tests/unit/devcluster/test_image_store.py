"""Nodes share what never changes of their images, and nothing else."""

from pathlib import Path

from devcluster import image_store

LAYER = "io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/opt/spark.jar"
LAYERS_DATABASE = "io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/var/lib/packages.db"
DATABASE = "io.containerd.metadata.v1.bolt/meta.db"


def store(folder: Path) -> Path:
    """A store with a layer of two files and a database."""
    for name in (LAYER, LAYERS_DATABASE, DATABASE):
        path = folder / "store" / name
        path.parent.mkdir(parents=True)
        path.write_text(name)
    return folder / "store"


def test_layers_are_links_and_databases_are_copies(tmp_path: Path) -> None:
    """What containerd writes to in one node must not change under another."""
    made, node = store(tmp_path), tmp_path / "node"
    node.mkdir()
    image_store.copy_to(made, node)
    assert {name: (node / name).samefile(made / name) for name in (LAYER, LAYERS_DATABASE, DATABASE)} == {
        LAYER: True, LAYERS_DATABASE: True, DATABASE: False
    }  # fmt: skip
    assert (node / DATABASE).read_text() == DATABASE


def test_an_interrupted_copy_is_begun_again(tmp_path: Path) -> None:
    """A node's folder has all of the store or nothing of it."""
    made, node = store(tmp_path), tmp_path / "node"
    node.mkdir()
    (tmp_path / "node.partial").mkdir()
    (tmp_path / "node.partial" / "rest").write_text("of a killed run")
    image_store.copy_to(made, node)
    assert sorted(path.name for path in node.iterdir()) == sorted(path.name for path in made.iterdir())
    assert not (tmp_path / "node.partial").exists()
