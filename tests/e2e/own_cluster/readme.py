"""README's own-cluster path as its reader meets it: blocks of commands, in order."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
_SECTION = re.compile(r"^## On your own cluster\n(.*?)^## ", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```(sh|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_REGISTRY = "export REGISTRY=registry.example.com/data\n"


def blocks(language: str) -> list[str]:
    """The section's blocks of a language, word for word."""
    section = _SECTION.search((REPOSITORY / "README.md").read_text())
    assert section, "README.md has the section"
    return [body for name, body in _BLOCK.findall(section[1]) if name == language]


def commands(registry: str) -> list[str]:
    """The blocks of commands; the reader's registry stands in the place of the example's, in every shell."""
    found = blocks("sh")
    assert sum(_REGISTRY in block for block in found) == 1
    return [f"export REGISTRY={registry}\n{block.replace(_REGISTRY, '')}" for block in found]


def quickstart() -> tuple[str, str]:
    """The command of docs/quickstart.md that does all, and the block that removes what it made."""
    page = (REPOSITORY / "docs" / "quickstart.md").read_text()
    found = [body for language, body in _BLOCK.findall(page) if language == "sh"]
    [removal] = [block for block in found if "helm uninstall" in block]
    assert any("make quickstart" in block for block in found)
    return "make quickstart", removal
