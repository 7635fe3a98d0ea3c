"""Manifests of many files: the files of each bucket in a frame of their own, each known by its digest."""

import hashlib
import json
import struct

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from colocation.model import table_manifest
from colocation.model.table_manifest import DataFile, TableManifest, decode_manifest, manifest_parts
from tests.support import manifests
from tests.support.manifests import FRAMED_FROM_FILES, compressed, encode_manifest, join_frames
from tests.unit.model.test_manifest_bounds import MANIFEST, decoded

BUCKETS = 4
HEADER = {**MANIFEST.to_json_dict(), "formatVersion": 2}
FRAMED_HEADER_AT = 44


@pytest.fixture(autouse=True)
def from_one_file_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Format 2 for small manifests too."""
    monkeypatch.setattr(manifests, "FRAMED_FROM_FILES", 1)


def file(bucket: int, name: str = "part-1", partition: str | None = None) -> DataFile:
    folder = f"data/dt={partition}" if partition else "data"
    return DataFile(
        path=f"{folder}/{name}_{bucket:05d}.parquet", bucket=bucket, rows=1, bytes=1, sha256="00" * 32,
        partition={"dt": partition},
    )


def frame_of(bucket: int, files: list[DataFile], count: int | None = None) -> tuple[int, int, bytes]:
    text = json.dumps([one.to_json_dict() for one in files]).encode()
    return bucket, len(files) if count is None else count, text


files = st.lists(
    st.builds(file, st.integers(0, BUCKETS - 1), st.uuids().map(str), st.sampled_from(["2024-01-01", "a b", None])),
    min_size=1, unique_by=lambda one: one.path,
)


@given(files)
def test_nothing_is_lost(made: list[DataFile]) -> None:
    """Any files come back, those of a bucket together and sorted."""
    manifest = MANIFEST.model_copy(update={"files": tuple(made)})
    sha256, stored = encode_manifest(manifest)
    expected = tuple(sorted(made, key=lambda one: (one.bucket, one.path)))
    assert decode_manifest(stored, sha256) == manifest.model_copy(update={"files": expected, "format_version": 2})


def test_every_part_is_readable_by_hand() -> None:
    """``zstd -dc`` shows the header and the arrays of files; each frame is where the header has it."""
    sha256, stored = encode_manifest(MANIFEST)
    assert hashlib.sha256(stored).hexdigest() == sha256
    _, content_bytes, header_bytes = struct.unpack("<4sII", stored[:12])
    assert content_bytes + 8 == FRAMED_HEADER_AT
    position = FRAMED_HEADER_AT + header_bytes
    header = json.loads(zstandard.ZstdDecompressor().decompress(stored[FRAMED_HEADER_AT:position]))
    assert "files" not in header
    for frame in header["frames"]:
        content = stored[position : position + frame["bytes"]]
        assert hashlib.sha256(content).hexdigest() == frame["sha256"]
        found = json.loads(zstandard.ZstdDecompressor().decompress(content))
        assert [one["bucket"] for one in found] == [frame["bucket"]]
        position += frame["bytes"]
    assert position == len(stored)


def test_few_files_stay_in_the_format_that_all_readers_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where somebody reads format 1 only, however many files there are."""
    assert encode_manifest(MANIFEST, newest_format=1)[1][:4] == zstandard.FRAME_HEADER
    assert encode_manifest(MANIFEST)[1][:4] != zstandard.FRAME_HEADER
    monkeypatch.setattr(manifests, "FRAMED_FROM_FILES", FRAMED_FROM_FILES)
    assert encode_manifest(MANIFEST)[1][:4] == zstandard.FRAME_HEADER


def test_a_manifest_of_format_2_becomes_one_of_format_1_again() -> None:
    """As when most of a table's files are dropped or merged."""
    manifest = decode_manifest(*reversed(encode_manifest(MANIFEST)))
    assert decode_manifest(*reversed(encode_manifest(manifest, newest_format=1))) == MANIFEST


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param(join_frames(HEADER, [frame_of(1, [file(2)])]), "other files where those of bucket 1", id="bucket"),
        pytest.param(join_frames(HEADER, [frame_of(1, [file(1)], 2)]), "should be, or not 2", id="count"),
        pytest.param(
            join_frames(HEADER, [frame_of(2, [file(2)]), frame_of(1, [file(1)])]), "behind those of 2", id="order"
        ),
        pytest.param(join_frames(HEADER, [frame_of(4, [file(4)])]), "allowed: 0 to 3", id="out of range"),
        pytest.param(join_frames({**HEADER, "formatVersion": 1}, []), "not stored as one of format 1", id="format"),
        pytest.param(join_frames({**HEADER, "formatVersion": 3}, []),
                     "has format 3; this release reads up to 2: use the image", id="newer"),
        pytest.param(join_frames(HEADER, []) + b"more", "4 bytes behind its last frame", id="longer"),
        pytest.param(compressed(json.dumps(HEADER).encode()), "not stored as one of format 2", id="plain"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused(stored: bytes, expected: str) -> None:
    """A wrong bucket would lose rows in joins."""
    with pytest.raises(ValueError, match=expected):
        decoded(stored)


@given(st.data())
def test_one_wrong_byte(data: st.DataObject) -> None:
    """No reader takes it, whether it knows the manifest's name or only the part that it reads."""
    _, stored = encode_manifest(MANIFEST)
    wrong = bytearray(stored)
    wrong[data.draw(st.integers(0, len(stored) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match=r"."):
        decoded(bytes(wrong))


@pytest.mark.parametrize("length", range(0, len(join_frames(HEADER, [frame_of(1, [file(1)])])), 11))
def test_a_manifest_that_was_cut(length: int) -> None:
    """Half of it is not a shorter manifest."""
    with pytest.raises(ValueError, match=r"."):
        decoded(join_frames(HEADER, [frame_of(1, [file(1)])])[:length])


def test_many_small_frames_are_too_large_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is one of all frames."""
    monkeypatch.setattr(table_manifest, "MAX_MANIFEST_BYTES", 1 << 20)
    stored = join_frames(HEADER, [(bucket, 0, b"[" + b" " * (300 << 10) + b"]") for bucket in range(BUCKETS)])
    with pytest.raises(ValueError, match="longer than"):
        list(manifest_parts(stored, hashlib.sha256(stored).hexdigest()).buckets)


def test_the_model_still_shows_format_1() -> None:
    """A new manifest has no format until it is stored."""
    assert TableManifest.model_validate(MANIFEST.to_json_dict()).format_version == 1
