"""Remembers what the last decision found, so that a part whose view is unchanged is not decided again.

Invariant (tests/property/test_memo.py): a decision with a memo equals one without. A part reads nothing but its view, a
frozen record; of the clock the view holds the answers to the questions that the part asks of it.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

View = TypeVar("View")
Found = TypeVar("Found")


class Memo:
    """Results by name, each with the view that it was found from."""

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[object, Any]] = {}
        self._now: dict[Hashable, tuple[object, Any]] = {}

    def begin(self) -> None:
        """Begin a decision, and forget what the one before did not need."""
        self._last, self._now = self._now, {}

    def branch(self) -> "Memo":
        """A memo for a decision about something a little different: it starts with these results and leaves them as
        they are.
        """
        branch = Memo()
        branch._last = self._now
        return branch

    def of(
        self,
        name: Hashable,
        view: View,
        find: Callable[[View], Found],
        is_lasting: Callable[[Found], bool] | None = None,
    ) -> Found:
        """What ``find`` finds from the view; the result of before if the view equals that of before.

        ``is_lasting``: whether a result may be used again; one that depends on the clock may not.
        """
        known = self._last.get(name)
        if known is None or known[0] != view:
            known = view, find(view)
        found: Found = known[1]
        if is_lasting is None or is_lasting(found):
            self._now[name] = known
        return found

    def same(self, name: Hashable, view: View) -> View:
        """The view, or the equal one of before: what was found from that one need not be compared again."""
        known = self._last.get(name)
        if known is None or known[0] != view:
            known = view, view
        self._now[name] = known
        kept: View = known[1]
        return kept

    def keep(self, name: Hashable, found: object) -> None:
        """Remember a result that was made from the one before."""
        self._now[name] = None, found

    def last(self, name: Hashable) -> Any:
        """The result of this name in the decision before; None = there was none."""
        known = self._last.get(name)
        return None if known is None else known[1]
