"""Why a release cannot be made."""


class NotReleasable(Exception):
    """Something has to be corrected first; the message names it."""
