"""examples/clouds: an API server takes the DaemonSet as kustomize makes it; Karpenter's own schema, the NodePool."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .control_plane import ControlPlane, running_control_plane

CLOUDS = Path(__file__).parents[2] / "examples" / "clouds"
KARPENTER = "sigs.k8s.io/karpenter@v1.8.0"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """A control plane that allows privileged pods, as clusters do."""
    with running_control_plane("--allow-privileged=true") as plane:
        yield plane


@pytest.fixture
def karpenter(cluster: ControlPlane, tmp_path: Path) -> None:
    """Karpenter's definition of NodePools, from its Go module."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", KARPENTER], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    crd = Path(json.loads(done.stdout)["Dir"]) / "pkg" / "apis" / "crds" / "karpenter.sh_nodepools.yaml"
    assert cluster.kubectl("apply", "--server-side", "-f", str(crd)).returncode == 0
    waited = cluster.kubectl("wait", "--for=condition=Established", "crd/nodepools.karpenter.sh", "--timeout=90s")
    assert waited.returncode == 0, waited.stderr


def test_the_disks_daemon_set(cluster: ControlPlane) -> None:
    """The script is in it whole, under the name by which the pods find it."""
    made = cluster.kubectl("kustomize", str(CLOUDS)).stdout
    done = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", "-o", "json", stdin=made)
    assert done.returncode == 0, done.stderr
    kinds = {item["kind"]: item for item in json.loads(done.stdout)["items"]}
    [mount] = kinds["DaemonSet"]["spec"]["template"]["spec"]["initContainers"]
    source = mount["env"][-1]["valueFrom"]["configMapKeyRef"]
    assert source["name"] == kinds["ConfigMap"]["metadata"]["name"]
    assert kinds["ConfigMap"]["data"][source["key"]] == (CLOUDS / "local-disk.sh").read_text()


@pytest.mark.usefixtures("karpenter")
def test_the_node_pool(cluster: ControlPlane) -> None:
    """Karpenter's rules hold, those in CEL, too; and it waits for holder pods as long as they need."""
    path = str(CLOUDS / "karpenter.yaml")
    done = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", path, "-o", "json")
    assert done.returncode == 0, done.stderr
    spec = json.loads(done.stdout)["spec"]
    assert spec["disruption"]["budgets"] == [{"nodes": "1"}]
    assert spec["template"]["spec"]["expireAfter"] == "Never"
    assert "terminationGracePeriod" not in spec["template"]["spec"]
