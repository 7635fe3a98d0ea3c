"""Steps of a fault that fail, for tests."""

from collections.abc import Callable
from typing import Any


def fails(*errors: Exception) -> Callable[..., None]:
    """Raises these, one at each call, and does nothing then."""
    left = list(errors)

    def action(*_words: Any, **_more: Any) -> None:
        if left:
            raise left.pop(0)

    return action


def do_nothing(*_words: Any, **_more: Any) -> None:
    """Succeeds."""
