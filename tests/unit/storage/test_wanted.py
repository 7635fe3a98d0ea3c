"""Which manifests a node goes by: those that are what their names say, and that it understands whole."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import zstandard

from colocation.model.table_manifest import manifest_parts, manifest_path
from colocation.storage.root import DataRoot
from colocation.storage.wanted import ManifestShelf

from .tables import data_path, make_table, publish, publish_table, sha256_hex

PATH, OTHER = data_path(0), data_path(1)
TABLE = make_table({PATH: b"12345", OTHER: b"other"})
Change = Callable[[dict[str, Any]], object]


def published(root: DataRoot, change: Change) -> str:
    """The digest of the table's manifest, changed and published under its right name."""
    content = json.loads(manifest_parts(TABLE.stored, TABLE.manifest).text)
    change(content)
    stored = zstandard.compress(json.dumps(content).encode())
    publish(root, TABLE.path, manifest_path(sha256_hex(stored)), stored)
    return sha256_hex(stored)


@pytest.mark.parametrize(
    ("change", "is_understood"),
    [
        pytest.param(lambda manifest: None, True, id="as it was"),
        pytest.param(lambda manifest: manifest.update(formatVersion=99), False, id="of a newer release"),
        pytest.param(lambda manifest: manifest.pop("files"), False, id="without files"),
        pytest.param(lambda manifest: manifest["files"][0].update(bucket=3), False, id="in a bucket unlike its name"),
        pytest.param(lambda manifest: manifest.update(buckets=1), False, id="in a bucket that there is not"),
    ],
)
def test_a_manifest_that_is_not_understood_counts_as_missing(
    root: DataRoot, change: Change, is_understood: bool
) -> None:
    """What it names, and what not, is not known: nothing is garbage by it, and nothing complete."""
    sha256 = published(root, change)
    found = ManifestShelf(root, TABLE.path).wanted(sha256)
    assert (found is not None) is is_understood
    assert found is None or set(found) == {PATH, OTHER}


def test_a_manifest_that_is_too_long_is_not_read(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may have put it there; it would take the agent's memory."""
    publish_table(root, TABLE)
    monkeypatch.setattr("colocation.storage.wanted.MAX_MANIFEST_BYTES", len(TABLE.stored) - 1)
    assert ManifestShelf(root, TABLE.path).wanted(TABLE.manifest) is None


@pytest.mark.parametrize("text", ["", "../../x", "A" * 64, "0" * 63])
def test_what_is_no_digest_names_no_manifest(
    root: DataRoot, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    """A tenant may write anything into a status: it is not looked for, and not said again and again."""
    assert ManifestShelf(root, TABLE.path).wanted(text) is None
    assert caplog.records == []


@pytest.mark.parametrize(
    ("path", "sha256", "live", "is_damaged"),
    [
        pytest.param(PATH, sha256_hex(b"12345"), True, False, id="as its manifest says"),
        pytest.param(PATH, sha256_hex(b"54321"), True, True, id="otherwise"),
        pytest.param(PATH, sha256_hex(b"54321"), False, False, id="otherwise than one that is not live"),
        pytest.param(data_path(2), sha256_hex(b"x"), True, False, id="of no manifest"),
        pytest.param(manifest_path(TABLE.manifest), TABLE.manifest, False, False, id="a manifest of its name"),
        pytest.param(manifest_path(TABLE.manifest), "0" * 64, False, True, id="a manifest of another name"),
    ],
)
def test_what_is_called_damaged(root: DataRoot, path: str, sha256: str, live: bool, is_damaged: bool) -> None:
    """Only by a manifest that the operator calls live, or by a name that says what the content is."""
    publish_table(root, TABLE)
    shelf = ManifestShelf(root, TABLE.path)
    assert shelf.wanted(TABLE.manifest)
    assert shelf.calls_damaged(path, sha256, {TABLE.manifest} if live else set()) is is_damaged
