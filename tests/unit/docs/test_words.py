"""User-facing text: plain English, and the names that users know."""

import re
from pathlib import Path

import pytest

from .pages import REPOSITORY, Page, user_pages

OUR_WORDS = re.compile(r"\b[Tt]he seeds?\b|\b[Ss]eeds?'|\b[Ss]eed's|\bseed 00\d")
RIDDLES = (
    "says that it", "for those who run the whole", "Whose application it may be", "without a shuffle no more",
    "that another load overtook", "stand in the SparkApplication", "joins the ordinary way",
)  # fmt: skip
"""Of the style guide's left column: what it says to write instead stands there."""
PATTERNS = ("docs/**/*.md", "examples/**/*", "charts/**/*", "crds/*.yaml", "operator/colocation/**/*.py",
            "operator/colocation/**/*.yaml", "README.md", "CHANGELOG.md")  # fmt: skip


def user_facing_files() -> list[Path]:
    """What users read, and the sources of help, errors, fields and values."""
    return [path for pattern in PATTERNS for path in sorted(REPOSITORY.glob(pattern)) if path.is_file()]


def test_users_read_doris_and_starrocks() -> None:
    """Where the ideas came from has a name; ours for it is nobody else's."""
    found = [
        f"{path.relative_to(REPOSITORY)}: {match[0]}"
        for path in user_facing_files() if path.name != "0055-chaos.md"
        for match in OUR_WORDS.finditer(path.read_text(errors="replace"))
    ]  # fmt: skip
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", user_pages(), ids=lambda page: page.name)
def test_no_riddles(page: Page) -> None:
    """One thought a sentence, in the field's usual words."""
    text = " ".join(page.prose.split())
    assert not [riddle for riddle in RIDDLES if re.search(rf"{riddle}\b", text)]
