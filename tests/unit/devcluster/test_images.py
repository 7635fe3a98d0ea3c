"""Image names, the cached layout, and where packages come from."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from devcluster import apt, images, oci
from devcluster.errors import DevclusterError, UsageError


@pytest.mark.parametrize(
    ("given", "full"),
    [
        pytest.param("localhost/app:dev", "localhost/app:dev", id="localhost stays"),
        pytest.param("localhost/app", "localhost/app:latest", id="no tag"),
    ],
)
def test_full_name(given: str, full: str) -> None:
    """Local names are completed by the tag."""
    assert images.full_name(given) == full


@pytest.mark.parametrize("given", ["", " localhost/app", "localhost/app@sha256:00", "team/app:dev", "a.example/app"])
def test_a_name_that_is_none(given: str) -> None:
    """The message names what was given and what is allowed."""
    with pytest.raises(UsageError, match="allowed"):
        images.full_name(given)


def exported_folder(folder: Path, layers: dict[str, bytes], configuration: bytes = b"{}") -> Path:
    """What buildah writes in its `dir:` format."""
    folder.mkdir()
    blobs = {hashlib.sha256(content).hexdigest(): content for content in (configuration, *layers.values())}
    for digest, content in blobs.items():
        (folder / digest).write_bytes(content)
    digests = [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in layers.values()]
    manifest = {
        "config": {"digest": f"sha256:{hashlib.sha256(configuration).hexdigest()}"},
        "layers": [{"digest": digest} for digest in digests],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_images_share_layers_and_old_ones_go(cache: Path) -> None:
    """A rebuilt image replaces its former self; a layer goes when no image uses it."""
    first = oci.adopt(exported_folder(cache / "1", {"base": b"base", "old": b"old"}), "localhost/a:1")
    oci.adopt(exported_folder(cache / "2", {"base": b"base", "other": b"other"}, b"{ }"), "localhost/b:1")
    old_layer = oci.blob(oci.blobs_of(first.digest)[-1])
    assert old_layer.exists()
    second = oci.adopt(exported_folder(cache / "3", {"base": b"base", "new": b"new"}), "localhost/a:1")
    assert not old_layer.exists()
    assert {image.name for image in oci.exported()} == {"localhost/a:1", "localhost/b:1"}
    assert second in oci.exported()
    assert all(oci.blob(digest).exists() for image in oci.exported() for digest in oci.blobs_of(image.digest))


def test_an_archive_holds_only_the_blobs_that_are_asked_for(cache: Path) -> None:
    """A node that holds the lower layers is not sent them again."""
    image = oci.adopt(exported_folder(cache / "1", {"base": b"base", "top": b"top"}), "localhost/a:1")
    wanted = oci.blobs_of(image.digest)[-1:]
    stream = io.BytesIO()
    oci.write_archive(stream, image, wanted)
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        assert archive.getnames() == ["oci-layout", "index.json", f"blobs/{wanted[0].replace(':', '/')}"]
        index = json.load(archive.extractfile("index.json") or io.BytesIO())
    assert index["manifests"][0]["annotations"][oci.REFERENCE_NAME] == "localhost/a:1"


def test_the_pause_image_is_one_program(tmp_path: Path) -> None:
    """Docker's archive format, which containerd takes too."""
    (tmp_path / "pause").write_bytes(b"program")
    content = oci.pause_archive(tmp_path / "pause", "localhost/pause:v1")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert archive.getnames() == ["manifest.json", "config.json", "layer.tar"]
        manifest = json.load(archive.extractfile("manifest.json") or io.BytesIO())
    assert manifest[0]["RepoTags"] == ["localhost/pause:v1"]


SOURCES = """\
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("sources.list.d/debian.sources", SOURCES, id="deb822"),
        pytest.param("sources.list", "deb [arch=amd64] http://mirror.example/debian bookworm main\n", id="one line"),
    ],
)
def test_the_mirror_is_the_machines_own(tmp_path: Path, name: str, text: str) -> None:
    """No mirror is named in the project."""
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / name).write_text(text)
    assert apt.mirror("bookworm", tmp_path) == "http://mirror.example/debian"


def test_a_machine_of_another_release_is_reported(tmp_path: Path) -> None:
    """Its sources lack the suite."""
    (tmp_path / "sources.list").write_text("deb http://mirror.example/debian trixie main\n")
    with pytest.raises(DevclusterError, match="bookworm"):
        apt.mirror("bookworm", tmp_path)


def test_only_settings_of_reachability_are_copied() -> None:
    """Not where the machine keeps its caches."""
    dump = 'Acquire::http::Proxy "http://p:1";\nAcquire::GzipIndexes "true";\nAcquire::Check-Date "false";\n'
    assert apt.acquire_settings(dump) == 'Acquire::http::Proxy "http://p:1";\nAcquire::Check-Date "false";\n'


@pytest.mark.parametrize(("failures", "is_taken"), [(0, True), (1, True), (2, False)])
def test_an_import_whose_layers_were_collected_is_repeated(
    monkeypatch: pytest.MonkeyPatch, failures: int, is_taken: bool
) -> None:
    """Once: containerd collects what the replaced image had, not what is there for another reason."""
    said = ["parent snapshot does not exist"] * failures
    monkeypatch.setattr(oci, "node_digest", lambda *_: "sha256:old")
    monkeypatch.setattr(oci, "_import", lambda *_: said.pop() if said else "")
    image = oci.Image("localhost/app:dev", "sha256:new")
    if is_taken:
        assert oci.import_image(Path("socket"), Path("root"), image)
    else:
        with pytest.raises(DevclusterError, match="did not take localhost/app:dev: parent snapshot does not exist"):
            oci.import_image(Path("socket"), Path("root"), image)
