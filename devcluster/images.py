"""Builds images with buildah and brings them into the nodes."""

import configparser
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from devcluster import base_image, binaries, cluster, machine, oci, paths, shell
from devcluster.errors import DevclusterError, UsageError
from devcluster.progress import tail, timed

SPARK_OPERATOR_IMAGE = f"localhost/colocation-spark-operator:{binaries.SPARK_OPERATOR.version}"
SPARK_OPERATOR_CONTEXT = paths.PACKAGE / "dockerfiles" / "spark-operator"
AUTHORITIES_IN_BUILD = "/run/devcluster/ca-certificates.crt"


def full_name(reference: str) -> str:
    """The name under which containerd and the kubelet know a local image: `localhost/x` becomes `localhost/x:latest`.

    Raises:
        UsageError: the name is not below `localhost/`; nothing but local images can be had here.
    """
    if not reference.startswith("localhost/") or reference != reference.strip() or "@" in reference:
        raise UsageError(f"image {reference!r} given, localhost/NAME[:TAG] allowed")
    return reference if ":" in reference.rpartition("/")[2] else f"{reference}:latest"


def build(tag: str, dockerfile: Path, context: Path, build_args: dict[str, str]) -> None:
    """Build an image from a Dockerfile whose `BASE` build argument takes the base image."""
    base_image.ensure()
    _build(tag, dockerfile, context, {"BASE": base_image.name(), **build_args})


def load(tags: list[str]) -> None:
    """Bring built images into all nodes of the running cluster, and into those that join later."""
    cluster.load_images(export(tags))


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


def export(tags: Sequence[str]) -> list[oci.Image]:
    """Write images into the cached OCI layout, at once; those that are there already are left alone.

    By way of buildah's `dir:` format, the only one that it does not compress: that would take longer than all the rest.
    """
    ids = {full_name(tag): _image_id(full_name(tag)) for tag in tags}
    with base_image.image_lock(), base_image.scratch_folder("export") as folder, ThreadPoolExecutor() as pool:
        known = {image.name: image for image in oci.exported()}
        changed = [name for name in ids if name not in known or oci.image_id(known[name]) != ids[name]]
        folders = [folder / str(number) for number, _ in enumerate(changed)]
        written = list(pool.map(_write, changed, folders))
        known |= {image.name: image for image in map(oci.adopt, written, changed)}
    return [known[name] for name in ids]


def _image_id(name: str) -> str:
    if not shell.succeeds("buildah", "inspect", "--type", "image", name):
        raise DevclusterError(f"there is no image {name}; build it with `python -m devcluster build-image`")
    return shell.run("buildah", "inspect", "--type", "image", "--format", "{{.FromImageID}}", name).strip()


def _write(name: str, folder: Path) -> Path:
    with timed(f"exporting {name}"):
        shell.run("buildah", "push", "--quiet", "--disable-compression", "--format", "oci", name, f"dir:{folder}")
    return folder


def _build(tag: str, dockerfile: Path, context: Path, build_args: dict[str, str]) -> None:
    name = full_name(tag)
    log = paths.cache() / f"build-{name.replace('/', '-').replace(':', '-')}.log"
    with tempfile.TemporaryDirectory() as folder:
        command = ["buildah", "bud", "--isolation", "chroot", "--layers", "--pull-never", "--tag", name]
        for key, value in build_args.items():
            command += ["--build-arg", f"{key}={value}"]
        for source, target in _build_mounts(Path(folder)).items():
            command += ["--volume", f"{source}:{target}:ro"]
        adapted = Path(folder) / "Dockerfile"
        adapted.write_text(machine.release().with_its_packages(dockerfile.read_text()))
        command += ["--file", str(adapted), str(context.resolve())]
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
