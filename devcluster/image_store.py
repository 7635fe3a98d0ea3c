"""containerd's folder with a set of images in it, made once: a new node gets a copy whose layers are links.

Blobs and unpacked layers never change (an overlay copies before it writes), so nodes share them, on disk and in memory.
Databases are copied.
"""

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster import cgroups, configuration, oci, paths, processes, shell
from devcluster.binaries import PAUSE
from devcluster.progress import timed

START_DEADLINE_SECONDS = 60.0
PAUSE_IMAGE = f"localhost/colocation-pause:{PAUSE.version}"
FORMAT_VERSION = 1
"""Of stores: another one is made when what is in them changes without a change of the images."""
_NAME = "image-store"
_DATABASES = "*/*.db"


def ensure(images: list[oci.Image]) -> Path:
    """The store of these images, made if it is not there. The caller holds the cluster's lock.

    Stores of other images are removed; nodes that were made from them keep what they have.
    """
    folder = paths.cache() / _NAME
    store, partial = folder / _key(images), folder / ".partial"
    if store.is_dir():
        return store
    shell.run("rm", "-rf", partial)
    older = sorted(folder.glob("*"))
    partial.mkdir(parents=True)
    if older:
        copy_to(older[0], partial)  # most layers are the same
    with timed(f"unpacking {len(images)} images, once"), _containerd(partial) as socket:
        oci.import_archive(socket, oci.pause_archive(PAUSE.program("pause"), PAUSE_IMAGE))
        for image in images:
            oci.import_image(socket, partial, image)
        oci.remove_others(socket, {PAUSE_IMAGE, *(image.name for image in images)})
    partial.rename(store)
    for path in older:
        shell.run("rm", "-rf", path)
    return store


def copy_to(store: Path, folder: Path) -> None:
    """Give a new node's containerd the store's images; an interrupted copy starts again."""
    partial = folder.with_name(f"{folder.name}.partial")
    shell.run("rm", "-rf", partial)
    how = "-al" if store.stat().st_dev == folder.stat().st_dev else "-a"
    shell.run("cp", how, store, partial)
    for database in partial.glob(_DATABASES):
        linked = database.with_suffix(".linked")
        database.rename(linked)
        shutil.copy2(linked, database)
        linked.unlink()
    folder.rmdir()
    partial.rename(folder)


def _key(images: list[oci.Image]) -> str:
    version = shell.run("containerd", "--version")
    named = sorted((image.name, image.digest) for image in images)
    return hashlib.sha256(json.dumps([FORMAT_VERSION, version, PAUSE_IMAGE, named]).encode()).hexdigest()[:16]


@contextmanager
def _containerd(root: Path) -> Iterator[Path]:
    """A containerd over this folder alone, in the cluster's control group, in a mount namespace of its own."""
    state = paths.STATE / _NAME
    state.mkdir()
    settings = state / "containerd.toml"
    settings.write_text(configuration.containerd(PAUSE_IMAGE, root, state))
    group = cgroups.node_group(_NAME)
    socket = state / "containerd.sock"
    command = ["unshare", "--mount", "--propagation", "private", "containerd", "--config", str(settings)]
    identity = processes.start(_NAME, group, command)
    try:
        shell.wait_until(
            "containerd for the images answers",
            lambda: bool(processes.require_running(_NAME)) and shell.succeeds("ctr", "-a", socket, "version"),
            START_DEADLINE_SECONDS,
            processes.log_path(_NAME),
        )
        yield socket
        os.kill(identity.pid, signal.SIGTERM)  # so that its databases are closed
        shell.wait_until("containerd for the images ends", lambda: not processes.running(_NAME), START_DEADLINE_SECONDS)
    finally:
        cgroups.destroy(group)
        processes.forget(_NAME)
        shutil.rmtree(state)
