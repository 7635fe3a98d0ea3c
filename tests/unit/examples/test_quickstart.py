"""scripts/quickstart with a user's mistakes: nothing is built, and the message has the next step."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from devcluster import binaries

QUICKSTART = Path(__file__).parents[3] / "scripts" / "quickstart"
UNUSED_ADDRESS = "https://127.0.0.1:1"
SHELL_TOOLS = ("bash", "dirname", "sed", "grep")


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
    ("programs", "context", "message"),
    [
        pytest.param(("docker", "kubectl"), "kind-it", "helm is not on PATH", id="a program is missing"),
        pytest.param(("docker", "kubectl", "helm"), "", "kind create cluster --config", id="no cluster"),
        pytest.param(("docker", "kubectl", "helm"), "eks", "REGISTRY=registry.example.com/data make", id="no registry"),
        pytest.param(("docker", "kubectl", "helm"), "k3d-it", "k3d, which is not on PATH", id="no k3d"),
        pytest.param(("docker", "kubectl", "helm", "kind"), "kind-it", "kind-it does not answer", id="it is stopped"),
    ],
)
def test_mistakes_end_before_the_first_step(
    programs: tuple[str, ...], context: str, message: str, tmp_path: Path
) -> None:
    """Exit code 1, and no program but kubectl was run."""
    binaries.ensure((binaries.KUBERNETES,))
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in programs:
        (tools / name).write_text(f"#!/bin/sh\necho {name} was run; exit 1\n")
        (tools / name).chmod(0o755)
    (tools / "kubectl").unlink()
    (tools / "kubectl").symlink_to(binaries.KUBERNETES.program("kubectl"))
    for name in SHELL_TOOLS:  # and no other program of this machine
        (tools / name).symlink_to(shutil.which(name) or name)
    config = kubeconfig(tmp_path, context) if context else tmp_path / "none"
    environment = {"PATH": str(tools), "KUBECONFIG": str(config), "HOME": str(tmp_path)}
    command = [str(tools / "bash"), str(QUICKSTART)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert "was run" not in done.stdout + done.stderr
