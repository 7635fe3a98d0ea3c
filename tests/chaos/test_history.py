"""A history on disk is the one that was given, also when its runner was killed."""

import threading
from pathlib import Path

import pytest

from .history import History, read


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Every event, with its details."""
    history = History(tmp_path / "h.jsonl")
    number = history.invoke("work", "append", table="t", parts=[0, 1])
    history.note("work", "ok", "append", number, snapshot=3)
    history.close()
    assert read(tmp_path / "h.jsonl") == history.events
    assert [event.number for event in history.events] == [1, 1]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    """The runner was killed while it wrote; any other line that is no event is an error."""
    history = History(tmp_path / "h.jsonl")
    history.note("watch", "seen", "groups")
    history.close()
    text = (tmp_path / "h.jsonl").read_text()
    (tmp_path / "h.jsonl").write_text(text + text[:20])
    assert read(tmp_path / "h.jsonl") == history.events
    (tmp_path / "h.jsonl").write_text(text[:20] + "\n" + text)
    with pytest.raises(ValueError, match="line 1"):
        read(tmp_path / "h.jsonl")


def test_threads_get_numbers_of_their_own() -> None:
    """Of 200 operations at once, none shares a number."""
    history = History()
    threads = [threading.Thread(target=lambda: history.invoke("work", "append")) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({event.number for event in history.events}) == 200
