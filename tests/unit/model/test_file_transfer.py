"""Several files as one stream: whatever pieces it arrives in, the same files come out, or an error."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.model.agent import MAX_BYTES_AT_ONCE
from colocation.model.file_transfer import (
    MAX_LINE_BYTES,
    FileFrame,
    content_frame,
    failure_frame,
    file_frames,
)

FRAMES = st.lists(
    st.one_of(
        st.builds(FileFrame, st.text(max_size=20), st.binary(max_size=200), st.just("")),
        st.builds(FileFrame, st.text(max_size=20), st.just(b""), st.just("NotFound: no such file")),
    ),
    max_size=8,
)


def stream_of(frames: list[FileFrame]) -> bytes:
    """The frames as the agent sends them."""
    return b"".join(
        failure_frame(path, *failure.split(": ")) if failure else content_frame(path, content)
        for path, content, failure in frames
    )


def pieces_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    """The stream, cut at these places."""
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[start:end] for start, end in itertools.pairwise(places)]


@given(FRAMES, st.lists(st.integers(min_value=0), max_size=20))
def test_the_same_files_come_out_of_any_pieces(frames: list[FileFrame], cuts: list[int]) -> None:
    """How the network cuts the stream makes no difference."""
    assert list(file_frames(pieces_of(stream_of(frames), cuts))) == frames


@given(FRAMES.filter(bool), st.integers(min_value=1))
def test_a_stream_that_ends_early_is_an_error(frames: list[FileFrame], cut: int) -> None:
    """Cut anywhere but between two frames, it raises, and gives only files that are whole."""
    stream = stream_of(frames)
    ends = [len(stream_of(frames[:count])) for count in range(len(frames) + 1)]
    length = cut % len(stream)
    given_frames = []
    try:
        for frame in file_frames([stream[:length]]):
            given_frames.append(frame)
        assert length in ends
    except ValueError:
        assert length not in ends
    assert given_frames == frames[: len(given_frames)]


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(b"x" * (MAX_LINE_BYTES + 1), id="a line without an end"),
        pytest.param(b"{}\n", id="no path"),
        pytest.param(b"[]\n", id="no object"),
        pytest.param(b"\xff\n", id="no text"),
        pytest.param(b'{"path": "a", "bytes": -1}\n', id="less than nothing"),
        pytest.param(b'{"path": "a", "bytes": "1"}\n', id="no number"),
        pytest.param(b'{"path": "a", "bytes": %d}\n' % (MAX_BYTES_AT_ONCE + 1), id="too much for memory"),
    ],
)
def test_refuses_what_is_no_stream_of_files(stream: bytes) -> None:
    """What another node sends is bounded before it is kept."""
    with pytest.raises(ValueError):
        list(file_frames([stream]))
