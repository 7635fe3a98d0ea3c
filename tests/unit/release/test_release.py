"""Versions agree, archives are reproducible, and workflows call what exists."""

import hashlib
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from release import artifacts, versions

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
MAKE = re.compile(r"\bmake ((?:[a-z][a-z0-9-]*|\$\{\{[^}]*\}\}))")

CHANGELOG = """\
# Changelog

## 0.2.0 (unreleased)

- New.

## 0.1.0 (2026-01-01)

- Old.
  Older.
"""


def steps(workflow: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(job, step) of a workflow."""
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    return [(job, step) for job in jobs for step in job["steps"]]


def test_all_name_the_same_version() -> None:
    """Wheel, chart, jar, CRDs, changelog; what `make release-check` says."""
    assert versions.check() == versions.project_version()


def test_a_disagreement_says_where_and_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chart of another version, a tag of another one, a changelog without a date."""
    found = list(versions.disagreements("9.9.9"))
    assert f"Chart.yaml: version is {versions.project_version()}, pyproject.toml says 9.9.9: write 9.9.9" in found
    assert any(one.startswith("pom.xml") for one in found)
    assert "CHANGELOG.md has no section '## 9.9.9 (…)'" in found
    with pytest.raises(versions.NotReleasable, match=r"the tag is v0\.0\.1, the version"):
        versions.check("v0.0.1")


@pytest.mark.parametrize(
    ("version", "of_chart"),
    [("1.2.3", "1.2.3"), ("1.2.3rc1", "1.2.3-rc.1"), ("1.2.3a2", "1.2.3-alpha.2"), ("1.2.3b10", "1.2.3-beta.10")],
)
def test_helm_takes_the_version_that_the_check_asks_for(
    version: str, of_chart: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SemVer; the images' tag (`appVersion`) is Python's."""
    chart = tmp_path / versions.CHART.name
    shutil.copytree(versions.CHART, chart)
    content = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**content, "version": of_chart, "appVersion": version}))
    monkeypatch.setattr(artifacts, "CHART", chart)
    assert artifacts.package_chart(tmp_path).name == f"{chart.name}-{of_chart}.tgz"
    monkeypatch.setattr(versions, "CHART", chart)
    monkeypatch.setattr(versions, "REPOSITORY", _repository(tmp_path, version))
    assert list(versions.disagreements(version)) == []


def _repository(folder: Path, version: str) -> Path:
    """What else names the version, without the kinds."""
    (folder / "crds").mkdir()
    (folder / "spark_images/coloc-fs").mkdir(parents=True)
    (folder / "spark_images/coloc-fs/pom.xml").write_text(f"<version>{version}</version>")
    (folder / "CHANGELOG.md").write_text(f"## {version} (unreleased)\n")
    return folder


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("0.2.0", "- New.\n", id="in the middle"),
        pytest.param("0.1.0", "- Old.\n  Older.\n", id="the last"),
    ],
)
def test_notes_are_the_section_of_the_version(version: str, expected: str) -> None:
    """Without its heading, and without the next one's."""
    assert versions.notes(CHANGELOG, version) == expected


def test_notes_of_an_unknown_version() -> None:
    """Nothing is released without a word on it."""
    with pytest.raises(versions.NotReleasable, match=r"no section '## 0\.3\.0"):
        versions.notes(CHANGELOG, "0.3.0")


def test_the_charts_archive_is_the_same_every_time(tmp_path: Path) -> None:
    """Whatever the time of day; it holds the chart's files."""
    made = [artifacts.package_chart(folder) for folder in (tmp_path / "a", tmp_path / "b") if not folder.mkdir()]
    assert made[0].read_bytes() == made[1].read_bytes()
    assert made[0].name == f"colocation-operator-{versions.chart_version(versions.project_version())}.tgz"
    with tarfile.open(made[0]) as archive:
        names = {name.removeprefix("colocation-operator/") for name in archive.getnames()}
        assert {member.mtime for member in archive.getmembers()} == {artifacts.SOURCE_DATE_EPOCH}
    assert {"Chart.yaml", "values.schema.json", "files/alerts.yaml", "crds/colocationgroups.yaml"} <= names


def test_sums_name_every_other_file(tmp_path: Path) -> None:
    """In the form of sha256sum."""
    contents = {"a.tgz": b"chart", "b.whl": b"wheel"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    artifacts.write_sums(tmp_path)
    artifacts.write_sums(tmp_path)
    expected = [f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in contents.items()]
    assert (tmp_path / artifacts.SUMS).read_text().splitlines() == expected


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_targets_that_exist(workflow: Path) -> None:
    """Also those that come from a matrix; and no shell is given what a pull request may say."""
    called: set[str] = set()
    for job, step in steps(workflow):
        for target in MAKE.findall(step.get("run", "")):
            called |= set(job["strategy"]["matrix"]["target"]) if target.startswith("$") else {target}
        assert not re.search(r"\$\{\{\s*github\.(event|head_ref)", step.get("run", ""))
    assert called and called <= TARGETS


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(workflow: Path) -> None:
    """A tag of another repository may be moved; rights are named."""
    used = [step["uses"] for _, step in steps(workflow) if "uses" in step]
    assert used and all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one) for one in used)
    assert "permissions" in yaml.safe_load(workflow.read_text())


def test_every_stage_of_make_test_is_a_job() -> None:
    """What the README's command runs, the forge runs."""
    makefile = (ROOT / "Makefile").read_text()
    [stages] = re.findall(r"^test: checks (.*?) test-clusters  ##", makefile, re.MULTILINE)
    [clusters] = re.findall(r"^test-clusters: .*\n.* --jobs 2 (.*)", makefile, re.MULTILINE)
    [checks] = re.findall(r"^checks: .*\n.* --output-sync=target (.*) class-archive", makefile, re.MULTILINE)
    [(job, _), *_] = steps(ROOT / ".github/workflows/test.yml")
    assert set(job["strategy"]["matrix"]["target"]) == {*checks.split(), *stages.split(), *clusters.split()}
