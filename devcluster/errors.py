"""The two ways a command fails."""


class DevclusterError(Exception):
    """Something went wrong while doing what was asked: exit code 1."""


class UsageError(Exception):
    """A request that makes no sense: exit code 2; the message has what was given and what is allowed."""
