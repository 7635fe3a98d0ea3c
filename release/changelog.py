"""CHANGELOG.md: one section per release, made of the fragments in changelog.d."""

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from .errors import NotReleasable

KINDS = ("added", "changed", "removed", "fixed", "security")
UNRELEASED = "unreleased"
HEADING = re.compile(r"^## (?P<version>\S+) \((?P<date>[^)]+)\)\n", re.MULTILINE)
NAME = re.compile(rf"[a-z0-9-]+\.(?P<kind>{'|'.join(KINDS)})\.md")
EXPLANATION = "README.md"


@dataclass(frozen=True)
class Changelog:
    """The changelog of a checkout."""

    repository: Path

    @property
    def path(self) -> Path:
        """CHANGELOG.md."""
        return self.repository / "CHANGELOG.md"

    @property
    def text(self) -> str:
        """Its content."""
        return self.path.read_text()

    def fragments(self) -> list[Path]:
        """The files of changelog.d, by kind, then by name.

        Raises:
            NotReleasable: a file has another name, or is empty.
        """
        files = [path for path in (self.repository / "changelog.d").glob("*") if path.name != EXPLANATION]
        for path in files:
            if not NAME.fullmatch(path.name) or not path.read_text().strip():
                allowed = f"allowed: <what>.<kind>.md, kind one of {', '.join(KINDS)}"
                raise NotReleasable(f"changelog.d/{path.name} is empty or misnamed; {allowed}")
        return sorted(files, key=lambda path: (KINDS.index(_kind(path)), path.name))

    def notes(self, version: str) -> str:
        """The section of a version, without its heading.

        Raises:
            NotReleasable: there is none.
        """
        start, end = self._section(version)
        return self.text[start:end].strip() + "\n"

    def date_of(self, version: str) -> str:
        """What the heading of a version has in parentheses: a date, or `unreleased`.

        Raises:
            NotReleasable: there is no such heading.
        """
        return self._heading(version)["date"]

    def collect(self, version: str, today: date) -> None:
        """Move the fragments into the section of the version, which gets today's date; a new section comes first."""
        text, fragments = self.text, self.fragments()
        added = "".join(f"\n### {kind.capitalize()}\n\n{lines}" for kind in KINDS if (lines := _lines(fragments, kind)))
        heading = f"## {version} ({today.isoformat()})\n"
        if any(found["version"] == version for found in HEADING.finditer(text)):
            start, end = self._section(version)
            old = self._heading(version)
            text = text[: old.start()] + heading + text[start:end].rstrip() + "\n" + added + _separated(text[end:])
        else:
            newest = HEADING.search(text)
            place = newest.start() if newest else len(text)
            text = text[:place] + heading + added + _separated(text[place:])
        self.path.write_text(text)
        for path in fragments:
            path.unlink()

    def _heading(self, version: str) -> re.Match[str]:
        for heading in HEADING.finditer(self.text):
            if heading["version"] == version:
                return heading
        raise NotReleasable(f"CHANGELOG.md has no section '## {version} (…)': run make changelog")

    def _section(self, version: str) -> tuple[int, int]:
        start = self._heading(version).end()
        following = HEADING.search(self.text, start)
        return start, following.start() if following else len(self.text)


def _kind(path: Path) -> str:
    return path.name.split(".")[1]


def _lines(fragments: list[Path], kind: str) -> str:
    texts = (path.read_text().strip().replace("\n", "\n  ") for path in fragments if _kind(path) == kind)
    return "".join(f"- {text}\n" for text in texts)


def _separated(rest: str) -> str:
    return f"\n{rest}" if rest else ""
