"""One version: pyproject.toml's. Whatever else names it has to agree."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parent.parent
CHART = REPOSITORY / "charts" / "colocation-operator"
UNRELEASED = "unreleased"
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
SEMVER_PRERELEASE = {"a": "alpha", "b": "beta", "rc": "rc"}
HEADING = re.compile(r"^## (?P<version>\S+) \((?P<date>[^)]+)\)\n", re.MULTILINE)


class NotReleasable(Exception):
    """Something has to be corrected first; the message says what."""


def project_version() -> str:
    """The version that everything else follows."""
    version: str = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    return version


def chart_version(version: str) -> str:
    """The same for helm, which takes SemVer only: 1.2.3rc1 is 1.2.3-rc.1 there."""
    return re.sub(r"(a|b|rc)(\d+)$", lambda found: f"-{SEMVER_PRERELEASE[found[1]]}.{found[2]}", version)


def disagreements(version: str) -> Iterator[str]:
    """What does not agree with the version, or with what it is made from."""
    if not VERSION.fullmatch(version):
        yield f"pyproject.toml: version is {version!r}; allowed: 1.2.3, 1.2.3rc1"
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    for field in ("version", "appVersion"):
        wanted = chart_version(version) if field == "version" else version
        if chart[field] != wanted:
            yield f"Chart.yaml: {field} is {chart[field]}, pyproject.toml says {version}: write {wanted}"
    jar = re.search(r"<version>([^<]+)</version>", (REPOSITORY / "spark_images/coloc-fs/pom.xml").read_text())
    if jar is None or jar[1] != version:
        yield f"pom.xml: version is {jar[1] if jar else 'missing'}, pyproject.toml says {version}"
    for source in sorted((REPOSITORY / "crds").glob("*.yaml")):
        copy = CHART / "crds" / source.name
        if not copy.is_file() or copy.read_text() != source.read_text():
            yield f"{copy.relative_to(REPOSITORY)} differs from crds/{source.name}: run make crds"
    if f"## {version} (" not in (REPOSITORY / "CHANGELOG.md").read_text():
        yield f"CHANGELOG.md has no section '## {version} (…)'"


def check(tag: str = "") -> str:
    """The version, when all agree on it; ``tag``: what is released, which needs a date in the changelog.

    Raises:
        NotReleasable: they do not.
    """
    version = project_version()
    problems = list(disagreements(version))
    if tag and tag != f"v{version}":
        problems.append(f"the tag is {tag}, the version {version}; tag v{version}")
    if tag and f"## {version} ({UNRELEASED})" in (REPOSITORY / "CHANGELOG.md").read_text():
        problems.append(f"CHANGELOG.md calls {version} {UNRELEASED}: write the date of the release there")
    if problems:
        raise NotReleasable("\n".join(problems))
    return version


def notes(changelog: str, version: str) -> str:
    """The changelog's section on a version, without its heading."""
    headings = list(HEADING.finditer(changelog))
    for number, heading in enumerate(headings):
        if heading["version"] == version:
            end = headings[number + 1].start() if number + 1 < len(headings) else len(changelog)
            return changelog[heading.end():end].strip() + "\n"
    raise NotReleasable(f"CHANGELOG.md has no section '## {version} (…)'")
