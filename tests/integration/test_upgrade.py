"""`helm upgrade` from the last release's chart, as docs/how-to/upgrade.md has it: nothing is refused or left behind.

Before the first release the chart upgrades itself, from its defaults to every option.
"""

import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from devcluster import binaries
from devcluster.shell import wait_until

from .charts import CHART, SYSTEM
from .control_plane import ControlPlane, running_control_plane
from .objects import COLUMNS, table
from .test_chart_objects import ALL_OPTIONS

ROOT = CHART.parents[1]
INSTALLED_BY_OTHERS = ("monitoring.enabled",)
"""Options whose kinds the API server of the tests does not serve."""


def last_release(folder: Path) -> Path:
    """The chart of the newest tag of a release; today's while there is none."""
    listed = subprocess.run(
        ["git", "tag", "--list", "v[0-9]*", "--sort=-version:refname", "--merged"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    tags = listed.stdout.split()
    if not tags:
        return CHART
    command = ["git", "archive", tags[0], str(CHART.relative_to(ROOT))]
    packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / CHART.relative_to(ROOT)


def helm(plane: ControlPlane, *arguments: str) -> str:
    binaries.ensure((binaries.HELM,))
    done = subprocess.run(
        [str(binaries.HELM.program("helm")), *arguments, "--namespace", SYSTEM, "--kubeconfig", str(plane.kubeconfig)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def apply_crds(plane: ControlPlane, chart: Path) -> None:
    done = plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(chart / "crds"))
    assert done.returncode == 0, done.stderr


@pytest.fixture
def cluster() -> Iterator[ControlPlane]:
    """A control plane of its own: Helm refuses ClusterRoles that other tests have applied."""
    with running_control_plane() as plane:
        yield plane


def test_upgrade_from_the_last_release(cluster: ControlPlane, tmp_path: Path) -> None:
    """CRDs by kubectl, then the chart. Every object that the new chart has is there afterwards, and groups are kept."""
    released = last_release(tmp_path)
    apply_crds(cluster, released)
    image = ("--set", "image.repository=colocation-operator")
    helm(cluster, "install", "colocation", str(released), "--create-namespace", *image)
    spec = {"bucketKey": ["bigint"], "buckets": 8, "replicas": 2}
    group = {"apiVersion": "colocation.dev/v1alpha1", "kind": "ColocationGroup",
             "metadata": {"name": "kept", "namespace": "default"}, "spec": spec}  # fmt: skip
    assert cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(group)).returncode == 0
    apply_crds(cluster, CHART)
    options = [
        word for name, value in ALL_OPTIONS.items() if name not in INSTALLED_BY_OTHERS
        for word in ("--set", f"{name}={str(value).lower()}")
    ]  # fmt: skip
    helm(cluster, "upgrade", "colocation", str(CHART), "--reset-then-reuse-values", *options)
    manifest = helm(cluster, "get", "manifest", "colocation")
    found = cluster.kubectl("get", "-f", "-", "-o", "name", stdin=manifest)
    assert found.returncode == 0, found.stderr
    assert len(found.stdout.split()) == len([item for item in yaml.safe_load_all(manifest) if item])
    kept = yaml.safe_load(cluster.kubectl("get", "cg", "kept", "-n", "default", "-o", "yaml").stdout)
    assert {name: kept["spec"][name] for name in spec} == spec
    helm(cluster, "uninstall", "colocation")


def test_tables_that_newer_rules_refuse_stay(cluster: ControlPlane) -> None:
    """A partition column's name that was allowed once: the table may change otherwise, and takes no new such name."""
    kind = yaml.safe_load((CHART / "crds" / "colocatedtables.yaml").read_text())
    rules = kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"]
    rules[:] = [rule for rule in rules if not rule.get("optionalOldSelf")]
    for body in (kind, table(columns=[*COLUMNS, {"name": ".day", "type": "date"}], partitionedBy=[".day"])):
        done = cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(body))
        assert done.returncode == 0, done.stderr
        cluster.kubectl("wait", "--for=condition=Established", "crd/colocatedtables.colocation.dev")
    apply_crds(cluster, CHART)
    change = ["patch", "ct", table()["metadata"]["name"], "--type=merge", "-p"]
    another = '{"spec": {"partitionedBy": [".day", "o_orderdate"]}}'
    message = "begins with a dot"
    wait_until(message, lambda: message in cluster.kubectl(*change, another, "--dry-run=server").stderr, 30)
    done = cluster.kubectl(*change, '{"spec": {"comment": "kept", "replicas": 2}}')
    assert done.returncode == 0, done.stderr
