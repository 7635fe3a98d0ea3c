"""Builds images with buildah, on a base made by debootstrap: no registry can be reached for one."""

import configparser
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

from devcluster import apt, binaries, cluster, oci, paths, shell
from devcluster.errors import DevclusterError, UsageError
from devcluster.locks import exclusive
from devcluster.progress import tail, timed

BASE_IMAGE = "localhost/colocation-base:bookworm"
RELEASE = "bookworm"
SPARK_OPERATOR_IMAGE = f"localhost/colocation-spark-operator:{binaries.SPARK_OPERATOR.version}"
SPARK_OPERATOR_CONTEXT = paths.PACKAGE / "dockerfiles" / "spark-operator"
AUTHORITIES_IN_BUILD = "/run/devcluster/ca-certificates.crt"


def full_name(reference: str) -> str:
    """The name under which containerd and the kubelet know an image, as Docker would complete it.

    `localhost/x:y` stays as it is; `x:y` becomes `docker.io/library/x:y`, and a missing tag becomes `latest`.
    """
    if not reference or reference != reference.strip() or "@" in reference:
        raise UsageError(f"image {reference!r} given, NAME[:TAG] allowed")
    first, slash, rest = reference.partition("/")
    if not slash:
        reference = f"docker.io/library/{reference}"
    elif not ("." in first or ":" in first or first == "localhost"):
        reference = f"docker.io/{first}/{rest}"
    return reference if ":" in reference.rpartition("/")[2] else f"{reference}:latest"


def build(tag: str, dockerfile: Path, context: Path, build_args: dict[str, str]) -> None:
    """Build an image from a Dockerfile whose `BASE` build argument takes the base image."""
    ensure_base()
    _build(tag, dockerfile, context, {"BASE": BASE_IMAGE, **build_args})


def load(tags: list[str]) -> None:
    """Bring built images into all nodes of the running cluster, and into those that join later."""
    cluster.load_images([export(tag) for tag in tags])


def build_spark_operator_image(spark_image: str) -> str:
    """Build the image of Kubeflow's Spark operator: it submits with the very Spark that the jobs run.

    The chart (`binaries.spark_operator_chart()`) takes it with `image.registry=localhost`,
    `image.repository=colocation-spark-operator` and `image.tag` set to what follows the colon.
    """
    binaries.ensure((binaries.SPARK_OPERATOR,))
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        shutil.copytree(SPARK_OPERATOR_CONTEXT, context, dirs_exist_ok=True)
        shutil.copy(binaries.SPARK_OPERATOR.program("spark-operator"), context / "spark-operator")
        build_args = {"SPARK_IMAGE": full_name(spark_image)}
        _build(SPARK_OPERATOR_IMAGE, context / "Dockerfile", context, build_args)
    return SPARK_OPERATOR_IMAGE


def ensure_base() -> None:
    """Make the base image once: a minimal Debian with the machine's own package sources."""
    with _image_lock():
        if shell.succeeds("buildah", "inspect", "--type", "image", BASE_IMAGE):
            return
        _require_image_tools()
        with timed("base image"), tempfile.TemporaryDirectory(dir=paths.cache()) as folder:
            root = Path(folder) / "root"
            _debootstrap(root)
            apt.copy_sources(root)
            container = shell.run("buildah", "from", "scratch").strip()
            try:
                shell.run("buildah", "add", "--quiet", container, root, "/")
                shell.run("buildah", "config", "--cmd", "/bin/bash", container)
                shell.run("buildah", "commit", "--quiet", container, BASE_IMAGE)
            finally:
                shell.run("buildah", "rm", container)


def export(tag: str) -> oci.Image:
    """Write an image into the cached OCI layout, unless the very same one is there.

    By way of buildah's `dir:` format, the only one that it does not compress: that would take longer than all the rest.
    """
    name = full_name(tag)
    if not shell.succeeds("buildah", "inspect", "--type", "image", name):
        raise DevclusterError(f"there is no image {name}; build it with `python -m devcluster build-image`")
    image_id = shell.run("buildah", "inspect", "--type", "image", "--format", "{{.FromImageID}}", name).strip()
    with _image_lock():
        known = oci.find(name)
        if known and oci.image_id(known) == image_id:
            return known
        with timed(f"exporting {name}"), tempfile.TemporaryDirectory(dir=paths.cache()) as folder:
            shell.run(
                "buildah", "push", "--quiet", "--disable-compression", "--format", "oci", name, f"dir:{folder}/image"
            )
            return oci.adopt(Path(folder) / "image", name)


def _build(tag: str, dockerfile: Path, context: Path, build_args: dict[str, str]) -> None:
    name = full_name(tag)
    log = paths.cache() / f"build-{name.replace('/', '-').replace(':', '-')}.log"
    with tempfile.TemporaryDirectory() as folder:
        command = ["buildah", "bud", "--isolation", "chroot", "--layers", "--pull-never", "--tag", name]
        for key, value in build_args.items():
            command += ["--build-arg", f"{key}={value}"]
        for source, target in _build_mounts(Path(folder)).items():
            command += ["--volume", f"{source}:{target}:ro"]
        command += ["--file", str(dockerfile.resolve()), str(context.resolve())]
        with timed(f"building image {name}"), log.open("w") as stream:
            result = subprocess.run(command, stdout=stream, stderr=stream, check=False)
    if result.returncode != 0:
        raise DevclusterError(f"building {name} failed, see {log}:\n{tail(log, lines=30)}")


def _build_mounts(folder: Path) -> dict[Path, str]:
    """What lets `pip` in a build reach the machine's own package index: its settings and its certificate authorities.

    Single files: a whole read-only /etc/ssl/certs breaks packages that add to it.
    """
    settings = configparser.RawConfigParser()
    settings.read_dict(_pip_settings())
    mounts: dict[Path, str] = {}
    if authorities := os.environ.get("PIP_CERT") or settings.get("global", "cert", fallback=None):
        settings.read_dict({"global": {"cert": AUTHORITIES_IN_BUILD}})
        mounts[Path(authorities).resolve()] = AUTHORITIES_IN_BUILD
    if settings.sections():
        with (folder / "pip.conf").open("w") as file:
            settings.write(file)
        mounts[folder / "pip.conf"] = "/etc/pip.conf"
    return mounts


def _pip_settings() -> dict[str, dict[str, str]]:
    """The machine's pip settings from its files; those from its environment name paths that a build does not have."""
    sections: dict[str, dict[str, str]] = {}
    for line in shell.run(sys.executable, "-m", "pip", "config", "list").splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.partition(".")
        if section != ":env:":
            sections.setdefault(section, {})[name] = value.strip("'")
    return sections


def _debootstrap(root: Path) -> None:
    log = paths.cache() / "debootstrap.log"
    command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", RELEASE, str(root), apt.mirror()]
    with log.open("w") as stream:
        if subprocess.run(command, stdout=stream, stderr=stream, check=False).returncode != 0:
            raise DevclusterError(f"debootstrap failed, see {log}:\n{tail(log)}")


def _require_image_tools() -> None:
    missing = [program for program in ("buildah", "debootstrap") if shutil.which(program) is None]
    if missing:
        raise DevclusterError(f"missing programs; install the packages {' '.join(missing)}")


def _image_lock() -> AbstractContextManager[None]:
    """Two runs at once must not make the base twice or clean the layout under each other."""
    return exclusive(paths.cache() / "images.lock", "makes the base image or exports one")
