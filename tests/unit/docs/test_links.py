"""Links within the repository lead somewhere."""

import re

import pytest

from .pages import Page, pages


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Page) -> None:
    """Both the file and the anchor exist."""
    broken = [target for target in page.links if not leads_somewhere(page, target)]
    assert not broken, f"{page.name} links to what does not exist: {', '.join(broken)}"


def leads_somewhere(page: Page, target: str) -> bool:
    """Whether a relative link has its file, and that its heading."""
    path, _, anchor = target.partition("#")
    file = (page.path.parent / path).resolve() if path else page.path
    return file.exists() and (not anchor or anchor in Page(file).anchors)


def test_files_that_are_named_exist() -> None:
    """`docs/….md`, `examples/…` and `charts/…` in back quotes are paths of the repository."""
    pattern = re.compile(r"^(?:docs|examples|charts|scripts|crds)/[\w./-]+$")
    missing = [
        f"{page.name}: {code}"
        for page in pages() for code in page.inline_code
        if pattern.match(code) and not (page.path.parents[0] / code).exists()
        and not any((parent / code).exists() for parent in page.path.parents)
    ]  # fmt: skip
    assert not missing, missing
