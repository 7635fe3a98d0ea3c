"""ARCHITECTURE.md names what exists, and all packages."""

import re

from .pages import REPOSITORY, Page

ARCHITECTURE = Page(REPOSITORY / "ARCHITECTURE.md")
PYTHON = REPOSITORY / "operator" / "colocation"
JAVA = REPOSITORY / "spark_images/coloc-fs/src/main/java/dev/colocation/spark"
CHART = REPOSITORY / "charts/colocation-operator"
RESOURCES = tuple((REPOSITORY / "spark_images/coloc-fs/src").glob("*/resources/**/"))
ROOTS = (REPOSITORY, PYTHON, JAVA, CHART, REPOSITORY / "docs", REPOSITORY / "tests", *RESOURCES)
PATH = re.compile(r"^(?:[\w.-]+/)+[\w.*-]*$|^[\w-]+\.(?:py|java|json|md|yaml|yml|hcl)$")
NOT_FILES = re.compile(r"colocation\.dev/|^load\.py$|^__init__\.py$")


def exists(path: str) -> bool:
    """Whether a path is below one of the folders that the page is relative to; ``*`` stands for at least one name."""
    return any(any(root.glob(path)) for root in ROOTS)


def test_paths_that_it_names_exist() -> None:
    """In back quotes: of the repository, its packages, the chart, pages, tests or the jar's resources."""
    paths = [code for code in ARCHITECTURE.inline_code if PATH.match(code) and not NOT_FILES.search(code)]
    assert len(paths) > 100
    assert [path for path in paths if not exists(path)] == []


def test_the_code_map_has_every_package() -> None:
    """A row for each package of Python and of Java."""
    rows = set(re.findall(r"^\| `(\w+/)` \|", ARCHITECTURE.text, re.MULTILINE))
    packages = {f"{folder.name}/" for root in (PYTHON, JAVA) for folder in root.iterdir() if folder.is_dir()}
    assert packages - {"__pycache__/"} <= rows
