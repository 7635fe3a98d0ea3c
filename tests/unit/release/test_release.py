"""Versions agree, archives are reproducible, and workflows call what exists."""

import hashlib
import re
import shutil
import tarfile
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from release import artifacts, versions
from release.changelog import Changelog
from release.errors import NotReleasable
from release.install_file import write_first_join, write_install_file

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
    """Wheel, chart, jar and CRDs agree: `make release-check` passes."""
    assert versions.check() == versions.project_version()


def test_a_disagreement_is_reported_with_file_and_versions() -> None:
    """A chart, a jar and a tag of other versions."""
    found = list(versions.disagreements("9.9.9"))
    assert f"Chart.yaml: version is {versions.project_version()}, pyproject.toml has 9.9.9: write 9.9.9" in found
    assert any(one.startswith("pom.xml") for one in found)
    with pytest.raises(NotReleasable, match=r"the tag is v0\.0\.1, the version"):
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


@pytest.mark.parametrize(
    ("registry", "operator", "spark"),
    [
        pytest.param("r.example", "r.example/colocation-operator", "r.example/colocation-spark", id="one"),
        pytest.param("", "colocation-operator", "colocation-spark", id="none: images are on the nodes"),
    ],
)
def test_the_install_file_is_whole_and_holds_no_key(
    registry: str, operator: str, spark: str, tmp_path: Path
) -> None:
    """Namespace, CRDs and all objects, the namespace first; a published key would be everybody's."""
    text = write_install_file(tmp_path, "0.1.0", registry).read_text()
    objects = [item for item in yaml.safe_load_all(text) if item]
    kinds = [item["kind"] for item in objects]
    assert kinds[:3] == ["Namespace", "CustomResourceDefinition", "CustomResourceDefinition"]
    assert {"Deployment", "DaemonSet", "Job", "ValidatingAdmissionPolicy"} <= set(kinds)
    assert "PRIVATE KEY" not in text and "Secret" not in kinds
    assert f"image: {operator}:0.1.0\n" in text and f'value: "{spark}:0.1.0"' in text


def test_the_first_join_runs_the_released_image(tmp_path: Path) -> None:
    """Its Job is the one object that names an image."""
    objects = yaml.safe_load_all(write_first_join(tmp_path, "0.9.0", "r.example/data").read_text())
    [job] = [item for item in objects if item["kind"] == "Job"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "r.example/data/colocation-operator:0.9.0"


def test_a_chart_of_a_registry_needs_no_value(tmp_path: Path) -> None:
    """`helm install colocation oci://…` finds the images that were published with it."""
    packaged = artifacts.package_chart(tmp_path, "r.example/data")
    with tarfile.open(packaged) as held:
        values = held.extractfile(f"{versions.CHART.name}/values.yaml")
        assert values and yaml.safe_load(values)["image"]["repository"] == "r.example/data/colocation-operator"


def _repository(folder: Path, version: str) -> Path:
    """The other files with the version, without CRDs."""
    (folder / "crds").mkdir()
    (folder / "spark_images/coloc-fs").mkdir(parents=True)
    (folder / "spark_images/coloc-fs/pom.xml").write_text(f"<version>{version}</version>")
    return folder


def changelog(folder: Path, **fragments: str) -> Changelog:
    """A checkout with this changelog and these fragments (`_` stands for `.` and the suffix is left out)."""
    (folder / "CHANGELOG.md").write_text(CHANGELOG)
    (folder / "changelog.d").mkdir(exist_ok=True)
    (folder / "changelog.d" / "README.md").write_text("How to.\n")
    for name, text in fragments.items():
        (folder / "changelog.d" / f"{name.replace('_', '.')}.md").write_text(text)
    return Changelog(folder)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("0.2.0", "- New.\n", id="in the middle"),
        pytest.param("0.1.0", "- Old.\n  Older.\n", id="the last"),
    ],
)
def test_notes_are_the_section_of_the_version(version: str, expected: str, tmp_path: Path) -> None:
    """Without its heading, and without the next one's."""
    assert changelog(tmp_path).notes(version) == expected


def test_notes_of_an_unknown_version(tmp_path: Path) -> None:
    """A release needs notes."""
    with pytest.raises(NotReleasable, match=r"no section '## 0\.3\.0"):
        changelog(tmp_path).notes("0.3.0")


ADDED_AND_FIXED = "### Added\n\n- A command.\n\n### Fixed\n\n- A crash\n  at the start.\n- An error.\n"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param(
            "0.3.0", f"## 0.3.0 (2026-12-01)\n\n{ADDED_AND_FIXED}\n## 0.2.0 (unreleased)\n", id="a new section"
        ),
        pytest.param(
            "0.2.0", f"## 0.2.0 (2026-12-01)\n\n- New.\n\n{ADDED_AND_FIXED}\n## 0.1.0 (", id="one that exists"
        ),
    ],
)
def test_fragments_become_a_dated_section(version: str, expected: str, tmp_path: Path) -> None:
    """By kind, then by name; only the explanation of the folder stays, and all older sections."""
    one = changelog(tmp_path, b_fixed="An error.\n", a_fixed="A crash\nat the start.\n", z_added="A command.\n")
    one.collect(version, date(2026, 12, 1))
    assert expected in one.text
    assert one.text.endswith(CHANGELOG[CHANGELOG.index("## 0.1.0") :])
    assert [path.name for path in (tmp_path / "changelog.d").iterdir()] == ["README.md"]


def test_fragments_are_well_formed() -> None:
    """Those of this checkout."""
    Changelog(ROOT).fragments()


@pytest.mark.parametrize("name", ["no-kind.md", "a.improved.md", "A B.fixed.md", "a.fixed.txt"])
def test_a_misnamed_fragment_stops_a_release(name: str, tmp_path: Path) -> None:
    """Otherwise it would be left out."""
    one = changelog(tmp_path)
    (tmp_path / "changelog.d" / name).write_text("New.\n")
    with pytest.raises(NotReleasable, match=re.escape(name)):
        one.collect("0.2.0", date(2026, 12, 1))


@pytest.mark.parametrize(
    ("tag", "version", "fragments", "problem"),
    [
        pytest.param("v0.1.0", "0.1.0", {}, None, id="finished"),
        pytest.param("v0.2.0", "0.2.0", {}, "run make changelog", id="no date"),
        pytest.param("v0.1.0", "0.1.0", {"a_fixed": "A crash.\n"}, "run make changelog", id="fragments left"),
        pytest.param("v0.3.0", "0.3.0", {}, "no section '## 0.3.0 (…)'", id="no section"),
        pytest.param("v0.0.1", "0.1.0", {}, "the tag is v0.0.1, the version 0.1.0", id="another tag"),
    ],
)
def test_a_tag_needs_a_finished_changelog(
    tag: str,
    version: str,
    fragments: dict[str, str],
    problem: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A section with a date, and no fragments."""
    monkeypatch.setattr(versions, "REPOSITORY", changelog(tmp_path, **fragments).repository)
    found = list(versions.unfinished(tag, version))
    assert found == [] if problem is None else problem in found[0]


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
