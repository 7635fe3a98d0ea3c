"""What the parts of the last decision found, and from what: a part whose inputs are the same is not decided again.

Invariant (tests/property/test_memo.py): a decision with the memo of any earlier ones equals a decision without. A part
states all that it reads as ``inputs``, the clock only as the answer to the one question that it asks of it.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Found = TypeVar("Found")
Inputs = tuple[object, ...]


class Memo:
    """Results by name, with their inputs. Inputs are compared by identity first, so equal ones cost next to nothing."""

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[Inputs, Any]] = {}
        self._now: dict[Hashable, tuple[Inputs, Any]] = {}

    def begin(self) -> None:
        """A decision begins: what the one before did not need is forgotten."""
        self._last, self._now = self._now, {}

    def branch(self) -> "Memo":
        """For a decision about something a little different: begins with what this one has found, and changes nothing
        of it.
        """
        branch = Memo()
        branch._last = self._now
        return branch

    def of(
        self,
        name: Hashable,
        inputs: Inputs,
        find: Callable[[], Found],
        is_lasting: Callable[[Found], bool] = lambda _: True,
    ) -> Found:
        """The result of this name: the one found before from equal inputs, or else what ``find`` finds.

        ``is_lasting``: whether a result may be used again; one that the clock had a part in may not.
        """
        known = self._last.get(name)
        if known is None or known[0] != inputs:
            known = inputs, find()
        found: Found = known[1]
        if is_lasting(found):
            self._now[name] = known
        return found

    def keep(self, name: Hashable, found: object) -> None:
        """Remember a result that was made from the one before."""
        self._now[name] = (), found

    def last(self, name: Hashable) -> Any:
        """The result of this name in the decision before; None = there was none."""
        known = self._last.get(name)
        return None if known is None else known[1]
