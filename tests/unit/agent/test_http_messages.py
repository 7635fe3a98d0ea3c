"""Targets and ranges of requests, and what is refused before the disk is touched."""

import pytest

from colocation.agent.http_messages import Refusal, byte_range, decoded_segments, file_target
from colocation.storage.errors import InvalidPath


@pytest.mark.parametrize(
    ("raw_target", "segments"),
    [
        pytest.param("/v1/files/shop", ("v1", "files", "shop"), id="plain"),
        pytest.param("/v1/files?bucket=1/2", ("v1", "files"), id="the query is no part of it"),
        pytest.param("/data/a%3D1", ("data", "a=1"), id="encoded"),
        pytest.param("/data/a=b%252Fc", ("data", "a=b%2Fc"), id="decoded once"),
        pytest.param("/data/gr%C3%B6%C3%9Fe", ("data", "größe"), id="UTF-8"),
        pytest.param("/data/..a", ("data", "..a"), id="dots in a name"),
    ],
)
def test_a_target_is_decoded_once_per_segment(raw_target: str, segments: tuple[str, ...]) -> None:
    """The escapes inside a partition's value stay."""
    assert decoded_segments(raw_target) == segments


@pytest.mark.parametrize(
    "segment",
    ["", ".", "..", "%2E%2e", "a%2Fb", "a%00", "%", "a%2", "%zz", "%25%", "%ff", "%C0%AE"],
)
def test_a_segment_that_could_lead_elsewhere_is_refused(segment: str) -> None:
    """Empty, dots, a slash or NUL inside, a wrong encoding: the next decoder may read it differently."""
    with pytest.raises(Refusal) as refused:
        decoded_segments(f"/v1/files/{segment}/x")
    assert (refused.value.status, refused.value.reason) == (400, "InvalidPath")


@pytest.mark.parametrize(
    "segments",
    [(), ("passwd",), ("shop", "orders-0a1b2c3d"), ("shop", "orders", "data"), ("shop", "orders-0a1b2c3d", "x")],
)
def test_targets_that_name_no_file_are_refused(segments: tuple[str, ...]) -> None:
    """Too short, or a part that is not allowed."""
    with pytest.raises(InvalidPath, match="is not allowed; allowed: "):
        file_target(segments)


@pytest.mark.parametrize(
    ("header", "found"),
    [
        pytest.param(None, None, id="none"),
        pytest.param("bytes=0-9", (0, 10), id="all"),
        pytest.param("bytes=2-4", (2, 5), id="a part"),
        pytest.param("bytes=2-", (2, 10), id="the rest"),
        pytest.param("bytes=-3", (7, 10), id="the end"),
        pytest.param("bytes=-30", (0, 10), id="more than there is, from the end"),
        pytest.param("bytes=9-10000", (9, 10), id="cut to the file"),
        pytest.param("bytes=10-", 416, id="past the end"),
        pytest.param("bytes=4-2", 416, id="backwards"),
        pytest.param("bytes=-0", 416, id="nothing"),
        pytest.param("bytes=-", 400, id="neither end"),
        pytest.param("bytes=0-1,3-4", 400, id="two"),
        pytest.param("lines=0-1", 400, id="not of bytes"),
    ],
)
def test_range_of_a_file_of_ten_bytes(header: str | None, found: object) -> None:
    """(start, end), the end excluded; or the status of the refusal."""
    try:
        assert byte_range(header, 10) == found
    except Refusal as refusal:
        assert refusal.status == found
