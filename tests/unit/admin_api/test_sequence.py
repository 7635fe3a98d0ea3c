"""Bucket sequences that are sent: what is understood, and what is answered to the rest."""

import pytest

from colocation.admin_api.errors import Refusal
from colocation.admin_api.sequence import check_sequence, parsed_sequence

from .scenes import group_body, last_pass


def test_names_are_taken_as_they_are_and_numbers_for_names() -> None:
    """Doris' and StarRocks' backends are numbers."""
    assert parsed_sequence(b'[["node-1", 10004], []]') == (("node-1", "10004"), ())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"", "not JSON", id="nothing"),
        pytest.param(b"\xff[[", "not JSON", id="no text"),
        pytest.param(b"[" * 100_000, "not JSON", id="deep"),
        pytest.param(b"{}", "it is an object", id="object"),
        pytest.param(b"null", "it is null", id="null"),
        pytest.param(b'["node-1"]', "bucket 0 is a string", id="flat"),
        pytest.param(b'[["node-1"], 3]', "bucket 1 is a number", id="number for a bucket"),
        pytest.param(b'[["node-1", true]]', "bucket 0 holds a boolean", id="boolean for a node"),
        pytest.param(b'[["node-1", 1.5]]', "bucket 0 holds a number", id="fraction for a node"),
        pytest.param(b'[["node-1", ["node-2"]]]', "bucket 0 holds an array", id="array for a node"),
    ],
)
def test_what_is_no_sequence(body: bytes, message: str) -> None:
    """400, saying what was given and what is expected."""
    with pytest.raises(Refusal) as refused:
        parsed_sequence(body)
    assert (refused.value.status, refused.value.reason) == (400, "InvalidBody")
    assert message in refused.value.message and '[["node-1", "node-2"]' in refused.value.message


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        pytest.param((("node-1", "node-2"),), "Invalid bucket num. expected: 2, actual: 1", id="buckets"),
        pytest.param(
            (("node-1", "node-2"), ("node-1",)), "Invalid backend num per bucket. expected: 2, actual: 1", id="replicas"
        ),
        pytest.param(
            (("node-1", "node-2"), ("node-1", "node-4")),
            "The backend node-4 does not exist or not available", id="unknown node",
        ),
    ],
)  # fmt: skip
def test_what_the_group_cannot_follow(rows: tuple[tuple[str, ...], ...], message: str) -> None:
    """In Doris' and StarRocks' words, by the planner's own check."""
    with pytest.raises(Refusal) as refused:
        check_sequence(last_pass(group_body()), "shop", "sales", rows)
    assert (refused.value.status, refused.value.reason, refused.value.message) == (
        400, "InvalidBucketSequence", message,
    )  # fmt: skip


def test_good_sequence_of_a_known_group() -> None:
    """Accepted; for a group that no pass has seen yet the caller is asked to come back."""
    rows = (("node-1", "node-3"), ("node-2", "node-3"))
    check_sequence(last_pass(group_body()), "shop", "sales", rows)
    with pytest.raises(Refusal) as refused:
        check_sequence(last_pass(group_body()), "shop", "young", rows)
    assert refused.value.status == 503
