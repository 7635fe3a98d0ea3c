"""The version of pyproject.toml, and whether all files that repeat it agree."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

from .changelog import UNRELEASED, Changelog
from .errors import NotReleasable

REPOSITORY = Path(__file__).resolve().parent.parent
CHART = REPOSITORY / "charts" / "colocation-operator"
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
SEMVER_PRERELEASE = {"a": "alpha", "b": "beta", "rc": "rc"}


def project_version() -> str:
    """The version in pyproject.toml, which all other files repeat."""
    version: str = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    return version


def chart_version(version: str) -> str:
    """The chart's version, for helm, which takes SemVer only: 1.2.3rc1 is 1.2.3-rc.1 there."""
    return re.sub(r"(a|b|rc)(\d+)$", lambda found: f"-{SEMVER_PRERELEASE[found[1]]}.{found[2]}", version)


def disagreements(version: str) -> Iterator[str]:
    """Files whose version is another one, and copies that differ from their source."""
    if not VERSION.fullmatch(version):
        yield f"pyproject.toml: version is {version!r}; allowed: 1.2.3, 1.2.3rc1"
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    for field in ("version", "appVersion"):
        wanted = chart_version(version) if field == "version" else version
        if chart[field] != wanted:
            yield f"Chart.yaml: {field} is {chart[field]}, pyproject.toml has {version}: write {wanted}"
    jar = re.search(r"<version>([^<]+)</version>", (REPOSITORY / "spark_images/coloc-fs/pom.xml").read_text())
    if jar is None or jar[1] != version:
        yield f"pom.xml: version is {jar[1] if jar else 'missing'}, pyproject.toml has {version}"
    for source in sorted((REPOSITORY / "crds").glob("*.yaml")):
        copy = CHART / "crds" / source.name
        if not copy.is_file() or copy.read_text() != source.read_text():
            yield f"{copy.relative_to(REPOSITORY)} differs from crds/{source.name}: run make crds"


def unfinished(tag: str, version: str) -> Iterator[str]:
    """What a release needs in addition: the version's tag, and a dated section in the changelog without fragments."""
    if tag != f"v{version}":
        yield f"the tag is {tag}, the version {version}; tag v{version}"
    changelog = Changelog(REPOSITORY)
    try:
        fragments, dated = changelog.fragments(), changelog.date_of(version) != UNRELEASED
    except NotReleasable as error:
        yield str(error)
        return
    if fragments or not dated:
        yield f"CHANGELOG.md calls {version} {UNRELEASED}, or changelog.d has fragments: run make changelog"


def check(tag: str = "") -> str:
    """The version, when everything agrees on it.

    Args:
        tag: what is released; the changelog has to be finished then.

    Raises:
        NotReleasable: something disagrees.
    """
    version = project_version()
    problems = [*disagreements(version), *(unfinished(tag, version) if tag else ())]
    if problems:
        raise NotReleasable("\n".join(problems))
    return version
