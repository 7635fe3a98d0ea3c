"""Which manifests a node uses: those that match their name, are understood completely, and find memory."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from colocation.model.table_manifest import manifest_parts, manifest_path
from colocation.storage import wanted
from colocation.storage.memory_limits import BYTES_OF_A_FILE, SHARES, ManifestRoom
from colocation.storage.root import DataRoot
from colocation.storage.table_inventory import TableInventory
from colocation.storage.wanted import ManifestCache, files_of_bucket
from tests.support.manifests import compressed, join_frames

from .tables import damage, data_path, make_table, on_disk, publish, publish_table, sha256_hex

PATH, OTHER = data_path(0), data_path(1)
TABLE = make_table({PATH: b"12345", OTHER: b"other"})
Change = Callable[[dict[str, Any]], object]


def published(root: DataRoot, change: Change) -> str:
    """Publish the table's manifest, changed, under its right name; returns the digest."""
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
        pytest.param(lambda manifest: manifest.update(buckets=1), False, id="in a bucket that does not exist"),
    ],
)
def test_a_manifest_that_is_not_understood_counts_as_missing(
    root: DataRoot, change: Change, is_understood: bool
) -> None:
    """Its files are unknown: nothing is garbage or complete because of it."""
    sha256 = published(root, change)
    found = ManifestCache(root, TABLE.path).wanted(sha256)
    assert (found is not None) is is_understood
    assert found is None or set(found) == {PATH, OTHER}


@pytest.mark.parametrize("is_framed", [True, False], ids=["format 2", "format 1"])
def test_the_files_of_one_bucket(root: DataRoot, is_framed: bool) -> None:
    """Of a manifest of format 2 no other bucket's files are read: here they are unreadable."""
    content = json.loads(manifest_parts(TABLE.stored, TABLE.manifest).text)
    files, stored = content["files"], TABLE.stored
    if is_framed:
        header = {key: value for key, value in content.items() if key != "files"} | {"formatVersion": 2}
        texts = [json.dumps([file for file in files if file["bucket"] == 0]).encode(), b"x" * 1000]
        stored = join_frames(header, [(bucket, 1, text) for bucket, text in enumerate(texts)])
    sha256 = sha256_hex(stored)
    publish(root, TABLE.path, manifest_path(sha256), stored)
    assert [file.path for file in files_of_bucket(root, TABLE.path, sha256, 0) or ()] == [PATH]
    assert files_of_bucket(root, TABLE.path, sha256, 3) == []
    on_disk(root, TABLE.path, manifest_path(sha256)).write_bytes(stored + compressed(b"more"))
    assert files_of_bucket(root, TABLE.path, sha256, 0) is None
    assert files_of_bucket(root, TABLE.path, "0" * 64, 0) is None


