"""Counts and lists in messages: one of a thing is no plural, and long lists are cut."""

import pytest

from colocation.model.wording import counted, first_few, in_words, listed


@pytest.mark.parametrize(("count", "text", "verb"), [(0, "0 buckets", "are"), (1, "1 bucket", "is"),
                                                     (2, "2 buckets", "are")])  # fmt: skip
def test_a_count_agrees_with_its_noun(count: int, text: str, verb: str) -> None:
    """Also where the plural is no -s."""
    assert counted(count, "bucket") == text
    assert counted(count, "bucket is", "buckets are") == f"{text} {verb}"


@pytest.mark.parametrize(("count", "text"), [
    (0, ""), (1, "0"), (3, "0, 1, 2"), (4, "0, 1, 2 and 1 more"), (5, "0, 1, 2 and 2 more"),
])  # fmt: skip
def test_lists_are_short(count: int, text: str) -> None:
    """Of buckets and nodes."""
    assert listed(range(count), 3) == text


@pytest.mark.parametrize(("count", "parts"), [
    (0, []), (2, ["0", "1"]), (3, ["0", "1", "and 1 more"]), (5, ["0", "1", "and 3 more"]),
])  # fmt: skip
def test_the_first_few_parts(count: int, parts: list[str]) -> None:
    """Joined as the message needs it."""
    assert first_few([str(number) for number in range(count)], 2) == parts
    assert first_few(["a", "b"], 1, lambda more: counted(more, "more group")) == ["a", "and 1 more group"]


@pytest.mark.parametrize(("error", "text"), [(ValueError("too long"), "too long"), (TimeoutError(), "TimeoutError")])
def test_errors_without_a_text_give_their_kind(error: Exception, text: str) -> None:
    """As time-outs do."""
    assert in_words(error) == text
