"""What is in an image, listed from its layers."""

import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from devcluster import oci, sbom
from devcluster.image_files import image_files

STATUS = """Package: nginx-light
Status: install ok installed
Architecture: all
Version: 1.22.1-9+deb12u11
Description: nginx web/proxy server
 with a second line

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1:2.0-1

Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9
"""
KOPF = "Metadata-Version: 2.4\nName: Kopf\nVersion: 1.45.0\nLicense-Expression: MIT\n\nText: that is no field\n"
DEBIAN = "pkg:deb/debian"
SITE = "opt/colocation/lib/python3.11/site-packages"


def jar(*coordinates: tuple[str, str, str]) -> bytes:
    """With the Maven properties of these."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for group, name, version in coordinates:
            text = f"#Generated\nartifactId={name}\ngroupId={group}\nversion={version}\n"
            archive.writestr(f"META-INF/maven/{group}/{name}/pom.properties", text)
    return content.getvalue()


def layer(path: Path, files: Mapping[str, str | bytes], links: Mapping[str, str] | None = None) -> Path:
    """A layer with these files, and hard links."""
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            stored = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(stored)
            archive.addfile(member, io.BytesIO(stored))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.LNKTYPE, target
            archive.addfile(member)
    return path


@pytest.fixture
def layers(tmp_path: Path) -> list[Path]:
    """Debian below, ours above, which replaces dpkg's status."""
    below = layer(tmp_path / "below", {
        "./etc/os-release": 'ID=debian\nVERSION_ID="12"\n', "./var/lib/dpkg/status": "Package: old\nVersion: 1\n",
        f"{SITE}/pip-24.dist-info/METADATA": "Name: pip\nVersion: 24\n",
    })  # fmt: skip
    ours = ("dev.colocation", "colocation-spark", "0.1.0")
    above = layer(tmp_path / "above", {
        "var/lib/dpkg/status": STATUS,
        f"{SITE}/.wh.pip-24.dist-info": "",
        f"{SITE}/kopf-1.45.0.dist-info/METADATA": KOPF,
        f"{SITE}/pyspark-4.1.4.egg-info/PKG-INFO": "Name: pyspark\nVersion: 4.1.4\n",
        f"{SITE}/colocation/spark/jars/colocation-spark.jar": jar(ours, ("com.github.luben", "zstd-jni", "1.5")),
        "opt/spark/home/jars/scala-library-2.13.17.jar": jar(),
        "opt/spark/home/jars/broken-1.0.jar": b"no zip",
    })  # fmt: skip
    return [below, above]


def test_upper_layers_hide_what_is_below(tmp_path: Path) -> None:
    """Files that were replaced, removed, or whose folder was made again; hard links have their file's content."""
    below = layer(tmp_path / "1", {"a": "1", "b/c": "1", "b/d": "1", "e/f": "1", "g": "1"})
    above = layer(tmp_path / "2", {"a": "2", ".wh.b": "", "e/h": "2", "e/.wh..wh..opq": ""}, {"i": "a"})
    assert dict(image_files([below, above], lambda path: True)) == {
        "a": b"2", "e/h": b"2", "g": b"1", "i": b"2",
    }  # fmt: skip
    assert dict(image_files([below, above], lambda path: path == "g")) == {"g": b"1"}


def test_all_kinds_of_packages_are_found(layers: list[Path]) -> None:
    """What was removed is not; a jar that is silent about itself is named after its file."""
    found = {(one["name"], one["version"]): one.get("purl") for one in sbom.components_of(layers)}
    assert found == {
        ("debian", "12"): None,
        ("nginx-light", "1.22.1-9+deb12u11"): f"{DEBIAN}/nginx-light@1.22.1-9%2Bdeb12u11?arch=all&distro=debian-12",
        ("libc6", "2.36-9"): f"{DEBIAN}/libc6@2.36-9?arch=amd64&distro=debian-12",
        ("kopf", "1.45.0"): "pkg:pypi/kopf@1.45.0",
        ("pyspark", "4.1.4"): "pkg:pypi/pyspark@4.1.4",
        ("colocation-spark", "0.1.0"): "pkg:maven/dev.colocation/colocation-spark@0.1.0",
        ("scala-library", "2.13.17"): None,
        ("broken", "1.0"): None,
    }
    [ours] = [one for one in sbom.components_of(layers) if one["name"] == "colocation-spark"]
    assert [one["purl"] for one in ours["components"]] == ["pkg:maven/com.github.luben/zstd-jni@1.5"]


def test_document_follows_the_specification(
    layers: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By CycloneDX' own validator; the same image gives the same document."""
    monkeypatch.setattr(oci, "blobs_of", lambda digest: [digest, "configuration", *map(str, layers)])
    monkeypatch.setattr(oci, "blob", Path)
    image = oci.Image("localhost/colocation-operator:dev", f"sha256:{'a' * 64}")
    path = sbom.write(image, tmp_path / "sbom")
    assert path.name == "colocation-operator.cdx.json"
    content = path.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(content) is None
    assert json.loads(content)["metadata"]["component"]["version"] == image.digest
    assert sbom.write(image, tmp_path / "again").read_text() == content
