"""scripts/quickstart with a user's mistakes: nothing is built, and the message has the next step."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from devcluster import binaries

QUICKSTART = Path(__file__).parents[3] / "scripts" / "quickstart"
UNUSED_ADDRESS = "https://127.0.0.1:1"
SHELL_TOOLS = ("bash", "dirname", "sed", "grep", "cat")


def kubeconfig(folder: Path, context: str) -> Path:
    """Of a cluster that does not answer."""
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": context,
        "clusters": [{"name": "it", "cluster": {"server": UNUSED_ADDRESS}}],
        "contexts": [{"name": context, "context": {"cluster": "it", "user": ""}}],
    }))  # fmt: skip
    return path


@pytest.mark.parametrize(
    ("missing", "context", "message"),
    [
        pytest.param(("helm",), "kind-it", "helm is not on PATH", id="a program is missing"),
        pytest.param(("mvn",), "kind-it", "mvn is not on PATH", id="what builds the jar is missing"),
        pytest.param((), "", "kind create cluster --config", id="no cluster"),
        pytest.param((), "eks", "REGISTRY=registry.example.com/data make", id="no registry"),
        pytest.param(("k3d",), "k3d-it", "k3d, which is not on PATH", id="no k3d"),
        pytest.param((), "kind-it", "kind-it does not list its nodes", id="it is stopped"),
    ],
)
def test_mistakes_end_before_the_first_step(
    missing: tuple[str, ...], context: str, message: str, tmp_path: Path
) -> None:
    """Exit code 1, and no program but kubectl was run."""
    binaries.ensure((binaries.KUBERNETES,))
    tools = fake_tools(tmp_path, missing)
    (tools / "kubectl").unlink()
    (tools / "kubectl").symlink_to(binaries.KUBERNETES.program("kubectl"))
    config = kubeconfig(tmp_path, context) if context else tmp_path / "none"
    done = quickstart(tools, KUBECONFIG=str(config))
    assert done.returncode == 1
    assert message in done.stderr
    assert ran(tmp_path) == ["docker version"] if "list its nodes" in message else ran(tmp_path) == []


PROGRAMS = ("docker", "kubectl", "helm", "make", "python3", "java", "mvn", "kind", "k3d")
FAKE = """\
#!/bin/sh
case "$0 $*" in
  *"kubectl get "* | *"kubectl config "*) ;;  # changes nothing
  *) echo "${0##*/} $*" >> "$HOME/ran" ;;
esac
case "$0 $*" in
  *"$REFUSED"*) echo "no: $*" >&2; exit 1 ;;
  *current-context) echo "$CONTEXT" ;;
  *"get nodes"*) printf 'node-1 \\nnode-2 \\nnode-3 NoSchedule\\n' ;;
  *" apply -f -") cat > "$HOME/applied" ;;
esac
"""


def fake_tools(folder: Path, missing: tuple[str, ...] = ()) -> Path:
    """A PATH whose programs write down how they were run; those whose words have ``$REFUSED`` fail."""
    tools = folder / "bin"
    tools.mkdir()
    for name in set(PROGRAMS) - set(missing):
        (tools / name).write_text(FAKE)
        (tools / name).chmod(0o755)
    for name in SHELL_TOOLS:  # and no other program of this machine
        (tools / name).symlink_to(shutil.which(name) or name)
    return tools


def quickstart(tools: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """It runs, with these programs alone."""
    given = {"PATH": str(tools), "HOME": str(tools.parent), "CONTEXT": "kind-it", "REFUSED": "nothing", **environment}
    command = [str(tools / "bash"), str(QUICKSTART)]
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=60)


def ran(folder: Path) -> list[str]:
    """What was run, without kubectl's questions."""
    path = folder / "ran"
    return path.read_text().splitlines() if path.exists() else []


def is_change(command: str) -> bool:
    """Whether it builds something, or changes the cluster."""
    return command != "docker version" and "--dry-run=server" not in command


@pytest.mark.parametrize(
    ("registry", "refused", "message"),
    [
        pytest.param("https://registry.example.com/data", "nothing", "without https://", id="an address"),
        pytest.param("registry.example.com/data/", "nothing", "without / at the end", id="a slash too many"),
        pytest.param("registry.example.com/Data", "nothing", "a path in lower case", id="upper case"),
        pytest.param("registry.example.com:5000", "docker version", "Docker does not answer", id="no Docker"),
        pytest.param("registry.example.com", "crds/ --dry-run=server", "an administrator", id="no rights"),
        pytest.param("registry.example.com", "helm upgrade", "helm rollback colocation", id="an interrupted Helm"),
    ],
)
def test_what_the_cluster_refuses_is_refused_before_the_builds(
    registry: str, refused: str, message: str, tmp_path: Path
) -> None:
    """Builds take minutes."""
    done = quickstart(fake_tools(tmp_path), CONTEXT="eks", REGISTRY=registry, REFUSED=refused)
    assert done.returncode == 1
    assert message in done.stderr
    assert [one for one in ran(tmp_path) if is_change(one)] == []


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        pytest.param("docker build", "repeat make quickstart", id="a build"),
        pytest.param("docker push", "docker login registry.example.com", id="a registry that wants a password"),
        pytest.param("rollout status", "docs/quickstart.md#when-it-does-not-work", id="agents do not start"),
        pytest.param("apply -f -", "docs/quickstart.md#remove-it", id="other tables are there"),
        pytest.param("wait --for=jsonpath", "docs/quickstart.md#when-it-does-not-work", id="the Job does not start"),
        pytest.param("condition=complete", "kubectl describe job first-join", id="the Job fails"),
    ],
)
def test_a_step_that_fails_names_the_next_one(refused: str, message: str, tmp_path: Path) -> None:
    """And it is the last one."""
    registry = "registry.example.com/data"
    done = quickstart(fake_tools(tmp_path), CONTEXT="eks", REGISTRY=registry, REFUSED=refused)
    assert done.returncode == 1
    assert message in done.stderr
    assert refused in ran(tmp_path)[-1]


@pytest.mark.parametrize(("context", "brought"), [
    ("kind-it", "kind load docker-image colocation-operator:"), ("k3d-it", "k3d image import colocation-operator:"),
    ("eks", "docker push registry.example.com/data/colocation-operator:"),
])  # fmt: skip
def test_all_steps(context: str, brought: str, tmp_path: Path) -> None:
    """The Job's image is the one that was built, and the exit code is 0."""
    registry = "registry.example.com/data" if context == "eks" else ""
    done = quickstart(fake_tools(tmp_path), CONTEXT=context, REGISTRY=registry)
    assert (done.returncode, done.stderr) == (0, "")
    assert any(one.startswith(brought) for one in ran(tmp_path))
    image = brought.split()[-1]
    assert f"image: {image}" in (tmp_path / "applied").read_text()
