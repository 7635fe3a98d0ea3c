"""Property: for any input a parser raises only its own error, and memory stays bounded."""

import hashlib
import json
import tracemalloc
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from colocation.agent.damage import _LINE, _SUSPICIOUS
from colocation.agent.http_messages import Refusal, byte_range, decoded_segments, file_target, validated
from colocation.agent.inventory_requests import _asked, _revision_of
from colocation.agent.read_requests import request_of
from colocation.model import table_manifest
from colocation.model.agent import (
    AgentReport,
    CollectRequest,
    DamageRequest,
    FilesRequest,
    InventoryRequest,
    RecycleRequest,
    RestoreRequest,
    VerifyRequest,
)
from colocation.model.file_transfer import file_frames, sha256_of_content_digest
from colocation.model.table_manifest import decode_manifest, manifest_parts
from colocation.storage.errors import InvalidPath
from tests.unit.storage.tables import data_path, make_table

BODIES = (CollectRequest, DamageRequest, FilesRequest, InventoryRequest, RecycleRequest, RestoreRequest, VerifyRequest)
VALID = make_table({data_path(0): b"content"})

VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30)


def nested(names: list[str]) -> st.SearchStrategy[Any]:
    """JSON whose objects have these fields, or others."""
    keys = st.sampled_from(names) | st.text(max_size=5)
    return st.recursive(VALUES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6))


def names_of(kind: type[BaseModel]) -> list[str]:
    """Every field's name in JSON, including nested types."""
    schema = kind.model_json_schema(by_alias=True)
    parts = [schema, *schema.get("$defs", {}).values()]
    return sorted({name for part in parts for name in part.get("properties", {})})


def stored(text: bytes) -> tuple[bytes, str]:
    """A manifest of this JSON, and its digest."""
    content = zstandard.ZstdCompressor().compress(text)
    return content, hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_bodies(kind: type[BaseModel], data: st.DataObject) -> None:
    """A body is of its kind, or refused with 400 and a message."""
    body = data.draw(st.binary(max_size=60) | nested(names_of(kind)).map(lambda value: json.dumps(value).encode()))
    try:
        assert isinstance(validated(kind, body), kind)
    except Refusal as refusal:
        assert (refusal.status, refusal.reason) == (400, "InvalidBody")


@given(nested(names_of(InventoryRequest)) | st.binary(max_size=60))
def test_questions(value: Any) -> None:
    """A question, in the current or the old form, or refused."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    try:
        _asked(body)
    except Refusal as refusal:
        assert refusal.status == 400


@given(nested(names_of(AgentReport)) | st.binary(max_size=60))
def test_reports(value: Any) -> None:
    """An agent's answer is a report, or an error."""
    try:
        AgentReport.model_validate_json(value if isinstance(value, bytes) else json.dumps(value).encode())
    except ValidationError as error:
        assert error.error_count()


@given(nested(names_of(table_manifest.TableManifest)))
def test_manifests(value: Any) -> None:
    """A manifest with the right digest and any JSON."""
    try:
        decode_manifest(*stored(json.dumps(value).encode()))
    except ValueError as error:  # pydantic's too
        assert str(error)


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 255))
def test_stored_manifests(noise: bytes, at: int, byte: int) -> None:
    """Bytes that are no zstd frame, and a frame with a changed byte."""
    changed = bytearray(VALID.stored)
    changed[at % len(changed)] = byte
    for content in (noise, bytes(changed), VALID.stored[:at], VALID.stored + noise):
        try:
            decode_manifest(content, hashlib.sha256(content).hexdigest())
        except ValueError as error:
            assert str(error)


@pytest.mark.parametrize("announced", [pytest.param(True, id="announced"), pytest.param(False, id="not announced")])
def test_a_bomb_takes_no_memory(monkeypatch: pytest.MonkeyPatch, announced: bool) -> None:
    """A manifest that decompresses to more than is allowed is refused without holding more than that."""
    monkeypatch.setattr(table_manifest, "MAX_MANIFEST_BYTES", 4 << 20)
    compressor = zstandard.ZstdCompressor(write_content_size=announced)
    if announced:
        bomb = compressor.compress(bytes(64 << 20))
    else:
        streaming = compressor.compressobj()
        bomb = b"".join(streaming.compress(bytes(1 << 20)) for _ in range(64)) + streaming.flush()
    assert len(bomb) < 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="longer than"):
            manifest_parts(bomb, hashlib.sha256(bomb).hexdigest())
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@given(
    st.text(max_size=80)
    | st.lists(st.sampled_from(("..", ".", "%2e", "%00", "%", "ä", "\udcff", "data", ""))).map("/".join)
)
@example("/v1/files/\udc80/x")
def test_targets(target: str) -> None:
    """A target is a path below a table's folder, or refused."""
    try:
        table, path = file_target(decoded_segments(f"/shop/orders-0a1b2c3d/{target}"))
    except (Refusal, InvalidPath) as error:
        assert "allowed" in str(error)
    else:
        assert not {"", ".", ".."} & {*table, *path.split("/")}
        assert "\0" not in path


@given(st.text(max_size=40) | st.from_regex(r"bytes=\d{0,30}-\d{0,30}", fullmatch=True), st.integers(0, 1 << 40))
@example("bytes=0-" + "9" * 5000, 10)
@example("bytes=-" + "9" * 5000, 10)
def test_ranges(header: str, file_bytes: int) -> None:
    """A range is a part of the file that is not empty, or refused."""
    try:
        wanted = byte_range(header, file_bytes)
    except Refusal as refusal:
        assert refusal.status in (400, 416)
    else:
        assert wanted is not None
        assert 0 <= wanted[0] < wanted[1] <= file_bytes


@given(st.text(max_size=80))
@example('"first-' + "9" * 5000 + '"')
def test_digests_and_revisions(header: str) -> None:
    """Headers of digests and revisions."""
    _revision_of(header, "first")
    try:
        assert len(sha256_of_content_digest(header)) == 64
    except ValueError as error:
        assert str(error)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(
    st.lists(st.binary(max_size=60) | nested(["path", "bytes", "error"]).map(lambda v: json.dumps(v).encode() + b"\n"))
)
@example([b'{"path": "x", "bytes": -1}\n'])
@example([b'{"path": "x", "bytes": 99999999999999999999}\n', bytes(100)])
def test_frames(pieces: list[bytes]) -> None:
    """An answer with several files."""
    try:
        for frame in file_frames(pieces):
            assert isinstance(frame.path, str)
    except ValueError as error:
        assert str(error)


@given(st.text(max_size=200))
def test_lines_of_the_front(line: str) -> None:
    """Its log quotes client input."""
    match = _LINE.fullmatch(line)
    if match is not None:
        _SUSPICIOUS.match(match["message"])


@given(st.binary(max_size=100).filter(lambda value: b"\r" not in value and b"\n" not in value))
def test_heads_of_reads(value: bytes) -> None:
    """The front writes the lines; the values are the client's."""
    request = request_of(b"GET /x HTTP/1.1\r\nAuthorization: " + value)
    assert request.headers["Authorization"].encode("utf-8", "surrogateescape") == value
    assert (request.method, request.raw_target) == ("GET", "/x")
