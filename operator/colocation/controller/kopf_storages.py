"""Nothing of an object for kopf to remember: we have event handlers only, which need neither an object's last state nor
the progress of handlers. kopf's own storages copy every object thrice, which is half of what it spends on an event.
"""

from typing import Any

import kopf

_NOTHING: Any = {}


class NoLastState(kopf.DiffBaseStorage):
    """Takes no copy of objects to compare later ones with."""

    def build(self, **_: Any) -> Any:
        """The empty essence: no two states differ."""
        return _NOTHING

    def fetch(self, **_: Any) -> None:
        """None was stored."""

    def store(self, **_: Any) -> None:
        """Nothing is."""


class NoProgress(kopf.ProgressStorage):
    """Event handlers are run once, whatever comes of it."""

    def fetch(self, **_: Any) -> None:
        """None was stored."""

    def store(self, **_: Any) -> None:
        """Nothing is."""

    def purge(self, **_: Any) -> None:
        """There is nothing."""

    def touch(self, **_: Any) -> None:
        """Objects are not written."""

    def clear(self, *, essence: Any) -> Any:
        """There is nothing of ours in it."""
        return essence
