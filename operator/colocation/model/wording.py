"""Counts, lists and errors as messages for people word them."""

from collections.abc import Callable, Iterable, Sequence

MAX_LISTED = 10


def counted(count: int, noun: str, plural: str = "") -> str:
    """``1 bucket``, ``2 buckets``; ``plural``: where it is not the noun with an s."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def listed(names: Iterable[object], most: int = MAX_LISTED) -> str:
    """``0, 3, 5``; what exceeds ``most`` becomes ``and 7 more``."""
    shown = [str(name) for name in names]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def first_few(parts: Sequence[str], most: int, rest: Callable[[int], str] = "{} more".format) -> list[str]:
    """The first ``most`` parts; of how many there are more, what ``rest`` writes."""
    more = len(parts) - most
    return [*parts[:most], *([f"and {rest(more)}"] if more > 0 else [])]


def in_words(error: BaseException) -> str:
    """The text of an error; of those without a text, such as time-outs, their kind."""
    return str(error) or type(error).__name__
