"""The image that all others are built on: a minimal Debian or Ubuntu by debootstrap, as no registry can be reached."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from devcluster import apt, machine, packages, paths, shell
from devcluster.errors import DevclusterError
from devcluster.locks import exclusive
from devcluster.progress import tail, timed

WORKING_CONTAINER = "colocation-base-in-progress"
# debootstrap mounts /proc and /sys into what it builds: in namespaces of its own, which end with us, none can be left.
CONFINED = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"),
)


def image_lock() -> AbstractContextManager[None]:
    """Two runs at once must not make the base twice or clean the exported images under each other."""
    return exclusive(paths.cache() / "images.lock", "makes the base image or exports one")


@contextmanager
def scratch_folder(name: str) -> Iterator[Path]:
    """A folder in the cache that a killed run leaves behind for the next to clean; the caller holds the image lock."""
    folder = paths.cache() / f".{name}.partial"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def name() -> str:
    """The base image is of the machine's own release."""
    return f"localhost/colocation-base:{machine.release().codename}"


def ensure() -> None:
    """Make the base image once, with the machine's own package sources."""
    with image_lock():
        packages.ensure(packages.IMAGES)
        if shell.succeeds("buildah", "inspect", "--type", "image", name()):
            return
        with timed("base image"), scratch_folder("base") as folder:
            root = folder / "root"
            _debootstrap(root)
            apt.copy_sources(root, machine.release().codename)
            _commit(root)


def _debootstrap(root: Path) -> None:
    log, suite = paths.cache() / "debootstrap.log", machine.release().codename
    command = [
        "debootstrap",
        "--variant=minbase",
        "--include=ca-certificates",
        suite,
        str(root),
        apt.mirror(suite),
    ]
    with log.open("w") as stream:
        result = subprocess.run([*CONFINED, *command], stdout=stream, stderr=stream, check=False)
    if result.returncode != 0:
        raise DevclusterError(f"debootstrap failed, see {log}:\n{tail(log)}")


def _commit(root: Path) -> None:
    shell.succeeds("buildah", "rm", WORKING_CONTAINER)
    shell.run("buildah", "from", "--name", WORKING_CONTAINER, "scratch")
    shell.run("buildah", "add", "--quiet", WORKING_CONTAINER, root, "/")
    shell.run("buildah", "config", "--cmd", "/bin/bash", WORKING_CONTAINER)
    shell.run("buildah", "commit", "--quiet", "--rm", WORKING_CONTAINER, name())
