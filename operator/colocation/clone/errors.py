"""Why a clone ends without a complete bucket."""

from colocation.model.conditions import Reason


class CloneFailed(Exception):
    """The clone gives up for now; what was received stays for the next attempt. ``reason`` is one word."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
