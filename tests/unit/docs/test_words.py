"""User-facing text: plain English, and the names that users know."""

import re
import subprocess
from pathlib import Path

import pytest

from .pages import REPOSITORY, Page, user_pages

OUR_WORDS = re.compile(r"\b[Tt]he seeds?\b|\b[Ss]eeds?'|\b[Ss]eed's|\bseed 00\d")
RIDDLES = (
    "says that it", "for those who run the whole", "Whose application it may be", "without a shuffle no more",
    "that another load overtook", "stand in the SparkApplication", "joins the ordinary way",
)  # fmt: skip
"""Sentences of the left column of the style guide's tables."""
PATTERNS = ("docs/**/*.md", "examples/**/*", "charts/**/*", "crds/*.yaml", "operator/colocation/**/*.py",
            "operator/colocation/**/*.yaml", "README.md", "CHANGELOG.md")  # fmt: skip


def user_facing_files() -> list[Path]:
    """What users read, and the sources of help, errors, fields and values."""
    return [path for pattern in PATTERNS for path in sorted(REPOSITORY.glob(pattern)) if path.is_file()]


def test_users_read_doris_and_starrocks() -> None:
    """Pages name Doris and StarRocks, not our private word for them."""
    found = [
        f"{path.relative_to(REPOSITORY)}: {match[0]}"
        for path in user_facing_files()
        for match in OUR_WORDS.finditer(path.read_text(errors="replace"))
    ]  # fmt: skip
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", user_pages(), ids=lambda page: page.name)
def test_no_riddles(page: Page) -> None:
    """One thought a sentence, in the field's usual words."""
    text = " ".join(page.prose.split())
    assert not [riddle for riddle in RIDDLES if re.search(rf"{riddle}\b", text)]


@pytest.mark.parametrize(
    ("budget", "failed", "left"),
    [
        pytest.param(2, True, 2, id="over its budget"),
        pytest.param(3, False, 3, id="at its budget"),
        pytest.param(9, False, 3, id="below its budget, which --lower takes down"),
    ],
)
def test_avoided_words_have_a_budget(tmp_path: Path, budget: int, failed: bool, left: int) -> None:
    """Whole words count, in names too, in committed files; a budget never rises."""
    words = REPOSITORY / "scripts" / "check-words"
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "words.txt").write_text(f"# Budgets.\nroom {budget}\n")
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "one.py").write_text(
        "def it_says(): ...  # No more, whoever asks; believers; no more than 3\n"
    )
    (tmp_path / "other.py").write_text("nobody committed this\n")
    for command in ("init --quiet", "add scripts room"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    done = subprocess.run([words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode == 1, "room: 3 of these words" in done.stdout) == (failed, failed)
    subprocess.run([words, "--lower"], cwd=tmp_path, capture_output=True, check=False)
    assert (tmp_path / "scripts" / "words.txt").read_text() == f"# Budgets.\nroom {left}\n"
