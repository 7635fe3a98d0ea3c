"""What is built, and when it is built again."""

import re
from pathlib import Path

import pytest

from devcluster import binaries, paths
from devcluster.binaries import COMPONENTS, ETCD, KUBERNETES, KUBERNETES_VERSIONS, Component, kubernetes
from devcluster.errors import DevclusterError


@pytest.fixture
def component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Component:
    """A component with pins of its own, and a cache of its own."""
    monkeypatch.setattr(binaries, "GO_SOURCES", tmp_path / "go")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "go" / "tool"
    source.mkdir(parents=True)
    (source / "go.mod").write_text("module tool\n")
    (source / "go.sum").write_text("")
    return Component("tool", "v1.2.3", {"tool": "example.com/tool/v2/cmd/server"})


def test_the_key_names_component_and_version(component: Component) -> None:
    """A folder in the cache tells what it holds."""
    assert component.key.startswith("tool-v1.2.3-")
    assert component.folder.parent == paths.cache()


@pytest.mark.parametrize("pin", ["go.mod", "go.sum"])
def test_a_changed_pin_changes_the_key(component: Component, pin: str) -> None:
    """Else an old program would be used for new pins."""
    before = component.key
    (component.source / pin).write_text("changed\n")
    assert component.key != before


def test_changed_variables_change_the_key(component: Component) -> None:
    """They are linked into the program."""
    stamped = Component(component.name, component.version, component.packages, {"main.version": "v1"})
    assert stamped.key != component.key


def test_a_finished_build_is_not_repeated(component: Component, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder appears by rename only when the build is complete."""
    component.folder.mkdir(parents=True)
    monkeypatch.setattr(binaries, "_build", lambda _: pytest.fail("built again"))
    binaries.ensure((component,))


def test_an_interrupted_build_leaves_nothing_to_mistake(component: Component) -> None:
    """What a killed build left is removed by the next one, and never looks finished."""
    leftover = paths.cache() / f".{component.key}.x1"
    leftover.mkdir(parents=True)
    assert not component.folder.exists()
    binaries._remove_interrupted_builds(component)
    assert not leftover.exists()


def test_programs_get_their_own_names(component: Component) -> None:
    """Go would call it `server`."""
    output = paths.cache() / "out"
    output.mkdir(parents=True)
    (output / "server").touch()
    binaries._name_programs(component, output)
    assert [path.name for path in output.iterdir()] == ["tool"]


@pytest.mark.parametrize("pinned", COMPONENTS, ids=lambda component: component.name)
def test_the_pins_agree_with_the_versions(pinned: Component) -> None:
    """The version in the code names the cache; the version in go.mod is what is built."""
    pins = (pinned.source / "go.mod").read_text()
    assert pinned.name == "pause" or f" {pinned.version}" in pins


@pytest.mark.parametrize("minor", KUBERNETES_VERSIONS)
def test_every_staging_module_of_kubernetes_is_replaced(minor: str) -> None:
    """Kubernetes requires its own modules at v0.0.0, which does not exist."""
    component = kubernetes(minor)
    pins = (component.source / "go.mod").read_text()
    assert f"k8s.io/kubernetes {component.version} " in pins
    staged = component.version.replace("v1", "v0", 1)
    assert len(re.findall(rf"^\tk8s\.io/\S+ => k8s\.io/\S+ {re.escape(staged)}$", pins, re.MULTILINE)) >= 28


def test_a_minor_without_pins_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(DevclusterError, match=r"DEVCLUSTER_KUBERNETES=1\.12: there are pins for 1\.30, 1\.35, 1\.37"):
        kubernetes("1.12")


def test_the_build_command_links_the_version_in() -> None:
    """A Kubernetes of no version is refused by its own clients."""
    command = binaries.build_command(KUBERNETES, Path("/out"))
    assert "component-base/version.gitVersion=v1.35.4" in command[command.index("-ldflags") + 1]
    assert binaries.build_command(ETCD, Path("/out"))[-1] == "go.etcd.io/etcd/server/v3"


@pytest.mark.parametrize(("found", "problem"), [
    pytest.param("go1.26.8", "", id="newer"),
    pytest.param("go1.26.0", "", id="that very one"),
    pytest.param("go1.27rc1", "", id="a candidate"),
    pytest.param("go1.9.7", "needs Go 1.26.0 or newer, and `go` in PATH is 1.9.7", id="older, by number"),
    pytest.param(None, "needs Go 1.26.0 or newer, and there is no `go` in PATH", id="none"),
])  # fmt: skip
def test_the_version_of_go_is_checked(component: Component, found: str | None, problem: str) -> None:
    """Before a build that would end after minutes with an error of the compiler's."""
    (component.source / "go.mod").write_text("module tool\n\ngo 1.26.0\n")
    if not problem:
        binaries.require_go(component, found)
        return
    with pytest.raises(DevclusterError, match=re.escape(f"building tool v1.2.3 {problem}")):
        binaries.require_go(component, found)