def test_a_manifest_that_is_too_long_is_not_read(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any loader may have put it there; it would take the agent's memory."""
    publish_table(root, TABLE)
    for most, is_read in ((len(TABLE.stored), True), (len(TABLE.stored) - 1, False)):
        monkeypatch.setattr("colocation.storage.wanted.MAX_MANIFEST_BYTES", most)
        assert (ManifestCache(root, TABLE.path).wanted(TABLE.manifest) is not None) is is_read


def reads_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects the manifests that are read from now on."""
    read: list[str] = []
    decode = wanted._decoded
    monkeypatch.setattr(wanted, "_decoded", lambda *given: (read.append(given[2]), decode(*given))[1])
    return read


def test_a_manifest_that_is_not_understood_is_read_once(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread makes all reports, and a tenant's manifest must not keep it busy."""
    sha256 = published(root, lambda manifest: manifest.pop("files"))
    read, manifests = reads_of(monkeypatch), ManifestCache(root, TABLE.path)
    assert [manifests.wanted(sha256) for _ in range(3)] == [None] * 3
    assert read == [sha256]


@pytest.mark.parametrize(("names", "room"), [(1, None), (1, 1), (3, 3), (3, 2)])
def test_a_manifest_is_read_once(
    root: DataRoot, monkeypatch: pytest.MonkeyPatch, names: int, room: int | None
) -> None:
    """Also one that finds no room; it is read again when there is some."""
    memory = ManifestRoom(None if room is None else room * BYTES_OF_A_FILE)
    table = make_table({data_path(bucket): b"x" for bucket in range(names)})
    publish(root, table.path, manifest_path(table.manifest), table.stored)
    read, manifests = reads_of(monkeypatch), ManifestCache(root, table.path, memory)
    assert [manifests.wanted(table.manifest) is not None for _ in range(3)] == [room != 2] * 3
    assert read == [table.manifest]


@pytest.mark.parametrize(
    "change", [pytest.param(lambda path: path.unlink(), id="gone"), pytest.param(damage, id="damaged")]
)
def test_a_manifest_that_is_lost_is_forgotten(root: DataRoot, change: Callable[[Path], object]) -> None:
    """It takes no room, and what it named is unknown, also after it was lost many times."""
    memory = ManifestRoom(3 * BYTES_OF_A_FILE)
    manifests = ManifestCache(root, TABLE.path, memory)
    manifests.keep({TABLE.manifest})
    for _ in range(3):
        publish_table(root, TABLE)
        assert manifests.wanted(TABLE.manifest) is not None
        assert (manifests.expected_sha256(PATH), memory.has("lake", 2)) == (sha256_hex(b"12345"), False)
        change(on_disk(root, TABLE.path, manifest_path(TABLE.manifest)))
        assert manifests.wanted(TABLE.manifest) is None
        assert (manifests.expected_sha256(PATH), manifests.live_digests(PATH)) == (None, None)
        assert (memory.has("lake", 3), memory.has("lake", 4)) == (True, False)


def test_manifests_that_are_not_live_make_room(root: DataRoot) -> None:
    """A load's manifest stays until memory is needed: here there is room for one."""
    manifests = ManifestCache(root, TABLE.path, ManifestRoom(2 * BYTES_OF_A_FILE))
    first, second = (published(root, lambda one, number=number: one.update(snapshotId=number)) for number in (1, 2))
    for sha256 in (first, second, first):
        assert manifests.wanted(sha256) is not None
        manifests.keep(())
        assert [one for one in (first, second) if one in manifests] == [sha256]


def test_the_live_manifest_that_was_used_last_counts(root: DataRoot) -> None:
    """The question asks for the newest; retained ones may differ while a rolled back load is repeated."""
    tables = [make_table({PATH: content}, snapshot=number) for number, content in enumerate((b"one", b"two"))]
    for table in tables:
        publish(root, table.path, manifest_path(table.manifest), table.stored)
    manifests = ManifestCache(root, TABLE.path)
    manifests.keep({table.manifest for table in tables})
    for table in (*tables, *tables):
        assert manifests.wanted(table.manifest)
        assert manifests.expected_sha256(PATH) == sha256_hex(table.contents[PATH])
    manifests.clear()
    assert manifests.expected_sha256(PATH) is None


def test_only_live_manifests_and_the_newest_others_stay_in_memory(root: DataRoot) -> None:
    """A loader can have any number of them verified, also in folders of no table."""
    manifests = ManifestCache(root, TABLE.path)
    made = [published(root, lambda manifest, number=number: manifest.update(snapshotId=number)) for number in range(9)]
    manifests.keep(made[:2])
    assert all(manifests.wanted(sha256) for sha256 in made)
    for _ in range(2):
        assert [sha256 for sha256 in made if sha256 in manifests] == [*made[:2], *made[-wanted.SPARE_MANIFESTS :]]
        manifests.keep(made[:2])


def test_one_namespace_does_not_take_the_memory_of_all(root: DataRoot, caplog: pytest.LogCaptureFixture) -> None:
    """A manifest without room counts as missing, and is read once there is room; a small namespace always has some."""
    memory = ManifestRoom(2 * SHARES * BYTES_OF_A_FILE)  # 32 files; 2 of them for any namespace
    large, more = (
        make_table({data_path(number % 4, load=str(number)): b"x" for number in range(files)}, name, "greedy")
        for name, files in (("large", 32), ("more", 4))
    )
    small = make_table({PATH: b"12345", OTHER: b"other"}, "small")
    shelves = {}
    for table in (large, more, small):
        publish(root, table.path, manifest_path(table.manifest), table.stored)
        shelves[table.path.table] = ManifestCache(root, table.path, memory)
    assert len(shelves["large"].wanted(large.manifest)) == 32
    assert shelves["more"].wanted(more.manifest) is None
    assert "names 4 files, for which this agent has no memory left" in caplog.text
    assert len(shelves["small"].wanted(small.manifest)) == 2
    shelves["more"].clear()
    assert shelves["more"].wanted(more.manifest) is None
    shelves["large"].clear()
    assert len(shelves["more"].wanted(more.manifest)) == 4


def test_memory_is_released(root: DataRoot) -> None:
    """Of a table that is gone, and of verified manifests once a commit is live (a nightly job that re-creates its
    tables had filled the room within days).
    """
    memory = ManifestRoom(6 * BYTES_OF_A_FILE)
    for number in range(4):
        table = make_table({data_path(bucket): b"x" for bucket in range(4)}, f"t{number}")
        publish(root, table.path, manifest_path(table.manifest), table.stored)
        inventory = TableInventory(root, table.path, memory)
        assert inventory.wanted(table.manifest) is not None
        inventory.close()
        assert inventory.wanted(table.manifest) is None
    manifests = ManifestCache(root, TABLE.path, ManifestRoom(5 * BYTES_OF_A_FILE))
    made = [published(root, lambda manifest, number=number: manifest.update(snapshotId=number)) for number in range(4)]
    for sha256 in made:
        assert manifests.wanted(sha256) is not None
        manifests.keep({sha256})
        assert [one for one in made if one in manifests] == [sha256]


@pytest.mark.parametrize("text", ["", "../../x", "A" * 64, "0" * 63])
def test_a_wrong_digest_names_no_manifest(
    root: DataRoot, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    """A tenant may write anything into a status: it is not looked up, and not logged again and again."""
    assert ManifestCache(root, TABLE.path).wanted(text) is None
    assert caplog.records == []


@pytest.mark.parametrize(
    ("path", "sha256", "live", "is_damaged"),
    [
        pytest.param(PATH, sha256_hex(b"12345"), True, False, id="the content of its manifest"),
        pytest.param(PATH, sha256_hex(b"54321"), True, True, id="otherwise"),
        pytest.param(PATH, sha256_hex(b"54321"), False, False, id="unlike a manifest that is not live"),
        pytest.param(data_path(2), sha256_hex(b"x"), True, False, id="of no manifest"),
        pytest.param(manifest_path(TABLE.manifest), TABLE.manifest, False, False, id="a manifest of its name"),
        pytest.param(manifest_path(TABLE.manifest), "0" * 64, False, True, id="a manifest of another name"),
    ],
)
def test_when_a_file_is_damaged(root: DataRoot, path: str, sha256: str, live: bool, is_damaged: bool) -> None:
    """Only by a manifest that the operator calls live, or by a name that is a digest."""
    publish_table(root, TABLE)
    manifests = ManifestCache(root, TABLE.path)
    manifests.keep({TABLE.manifest} if live else set())
    assert manifests.wanted(TABLE.manifest)
    assert manifests.calls_damaged(path, sha256) is is_damaged


def test_a_live_manifest_that_is_not_held_may_name_any_file(root: DataRoot) -> None:
    """What it wants is unknown, so nothing in the quarantine counts as needless."""
    publish_table(root, TABLE)
    manifests = ManifestCache(root, TABLE.path)
    for live, known in (({TABLE.manifest}, True), ({TABLE.manifest, "f" * 64}, False)):
        manifests.keep(live)
        assert [manifests.wanted(sha256) is not None for sha256 in sorted(live)].count(True) == 1
        assert (manifests.live_digests("data/bucket=00009/none.parquet") == frozenset()) is known
    assert [manifests.live_digests(manifest_path(one)) for one in ("f" * 64, "e" * 64)] == [{"f" * 64}, frozenset()]


def test_a_manifest_that_is_not_live_defines_no_content(root: DataRoot) -> None:
    """An account that may only put files can put and verify a manifest, too; others' files stay as they are."""
    publish_table(root, TABLE)
    manifests = ManifestCache(root, TABLE.path)
    manifests.keep({TABLE.manifest})
    foreign = make_table({PATH: b"foreign", data_path(2): b"new"}, snapshot=2)
    publish(root, TABLE.path, manifest_path(foreign.manifest), foreign.stored)
    assert manifests.wanted(TABLE.manifest) and manifests.wanted(foreign.manifest)
    assert manifests.expected_sha256(PATH) == sha256_hex(b"12345")
    assert manifests.expected_sha256(data_path(2)) is None
    assert manifests.calls_damaged(PATH, sha256_hex(b"foreign"))
    manifests.keep({foreign.manifest})
    assert manifests.expected_sha256(data_path(2)) == sha256_hex(b"new")
