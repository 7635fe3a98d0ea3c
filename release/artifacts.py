"""Collects what is released into build/release. The same sources give the same bytes: archives carry a fixed time."""

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from devcluster import binaries

from .changelog import Changelog
from .errors import NotReleasable
from .install_file import write_first_join, write_install_file
from .versions import CHART, REPOSITORY, check

FOLDER = REPOSITORY / "build" / "release"
SUMS = "SHA256SUMS"
NOTES = "RELEASE_NOTES.md"
SBOMS = ("colocation-operator.cdx.json", "colocation-spark.cdx.json")
NO_REPOSITORY = '  repository: ""'
"""image.repository in the chart's values.yaml."""
SOURCE_DATE_EPOCH = 1_700_000_000
"""The time of every file in an archive, in Unix seconds; the wheel has the same (scripts/build-wheel)."""


def collect(folder: Path = FOLDER) -> list[Path]:
    """Fill the folder from what ``make wheel`` and ``make sbom`` have built; return its files.

    ``REGISTRY`` in the environment is where the images are published: the chart and install.yaml name them there.

    Raises:
        NotReleasable: versions disagree, or something has not been built.
    """
    version = check()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wheel = _built("dist", f"colocation-{version}-*.whl", "make wheel")
    sboms = [_built("sbom", name, "make sbom") for name in SBOMS]
    for path in (wheel, *sboms):
        shutil.copyfile(path, folder / path.name)
    registry = os.environ.get("REGISTRY", "")
    package_chart(folder, registry)
    write_install_file(folder, version, registry)
    write_first_join(folder, version, registry)
    (folder / NOTES).write_text(Changelog(REPOSITORY).notes(version))
    write_sums(folder)
    return sorted(folder.iterdir())


def _built(name: str, pattern: str, command: str) -> Path:
    found = sorted((REPOSITORY / "build" / name).glob(pattern))
    if len(found) != 1:
        raise NotReleasable(f"build/{name} has {len(found)} files {pattern}; run {command}")
    return found[0]


def package_chart(folder: Path, registry: str = "") -> Path:
    """``helm package``, with the times of its files fixed. With a registry, ``image.repository`` is set to it."""
    binaries.ensure((binaries.HELM,))
    helm = str(binaries.HELM.program("helm"))
    with tempfile.TemporaryDirectory() as temporary:
        chart = Path(shutil.copytree(CHART, Path(temporary) / CHART.name))
        if registry:
            _name_images(chart / "values.yaml", registry)
        command = [helm, "package", str(chart), "--destination", temporary]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NotReleasable(f"helm package failed: {done.stderr.strip()}")
        [made] = Path(temporary).glob("*.tgz")
        target = folder / made.name
        target.write_bytes(reproducible(made.read_bytes()))
    return target


def _name_images(values: Path, registry: str) -> None:
    """Set the default of ``image.repository``; the Spark image's name follows from it."""
    before = values.read_text()
    if before.count(NO_REPOSITORY) != 1:
        raise NotReleasable(f"{values.name} of the chart has no single line {NO_REPOSITORY!r} to set the registry in")
    values.write_text(before.replace(NO_REPOSITORY, f"  repository: {registry}/colocation-operator"))


def reproducible(archive: bytes) -> bytes:
    """The same .tgz with its files in order, owned by uid 0, at a fixed time."""
    plain = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as source,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = SOURCE_DATE_EPOCH, 0, 0, "", ""
            target.addfile(member, source.extractfile(member))
    return gzip.compress(plain.getvalue(), mtime=SOURCE_DATE_EPOCH)


def write_sums(folder: Path) -> None:
    """SHA256SUMS of all other files, for ``sha256sum --check``."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (folder / SUMS).write_text("".join(lines))
