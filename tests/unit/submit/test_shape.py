"""A manifest whose fields have another shape than Kubernetes' is refused with the field's path."""

from collections.abc import Mapping
from typing import Any

import pytest

from colocation.submit import ManifestError
from colocation.submit.manifest import check_shape

NODE_TERMS = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}


def application(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "join"}, "spec": fields}


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        pytest.param({"metadata": {"name": 5}}, "metadata.name is 5; allowed: a text", id="a-number-as-name"),
        pytest.param({"metadata": {"labels": ["a"]}}, "metadata.labels is ['a']; allowed: a mapping", id="labels"),
        pytest.param({"spec": []}, "spec is []; allowed: a mapping", id="spec"),
        pytest.param(application(driver=1), "spec.driver is 1; allowed: a mapping", id="driver"),
        pytest.param(application(volumes={"v": {}}), "spec.volumes is {'v': {}}; allowed: a list of", id="volumes"),
        pytest.param(application(executor={"env": ["A=b"]}), "spec.executor.env[0] is 'A=b'; allowed", id="variable"),
        pytest.param(application(sparkConf={"spark.executor.cores": 2}),
                     "spec.sparkConf[spark.executor.cores] is 2; allowed: a text, in quotes if", id="a-number-as-text"),
        pytest.param(application(executor={"volumeMounts": [{"mountPath": ["/v"]}]}),
                     "spec.executor.volumeMounts[0].mountPath is ['/v']; allowed: a text", id="a-list-as-path"),
        pytest.param(application(driver={"template": {"spec": {"containers": [None]}}}),
                     "spec.driver.template.spec.containers[0] is None; allowed: a mapping", id="container"),
        pytest.param(application(executor={"affinity": NODE_TERMS}),
                     "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution is []", id="node-affinity"),
    ],
)  # fmt: skip
def test_a_wrong_shape_is_refused_by_its_path(manifest: Mapping[str, Any], message: str) -> None:
    """What the field holds, and what is allowed there."""
    with pytest.raises(ManifestError) as refused:
        check_shape(manifest)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param({"metadata": None, "spec": {"driver": None, "volumes": None}}, id="absent"),
        pytest.param({"metadata": {"labels": {"env": "test", "spec": "1"}}}, id="free-keys"),
        pytest.param(application(executor={"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}}), id="pod-affinity"),
    ],
)  # fmt: skip
def test_what_kubernetes_takes_is_taken(manifest: Mapping[str, Any]) -> None:
    """Keys that people choose may be called like fields."""
    check_shape(manifest)
