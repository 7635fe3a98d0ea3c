"""Brings files outside of docs/ into the site, below project/; links work there as they do in the repository."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).resolve().parent.parent
OUTSIDE = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "changelog.d/README.md",
           "examples/**/*.md", "examples/**/*.yaml")  # fmt: skip
LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside of docs/ to the site."""
    for path in (path for pattern in OUTSIDE for path in sorted(REPOSITORY.glob(pattern))):
        place = in_site(path.relative_to(REPOSITORY).as_posix())
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links between docs/ and the rest of the repository; all others stay."""
    here = posixpath.dirname(page.file.src_uri)
    there = posixpath.dirname(in_repository(page.file.src_uri))

    def rewritten(link: re.Match[str]) -> str:
        target = in_site(posixpath.normpath(posixpath.join(there, link[2])))
        return f"{link[1]}{posixpath.relpath(target, here or '.')}{link[3]}"

    return LINK.sub(rewritten, markdown)


def in_site(path: str) -> str:
    """Where a file of the repository is in the site: docs/index.md as index.md, all others below project/."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"project/{path}"


def in_repository(path: str) -> str:
    """The inverse of `in_site`."""
    return path.removeprefix("project/") if path.startswith("project/") else f"docs/{path}"
