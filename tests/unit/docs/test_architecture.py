"""ARCHITECTURE.md names what exists, and all packages."""

import re

from .pages import REPOSITORY, Page

ARCHITECTURE = Page(REPOSITORY / "ARCHITECTURE.md")
PYTHON = REPOSITORY / "operator" / "colocation"
JAVA = REPOSITORY / "spark_images/coloc-fs/src/main/java/dev/colocation/spark"
PATH = re.compile(r"^(?:[\w.-]+/)+[\w.-]*$|^[\w-]+\.(?:py|java|json|md|yaml|yml|hcl)$")
NOT_FILES = re.compile(r"colocation\.dev/|^options\.json$|^load\.py$|^__init__\.py$")


def exists(path: str) -> bool:
    """Whether a path is one of the repository, of the operator's packages, or of the Java packages."""
    return any((root / path).exists() for root in (REPOSITORY, PYTHON, JAVA))


def test_paths_that_it_names_exist() -> None:
    """In back quotes: of the repository, or below `operator/colocation` or the Java packages."""
    paths = [code for code in ARCHITECTURE.inline_code if PATH.match(code) and not NOT_FILES.search(code)]
    assert len(paths) > 100
    assert [path for path in paths if not exists(path)] == []


def test_the_code_map_has_every_package() -> None:
    """A row for each package of Python and of Java."""
    rows = set(re.findall(r"^\| `(\w+/)` \|", ARCHITECTURE.text, re.MULTILINE))
    packages = {f"{folder.name}/" for root in (PYTHON, JAVA) for folder in root.iterdir() if folder.is_dir()}
    assert packages - {"__pycache__/"} <= rows
