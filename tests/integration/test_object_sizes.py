"""The fullest group that is promised to fit: a real API server and etcd store it."""

import pytest

from tests.unit.manifests.test_object_sizes import fullest_group

from .control_plane import ControlPlane
from .objects import as_json


@pytest.mark.parametrize("by_hand", [False, True], ids=["map of the operator's", "map set by hand"])
def test_the_fullest_group_is_stored(cluster: ControlPlane, namespace: str, by_hand: bool) -> None:
    """Written as the operator does it: a merge patch of the status."""
    spec, status = fullest_group(by_hand)
    body = {
        "apiVersion": "colocation.dev/v1alpha1", "kind": "ColocationGroup",
        "metadata": {"name": "full"}, "spec": spec.to_json_dict(),
    }  # fmt: skip
    made = cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=as_json(body))
    assert made.returncode == 0, made.stderr
    patch = ["patch", "cg", "full", "-n", namespace, "--subresource=status", "--type=merge", "--patch-file=/dev/stdin"]
    written = cluster.kubectl(*patch, stdin=as_json({"status": status.to_json_dict()}))
    assert written.returncode == 0, written.stderr
    names = cluster.kubectl("get", "cg", "full", "-n", namespace, "-o", "jsonpath={.status.members[*].name}").stdout
    assert len(names.split()) == len(status.members)
