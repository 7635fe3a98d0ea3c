"""What is inside an image, as a CycloneDX document: Debian packages, Python packages, jars, and Go programs' modules.

All of it is read from the image's files: dpkg's status, `*.dist-info` and `*.egg-info`, the jars themselves, and what
the Go linker left in its programs. The same image gives the same document.
"""

import hashlib
import io
import json
import re
import subprocess
import tempfile
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any
from urllib.parse import quote

from devcluster import oci
from devcluster.errors import DevclusterError
from devcluster.image_files import image_files
from devcluster.progress import timed

SPECIFICATION = "1.6"
Component = dict[str, Any]

_OS_RELEASE = ("etc/os-release", "usr/lib/os-release")
_DEBIAN = re.compile(r"var/lib/dpkg/(?:status|status\.d/[^/]+)")
_PYTHON = re.compile(r".*(?:\.dist-info/METADATA|\.egg-info/PKG-INFO)")
_JAR = re.compile(r".*\.jar")
_PROGRAM = re.compile(r"(?:(?:usr/)?(?:local/)?s?bin|opt/(?:.*/)?bin)/[^/]+")
_GO_MARK = b"\xff Go buildinf:"
_POM = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
_JAR_NAME = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.+-]*)")


def write(image: oci.Image, folder: Path) -> Path:
    """Write the document of an exported image as `<name>.cdx.json`; its path."""
    with timed(f"listing what is in {image.name}"):
        content = document(image)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{image.name.rpartition('/')[2].partition(':')[0]}.cdx.json"
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def document(image: oci.Image) -> dict[str, Any]:
    """The document of an exported image."""
    layers = [oci.blob(digest) for digest in oci.blobs_of(image.digest)[2:]]
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPECIFICATION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, image.digest)}",
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "colocation devcluster"}]},
            "component": {"type": "container", "bom-ref": image.digest, "name": image.name, "version": image.digest},
        },
        "components": components_of(layers),
    }


def components_of(layers: list[Path]) -> list[Component]:
    """Everything that is found in an image of these layers, once per place."""
    system = _system(dict(image_files(layers, lambda path: path in _OS_RELEASE)))
    found = [] if system is None else [system]
    for path, content in image_files(layers, _is_wanted):
        if _DEBIAN.fullmatch(path):
            found += _debian_packages(content.decode(), system)
        elif _PYTHON.fullmatch(path):
            found.append(_python_package(path, content.decode()))
        elif _JAR.fullmatch(path):
            found.append(_jar(path, content))
        elif _GO_MARK in content:
            found += _go_modules(path, content)
    for number, component in enumerate(found):
        component["bom-ref"] = f"{number}-{component.get('purl') or component['name']}"
    return found


def _is_wanted(path: str) -> bool:
    return any(kind.fullmatch(path) for kind in (_DEBIAN, _PYTHON, _JAR, _PROGRAM))


def _system(releases: dict[str, bytes]) -> Component | None:
    for path in _OS_RELEASE:
        fields = dict(line.split("=", 1) for line in releases.get(path, b"").decode().splitlines() if "=" in line)
        if "ID" in fields:
            version = fields.get("VERSION_ID", "").strip('"')
            return {"type": "operating-system", "name": fields["ID"].strip('"'), "version": version}
    return None


def _debian_packages(status: str, system: Component | None) -> Iterator[Component]:
    distribution = f"{system['name']}-{system['version']}" if system else ""
    for stanza in re.split(r"\n\n+", status.strip()):
        fields = Parser().parsestr(stanza)
        if not fields["Package"] or fields.get("Status", "install ok installed") != "install ok installed":
            continue
        qualifiers = f"arch={fields['Architecture']}" + (f"&distro={distribution}" if distribution else "")
        namespace = system["name"] if system else "debian"
        purl = f"{_purl('deb', (namespace, fields['Package']), fields['Version'])}?{qualifiers}"
        yield {"type": "library", "name": fields["Package"], "version": fields["Version"], "purl": purl}


def _python_package(path: str, metadata: str) -> Component:
    fields = Parser().parsestr(metadata, headersonly=True)
    name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
    component: Component = {
        "type": "library",
        "name": name,
        "version": fields["Version"],
        "purl": _purl("pypi", (name,), fields["Version"]),
        **_place(path),
    }
    if fields["License-Expression"]:
        component["licenses"] = [{"expression": fields["License-Expression"]}]
    return component


def _jar(path: str, content: bytes) -> Component:
    """A jar by its Maven coordinates, with those of the jars that were packed into it; else by its file's name."""
    stem = path.rpartition("/")[2].removesuffix(".jar")
    own, packed = _coordinates(stem, content)
    if own is None:
        match = _JAR_NAME.fullmatch(stem)
        name, version = (match["name"], match["version"]) if match else (stem, "")
        own = {"type": "library", "name": name, "version": version}
    hashes = [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]
    component = {**own, "hashes": hashes, **_place(path)}
    return {**component, "components": packed} if packed else component


def _coordinates(stem: str, content: bytes) -> tuple[Component | None, list[Component]]:
    """The jar's own coordinates, if its file name gives them, and those packed in it."""
    own: Component | None = None
    packed: list[Component] = []
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as jar:
            poms = [jar.read(name).decode("latin-1") for name in sorted(jar.namelist()) if _POM.fullmatch(name)]
    except zipfile.BadZipFile:
        return None, []
    for pom in poms:
        fields = dict(line.split("=", 1) for line in pom.splitlines() if "=" in line and not line.startswith("#"))
        group, name, version = (fields.get(key, "").strip() for key in ("groupId", "artifactId", "version"))
        if not (group and name and version):
            continue
        component = {
            "type": "library", "group": group, "name": name, "version": version,
            "purl": _purl("maven", (group, name), version),
        }  # fmt: skip
        if own is None and (len(poms) == 1 or stem in (name, f"{name}-{version}")):
            own = component
        else:
            packed.append(component)
    return own, packed


def _go_modules(path: str, content: bytes) -> Iterator[Component]:
    """The output of `go version -m` for a program."""
    with tempfile.NamedTemporaryFile() as program:
        program.write(content)
        program.flush()
        command = ["go", "version", "-m", program.name]
        try:
            listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise DevclusterError(f"/{path} is a Go program, and `go version -m` does not tell its modules") from error
    for line in listed.splitlines():
        kind, *fields = line.strip().split("\t")
        if kind in ("mod", "dep") and len(fields) >= 2:
            name, version = fields[:2]
            purl = _purl("golang", name.split("/"), version)
            yield {"type": "library", "name": name, "version": version, "purl": purl, **_place(path)}


def _place(path: str) -> Component:
    return {"evidence": {"occurrences": [{"location": f"/{path}"}]}}


def _purl(kind: str, names: Iterable[str], version: str) -> str:
    """See https://github.com/package-url/purl-spec."""
    return f"pkg:{kind}/{'/'.join(quote(name, safe='') for name in names)}@{quote(version, safe=':')}"
