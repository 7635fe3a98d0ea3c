"""The two ways a command fails."""


class DevclusterError(Exception):
    """Something went wrong while doing what was asked: exit code 1."""


class UsageError(Exception):
    """What was asked for makes no sense: exit code 2; the message says what was given and what is allowed."""
