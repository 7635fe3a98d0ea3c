"""ARCHITECTURE.md, CONTRIBUTING.md and docstrings name what exists; the code map has all packages."""

import re

from .pages import REPOSITORY, Page

ARCHITECTURE = Page(REPOSITORY / "ARCHITECTURE.md")
CONTRIBUTING = Page(REPOSITORY / "CONTRIBUTING.md")
PYTHON = REPOSITORY / "operator" / "colocation"
JAVA = REPOSITORY / "spark_images/coloc-fs/src/main/java/dev/colocation/spark"
CHART = REPOSITORY / "charts/colocation-operator"
RESOURCES = tuple((REPOSITORY / "spark_images/coloc-fs/src").glob("*/resources/**/"))
ROOTS = (REPOSITORY, PYTHON, JAVA, CHART, REPOSITORY / "docs", REPOSITORY / "tests", *RESOURCES)
PATH = re.compile(r"^(?:[\w.-]+/)+[\w.*-]*$|^[\w-]+\.(?:py|java|json|md|yaml|yml|hcl)$")
NOT_FILES = re.compile(r"colocation\.dev/|^load\.py$|^__init__\.py$|^build/|^(?:install|first-join)\.yaml$")
NAME_IN_CODE = re.compile(r"^(?=.*(?:[a-z][A-Z]|_))\w+$")
FILE_WITH_NAMES = re.compile(r"`((?:[\w-]+/)+\w+\.(?:py|java))` \(([^()]*)\)")
MODULE = re.compile(r"``([a-z_]+(?:\.[a-z_]+)+)``")


def exists(path: str) -> bool:
    """Whether a path is below one of the folders that the page is relative to; ``*`` stands for at least one name."""
    return any(any(root.glob(path)) for root in ROOTS)


def test_paths_that_it_names_exist() -> None:
    """In back quotes: of the repository, its packages, the chart, pages, tests or the jar's resources."""
    paths = [code for code in ARCHITECTURE.inline_code if PATH.match(code) and not NOT_FILES.search(code)]
    assert len(paths) > 100
    assert [path for path in paths if not exists(path)] == []


def test_files_that_contributing_names_exist() -> None:
    """Those of tests are named without their folder."""
    folders = (*ROOTS, *(folder for folder in (REPOSITORY / "tests").iterdir() if folder.is_dir()))
    paths = [code for code in CONTRIBUTING.inline_code if PATH.match(code) and not NOT_FILES.search(code)]
    assert len(paths) > 20
    assert [path for path in paths if not any(any(root.glob(path)) for root in folders)] == []


def test_names_that_it_gives_with_a_file_are_in_the_file() -> None:
    """Classes, functions and constants in the parentheses behind a path."""
    named = [
        (path, name)
        for path, words in FILE_WITH_NAMES.findall(ARCHITECTURE.prose)
        for name in re.findall(r"`(\w+)`", words)
        if NAME_IN_CODE.match(name)
    ]
    assert len(named) >= 10
    files = {path: next(file for root in (PYTHON, JAVA) if (file := root / path).exists()) for path, _ in named}
    assert [(path, name) for path, name in named if not re.search(rf"\b{name}\b", files[path].read_text())] == []


def test_modules_that_docstrings_name_exist() -> None:
    """``package.module``, below ``colocation``, with or without a name of the module behind it."""
    packages = {folder.name for folder in PYTHON.iterdir() if folder.is_dir()} - {"spark"}  # `spark.…` are settings
    named = [
        (file.relative_to(PYTHON).as_posix(), name)
        for file in PYTHON.rglob("*.py")
        for name in MODULE.findall(file.read_text())
        if name.partition(".")[0] in packages
    ]
    assert len(named) > 10
    assert [one for one in named if not is_module(one[1]) and not is_module(one[1].rpartition(".")[0])] == []


def is_module(name: str) -> bool:
    """Whether ``package.module`` is a module or a package of ours."""
    path = PYTHON / name.replace(".", "/")
    return "." in name and (path.with_suffix(".py").exists() or path.is_dir())


def test_the_code_map_has_every_package() -> None:
    """A row for each package of Python and of Java."""
    rows = set(re.findall(r"^\| `(\w+/)` \|", ARCHITECTURE.text, re.MULTILINE))
    packages = {f"{folder.name}/" for root in (PYTHON, JAVA) for folder in root.iterdir() if folder.is_dir()}
    assert packages - {"__pycache__/"} <= rows
