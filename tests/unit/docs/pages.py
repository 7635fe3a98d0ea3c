"""The documentation as data: pages, their links, anchors, code blocks, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
SUBSTITUTION = re.compile(r"\$\(([^()]*)\)")
PLACEHOLDER = re.compile(r"<[a-z][\w ]*>")
SHELL = {"sh", "bash"}


@dataclass(frozen=True)
class Page:
    """A Markdown file of the repository."""

    path: Path

    @property
    def name(self) -> str:
        """Its path in the repository."""
        return self.path.relative_to(REPOSITORY).as_posix()

    @cached_property
    def text(self) -> str:
        """All of it."""
        return self.path.read_text()

    @cached_property
    def prose(self) -> str:
        """What is not in code blocks."""
        return FENCE.sub("", self.text)

    @property
    def links(self) -> list[str]:
        """Targets of links within the repository."""
        return [target for target in LINK.findall(self.prose) if "://" not in target]

    @cached_property
    def anchors(self) -> set[str]:
        """The anchors that its headings make."""
        return {slug(heading) for heading in HEADING.findall(self.prose)}

    def blocks(self, languages: set[str]) -> list[str]:
        """Its code blocks in these languages, without their indentation."""
        found = [match for match in FENCE.finditer(self.text) if match["language"] in languages]
        return [re.sub(f"^{match['indent']}", "", match["text"], flags=re.MULTILINE) for match in found]

    @property
    def commands(self) -> list[list[str]]:
        """The simple commands in its shell blocks, and behind the prompts of sessions, as words."""
        typed = [line[2:] for block in self.blocks({""}) for line in block.splitlines() if line.startswith("$ ")]
        return [words for script in [*self.blocks(SHELL), *typed] for words in commands_in(script)]

    @property
    def inline_code(self) -> list[str]:
        """What stands in back quotes in its prose."""
        return INLINE.findall(self.prose)


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[\s]", "-", re.sub(r"[^\w\s-]", "", plain).strip())


def commands_in(script: str) -> Iterator[list[str]]:
    """The simple commands of a script, as words; a substitution is one word, and a script of its own."""
    for inner in SUBSTITUTION.findall(script):
        yield from commands_in(inner)
    script = PLACEHOLDER.sub("PLACEHOLDER", SUBSTITUTION.sub("SUBSTITUTED", script))
    for line in _logical_lines(script):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if not set(word) <= set(";|&"):
                words.append(word)
            elif words:
                yield words
                words = []


def _logical_lines(script: str) -> Iterator[str]:
    """Lines; those that a backslash or an open quote joins are one."""
    pending = ""
    for line in script.replace("\\\n", " ").splitlines():
        pending += line
        try:
            shlex.split(pending, comments=True)
        except ValueError:
            pending += "\n"
            continue
        yield pending
        pending = ""


def pages() -> list[Page]:
    """All pages that users or developers read."""
    patterns = ("*.md", "docs/**/*.md", "examples/**/*.md", "charts/*/*.md", "devcluster/*.md")
    return [Page(path) for pattern in patterns for path in sorted(REPOSITORY.glob(pattern))]


def user_pages() -> list[Page]:
    """Pages for users: all but the decisions, and what developers read."""
    return [page for page in pages() if not page.name.startswith(("docs/decisions/", "ARCHITECTURE", "CONTRIBUTING"))]
