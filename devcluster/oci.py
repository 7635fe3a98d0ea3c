"""Images as files (an OCI layout in the cache), and getting them into a node's containerd.

All images share one folder of blobs, and a node is sent only those it lacks: after a change in an image's last layer,
seconds instead of the whole image.
"""

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from devcluster import machine, paths, shell
from devcluster.errors import DevclusterError

NAMESPACE = "k8s.io"
REFERENCE_NAME = "org.opencontainers.image.ref.name"
IMPORT_ATTEMPTS = 2
"""containerd's garbage collector may take layers that a new image shares with the one whose name it gets, while they
are unpacked; it does so once."""
CONTENT_STORE = Path("io.containerd.content.v1.content/blobs")


@dataclass(frozen=True)
class Image:
    """An image in the layout: `name` is the full reference that pods use, `digest` its manifest's."""

    name: str
    digest: str


def layout() -> Path:
    """The folder of all exported images."""
    return paths.cache() / "images" / "oci"


def exported() -> list[Image]:
    """All images in the layout: under each name the one that was exported last."""
    index = layout() / "index.json"
    if not index.exists():
        return []
    entries = json.loads(index.read_text())["manifests"]
    return [Image(entry["annotations"][REFERENCE_NAME], entry["digest"]) for entry in entries]


def image_id(image: Image) -> str:
    """What buildah calls the image: the hash of its configuration."""
    configuration: str = json.loads(blob(image.digest).read_text())["config"]["digest"]
    return configuration.removeprefix("sha256:")


def adopt(folder: Path, name: str) -> Image:
    """Move an image that buildah wrote in its `dir:` format into the layout; the caller holds the image lock.

    The index is replaced last and in one step, so that an interrupted run leaves it with complete images only.
    """
    manifest = (folder / "manifest.json").read_bytes()
    image = Image(name, f"sha256:{hashlib.sha256(manifest).hexdigest()}")
    blob(image.digest).parent.mkdir(parents=True, exist_ok=True)
    blob(image.digest).write_bytes(manifest)
    for digest in blobs_of(image.digest)[1:]:
        source = folder / digest.removeprefix("sha256:")
        if source.exists():  # a manifest may name the same layer twice
            source.rename(blob(digest))
    images = [*(known for known in exported() if known.name != name), image]
    (layout() / "index.json.new").write_bytes(_index(images))
    (layout() / "index.json.new").rename(layout() / "index.json")
    _remove_unused_blobs(images)
    return image


def blob(digest: str) -> Path:
    """The file of a blob in the layout."""
    algorithm, _, value = digest.partition(":")
    return layout() / "blobs" / algorithm / value


def blobs_of(manifest_digest: str) -> list[str]:
    """The digests of an image's manifest, configuration and layers."""
    manifest = json.loads(blob(manifest_digest).read_text())
    return [manifest_digest, manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])]


def _remove_unused_blobs(images: list[Image]) -> None:
    used = {blob(digest) for image in images for digest in blobs_of(image.digest)}
    for path in (layout() / "blobs").glob("*/*"):
        if path not in used:
            path.unlink()


def import_image(socket: Path, root: Path, image: Image) -> bool:
    """Bring an image into a containerd over the folder ``root``; False when it holds that very image already."""
    if node_digest(socket, image.name) == image.digest:
        return False
    for _ in range(IMPORT_ATTEMPTS):
        refusal = _import(socket, root, image)
        if not refusal:
            return True
    raise DevclusterError(f"containerd at {socket} did not take {image.name}: {refusal}")


def _import(socket: Path, root: Path, image: Image) -> str:
    """One attempt; what containerd said when it failed, else empty."""
    held = root / CONTENT_STORE
    missing = [digest for digest in blobs_of(image.digest) if not (held / digest.replace(":", "/")).exists()]
    command = [*_ctr(socket), "images", "import", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stdin and process.stderr, "both are pipes"
        try:
            write_archive(process.stdin, image, missing)
            process.stdin.close()
        except BrokenPipeError:
            pass  # ctr ended early: its own message has the cause
        message = process.stderr.read().decode().strip()
    done = process.returncode == 0 and node_digest(socket, image.name) == image.digest
    return "" if done else message or f"ctr ended with {process.returncode}"


def write_archive(stream: IO[bytes], image: Image, digests: list[str]) -> None:
    """Stream an OCI archive of one image with the given blobs only."""
    with tarfile.open(fileobj=stream, mode="w|") as archive:
        _add_file(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add_file(archive, "index.json", _index([image]))
        for digest in digests:
            archive.add(blob(digest), arcname=f"blobs/{digest.replace(':', '/')}")


def remove_others(socket: Path, names: Collection[str]) -> None:
    """Remove all images but these from a containerd."""
    found = shell.run(*_ctr(socket), "images", "list", "--quiet").split()
    if others := sorted(set(found) - set(names)):
        shell.run(*_ctr(socket), "images", "remove", "--sync", *others)


def node_digest(socket: Path, name: str) -> str | None:
    """The manifest digest that a node holds under a name."""
    lines = shell.run(*_ctr(socket), "images", "list", f"name=={name}").splitlines()[1:]
    return lines[0].split()[2] if lines else None


def pause_archive(program: Path, name: str) -> bytes:
    """An image with one file in it: what holds a pod's namespaces open."""
    layer = _archive({"pause": program.read_bytes()}, mode=0o755)
    configuration = json.dumps({
        "architecture": machine.architecture(),
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }).encode()  # fmt: skip
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {"manifest.json": json.dumps(manifest).encode(), "config.json": configuration, "layer.tar": layer}
    return _archive(files, mode=0o644)


def import_archive(socket: Path, archive: bytes) -> None:
    """Bring an image that is small enough to be in memory into a node's containerd."""
    command = [*_ctr(socket), "images", "import", "-"]
    result = subprocess.run(command, input=archive, capture_output=True, check=False)
    if result.returncode != 0:
        raise DevclusterError(f"containerd at {socket} did not take an image: {result.stderr.decode().strip()}")


def _ctr(socket: Path) -> tuple[str, ...]:
    return "ctr", "--address", str(socket), "--namespace", NAMESPACE


def _index(images: list[Image]) -> bytes:
    entries = [
        {
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": image.digest,
            "size": blob(image.digest).stat().st_size,
            "annotations": {REFERENCE_NAME: image.name},
        }
        for image in images
    ]
    return json.dumps({"schemaVersion": 2, "manifests": entries}).encode()


def _archive(files: dict[str, bytes], mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            _add_file(archive, name, content, mode)
    return buffer.getvalue()


def _add_file(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = mode
    archive.addfile(entry, io.BytesIO(content))
