"""Text of others, made harmless: it does nothing to a terminal, and stays in its line."""

_NUMBERS = (*range(32), *range(127, 160))
_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""They let text be read in another order than it has."""

CONTROL_CHARACTERS = (
    {number: f"\\x{number:02x}" for number in _NUMBERS}
    | {number: f"\\u{number:04x}" for number in _DIRECTIONS}
    | {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
)
"""What is written in place of each, for ``str.translate``."""

_OF_LINES = {number: text for number, text in CONTROL_CHARACTERS.items() if chr(number) not in "\n\t"}


def in_one_line(text: str) -> str:
    """The text without control characters: a cell, or a log's message."""
    return text.translate(CONTROL_CHARACTERS)


def in_lines(text: str) -> str:
    """The text without control characters but newlines and tabs."""
    return text.translate(_OF_LINES)
