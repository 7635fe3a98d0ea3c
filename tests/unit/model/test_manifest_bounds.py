"""Anybody may have put a manifest there: reading one takes bounded memory, and ends in a manifest or in words."""

import hashlib
import json
import tempfile
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from colocation.model import table_manifest
from colocation.model.table import Column
from colocation.model.table_manifest import DataFile, TableManifest, decode_manifest, manifest_parts
from colocation.storage import wanted
from colocation.storage.wanted import WantedFiles
from tests.support.manifests import encode_manifest, join_frames

MANIFEST = TableManifest(
    namespace="shop",
    table="orders",
    uid="0a1b2c3d",
    snapshot_id=1,
    columns=(Column(name="key", type="bigint"),),
    bucketed_by=("key",),
    buckets=4,
    files=tuple(
        DataFile(path=f"data/part-1_{bucket:05d}.parquet", bucket=bucket, rows=1, bytes=1, sha256="00" * 32)
        for bucket in range(4)
    ),
)
SHA256, STORED = encode_manifest(MANIFEST)
HUGE_FRAME = bytes.fromhex("28b52ffde0ffffffffffffff0f010000")
"""Sixteen bytes that announce 2^60 (T2: reading them raised MemoryError)."""


def plain(**changes: object) -> bytes:
    """The manifest in format 1, with other fields than it has."""
    return zstandard.compress(json.dumps({**MANIFEST.to_json_dict(), **changes}).encode())


def wanted_in(stored: bytes) -> WantedFiles:
    """The same as an agent reads it."""
    with tempfile.TemporaryFile() as file:
        file.write(stored)
        file.seek(0)
        return wanted._decoded(file.fileno(), len(stored), hashlib.sha256(stored).hexdigest())


def decoded(stored: bytes) -> TableManifest:
    """The manifest in these bytes, under their right name."""
    return decode_manifest(stored, hashlib.sha256(stored).hexdigest())


def test_a_frame_that_announces_more_than_there_is_room_for() -> None:
    """It is refused before anything is taken."""
    assert zstandard.frame_content_size(HUGE_FRAME) > 1 << 59
    with pytest.raises(ValueError, match="longer than 134217728 bytes"):
        decoded(HUGE_FRAME)


@pytest.mark.parametrize("announces", [True, False], ids=["announced", "not announced"])
def test_few_bytes_that_become_many(monkeypatch: pytest.MonkeyPatch, announces: bool) -> None:
    """Reading ends at the limit, whatever would follow."""
    monkeypatch.setattr(table_manifest, "MAX_MANIFEST_BYTES", 4 << 20)
    stored = zstandard.ZstdCompressor(write_content_size=announces).compress(bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(ValueError, match="longer than"):
        decoded(stored)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 24 << 20


@pytest.mark.parametrize("announces", [True, False], ids=["announced", "not announced"])
def test_a_manifest_that_does_not_announce_its_length_is_read_too(announces: bool) -> None:
    """Other writers of zstd leave it out."""
    text = MANIFEST.model_dump_json(by_alias=True).encode()
    assert decoded(zstandard.ZstdCompressor(write_content_size=announces).compress(text)) == MANIFEST


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: b"\x28\xb5\x2f\xfd" + tail))
def test_any_bytes_end_in_words(stored: bytes) -> None:
    """Nothing but ValueError comes of what is no manifest."""
    with pytest.raises(ValueError, match=r"."):
        decoded(stored)


@given(st.integers(0, len(STORED) - 1), st.integers(1, 255))
def test_a_manifest_with_one_wrong_byte(position: int, flip: int) -> None:
    """Under its own name it is refused; under the name of the wrong bytes it is refused or reads as some manifest."""
    wrong = bytearray(STORED)
    wrong[position] ^= flip
    with pytest.raises(ValueError, match="has the content of"):
        decode_manifest(bytes(wrong), SHA256)
    try:
        decoded(bytes(wrong))
    except ValueError as error:
        assert str(error)


@given(st.binary(max_size=200))
def test_any_text_that_is_compressed_ends_in_words(text: bytes) -> None:
    """What is read is the text; it is no manifest."""
    stored = zstandard.ZstdCompressor().compress(text)
    sha256 = hashlib.sha256(stored).hexdigest()
    assert manifest_parts(stored, sha256).text == text
    with pytest.raises(ValueError, match=r"."):
        decode_manifest(stored, sha256)


ONE_FILE = MANIFEST.files[0].to_json_dict()
HEADER = {**MANIFEST.to_json_dict(), "formatVersion": 2}


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param(plain(buckets=65537), "buckets is 65537; allowed: 1 to 65536", id="buckets"),
        pytest.param(plain(buckets=0, files=[]), "buckets is 0; allowed: 1 to 65536", id="no bucket"),
        pytest.param(plain(files=[ONE_FILE] * 6), "names 6 files; allowed: 5", id="files"),
        pytest.param(
            join_frames(HEADER, [(bucket, 3, json.dumps([{**ONE_FILE, "bucket": bucket}] * 3).encode())
                                 for bucket in range(2)]),
            "names 6 files; allowed: 5", id="files in frames",
        ),
        pytest.param(plain(more=[{}] * 400), "objects and lists", id="superfluous objects"),
        pytest.param(plain(more=[1] * 4000), "values; allowed", id="superfluous values"),
        pytest.param(
            join_frames({**HEADER, "more": [[]] * 400}, []), "objects and lists", id="lists in the header"
        ),
        pytest.param(
            join_frames(HEADER, [(0, 1, json.dumps([{**ONE_FILE, "more": [[]] * 400}]).encode())]),
            "objects and lists", id="lists in a frame",
        ),
    ],
)  # fmt: skip
def test_more_than_any_table_has(monkeypatch: pytest.MonkeyPatch, stored: bytes, expected: str) -> None:
    """Few bytes can name very much: of a manifest of 1.7 MB an agent took 1 GiB, and of 600,000 buckets it sent more
    than the operator reads, so that its node was silent for everybody.
    """
    monkeypatch.setattr(table_manifest, "MAX_MANIFEST_FILES", 5)
    monkeypatch.setattr(table_manifest, "_MAX_JSON_NODES", 100)
    monkeypatch.setattr(table_manifest, "_MAX_JSON_VALUES", 3000)
    with pytest.raises(ValueError, match=expected):
        decoded(stored)
    with pytest.raises(ValueError, match=expected):
        wanted_in(stored)


@pytest.mark.parametrize("length", range(0, len(STORED), 7))
def test_a_manifest_that_was_cut(length: int) -> None:
    """Half a frame is not a shorter manifest."""
    with pytest.raises(ValueError, match=r"."):
        decoded(STORED[:length])
