"""Where the chart takes its images from, and what it does when no value names them."""

import pytest

from .conftest import ChartRefused, Render, only_container, variables
from .conftest import one as find

SPARK = "COLOCATION_SPARK_IMAGE"


def test_no_repository_is_refused_with_what_to_set(render: Render) -> None:
    """Else the pods would wait for an image that was never published."""
    what = r"image\.repository is empty.*--set image\.repository=REGISTRY.*--reset-then-reuse-values"
    with pytest.raises(ChartRefused, match=what):
        render(**{"image.repository": ""})


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("/colocation-operator", id="without REGISTRY"),
        pytest.param("r.example/data/colocation-operator:0.1.0", id="with the tag"),
        pytest.param("https://r.example/data/colocation-operator", id="with the scheme"),
        pytest.param("r.example/Data/colocation-operator", id="in capitals"),
    ],
)
def test_a_repository_that_names_no_image_is_refused(render: Render, given: str) -> None:
    """Else pods wait with InvalidImageName, and `kubectl rollout status` prints nothing for ten minutes."""
    with pytest.raises(ChartRefused, match=r"image\.repository is .*export REGISTRY="):
        render(**{"image.repository": given})


@pytest.mark.parametrize(
    ("given", "spark_image"),
    [
        pytest.param({}, "colocation-spark:0.1.0", id="on the nodes"),
        pytest.param({"image.repository": "r.example:5000/data/colocation-operator"},
                     "r.example:5000/data/colocation-spark:0.1.0", id="of a registry"),
        pytest.param({"image.repository": "r.example/colocation-operator", "image.tag": "0.1.0-dev"},
                     "r.example/colocation-spark:0.1.0-dev", id="with a tag of its own"),
        pytest.param({"image.repository": "r.example/ours", "spark.image": "r.example/spark:4"},
                     "r.example/spark:4", id="given"),
    ],
)  # fmt: skip
def test_the_spark_image_follows_the_operators(render: Render, given: dict[str, str], spark_image: str) -> None:
    """One value names both, as both are pushed to the same place."""
    operator = find(render(**given), "Deployment", "colocation-operator")
    assert variables(operator)[SPARK] == spark_image


def test_a_name_that_none_can_be_derived_from_is_refused(render: Render) -> None:
    """Mirrors may rename images."""
    with pytest.raises(ChartRefused, match=r"spark\.image is empty.*--set spark\.image=REGISTRY/colocation-spark:"):
        render(**{"image.repository": "r.example/mirror/ours"})


def test_a_job_creates_the_ca_where_helm_must_not(render: Render) -> None:
    """No key is rendered, and the operator, which mounts the Secret, waits for the Job."""
    objects = render(**{"agent.tls.caFrom": "job", "adminApi.enabled": "false"})
    assert [item for item in objects if item["kind"] in ("Secret", "ConfigMap") and "ca.crt" in item["data"]] == []
    assert "PRIVATE KEY" not in str(objects)
    [job] = [item for item in objects if item["kind"] == "Job"]
    assert only_container(job)["command"][-1] == "colocation.controller.create_ca"


def test_a_job_and_a_ca_of_ones_own_exclude_each_other(render: Render) -> None:
    """Which of both would sign?"""
    with pytest.raises(ChartRefused, match=r"agent\.tls\.caFrom is job, and agent\.tls\.caSecret is \"mine\""):
        render(**{"agent.tls.caFrom": "job", "agent.tls.caSecret": "mine"})
