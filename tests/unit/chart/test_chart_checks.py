"""What the chart refuses by what is in the cluster: a second installation, values that would leave all data behind."""

from pathlib import Path
from typing import Any

import pytest

from .cluster_with import NAMESPACE, rendered_with, secret
from .conftest import ChartRefused, Render, one

BY_HELM = {"meta.helm.sh/release-name": "colocation", "meta.helm.sh/release-namespace": NAMESPACE}


@pytest.fixture
def installed(render: Render) -> list[dict[str, Any]]:
    """The objects of an installation that the checks look at."""
    objects = render()
    found = [one(objects, "DaemonSet", "colocation-agent"), one(objects, "ClusterRoleBinding", "colocation-operator")]
    for item in found:
        item["metadata"]["annotations"] = BY_HELM
    return found


def test_upgrade_that_keeps_what_must_stay_is_taken(
    helm: Path, tmp_path: Path, installed: list[dict[str, Any]]
) -> None:
    """All else may change."""
    assert rendered_with(helm, tmp_path, installed, "logFormat=json", "agent.nodeSelector.disk=fast")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("dataRoot=/disk", "below dataRoot /var/lib/colocation; below /disk there would be none of them"),
        ("runAsUser=1000", "belong to user 10440; agents of user 1000 could not change them"),
    ],
)
def test_values_that_leave_all_files_behind_are_refused(
    helm: Path, tmp_path: Path, installed: list[dict[str, Any]], setting: str, message: str
) -> None:
    """Every node would begin with an empty folder, or with one that it may not write."""
    with pytest.raises(ChartRefused, match=message):
        rendered_with(helm, tmp_path, installed, setting)
    assert rendered_with(helm, tmp_path, [], setting)


@pytest.mark.parametrize(
    ("namespace", "release"), [("data-platform", "colocation"), ("data-platform", "other"), ("colocation", "other")]
)
def test_second_installation_is_refused(
    namespace: str, release: str, helm: Path, tmp_path: Path, installed: list[dict[str, Any]]
) -> None:
    """Both would share the cluster's roles and bindings, and the first one would lose its rights."""
    [binding] = [item for item in installed if item["kind"] == "ClusterRoleBinding"]
    binding["subjects"][0]["namespace"] = namespace
    binding["metadata"]["annotations"]["meta.helm.sh/release-name"] = release
    with pytest.raises(ChartRefused, match=f"installed in namespace {namespace} as release {release}, and a cluster"):
        rendered_with(helm, tmp_path, [binding])


def test_helm_does_not_delete_the_ca_that_it_made(helm: Path, tmp_path: Path) -> None:
    """A Job would create another one, which running queries do not trust."""
    made = secret("colocation-agent-authority", "colocation", **{"tls.crt": "", "tls.key": ""})
    with pytest.raises(ChartRefused, match=r"Helm has made the CA .* keep agent\.tls\.caFrom=chart"):
        rendered_with(helm, tmp_path, [made], "agent.tls.caFrom=job")
