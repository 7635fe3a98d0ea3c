"""The applications of ``examples/`` as pods: as they are, but for smaller pods, this story's group and its image."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from demo import workload
from demo.shell import COLOCATION, REPOSITORY, run

from .applications import PROGRAMS
from .conftest import Loaded

pytestmark = [pytest.mark.e2e, pytest.mark.deep]

EXAMPLES = REPOSITORY / "examples"
SMALL = {"cores": 1, "coreRequest": "200m", "memory": "1g"}
SMALL_CONF = {
    "spark.executor.cores": "1", "spark.executor.memory": "1g",
    "spark.kubernetes.driver.request.cores": "200m", "spark.kubernetes.executor.request.cores": "200m",
}  # fmt: skip
PROGRAM = {  # where the user's image has it
    "containers": [{"name": "spark-kubernetes-driver",
                    "volumeMounts": [{"name": "app", "mountPath": "/app", "readOnly": True}]}],
    "volumes": [{"name": "app", "hostPath": {"path": str(PROGRAMS), "type": "Directory"}}],
}  # fmt: skip
WITHOUT_AN_OPERATOR = ("--direct",)


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("spark-applications/kubeflow.yaml", ()),
        ("spark-applications/kubeflow-dynamic.yaml", ()),
        ("spark-applications/apache.yaml", WITHOUT_AN_OPERATOR),
        ("kueue/application.yaml", ()),
        ("airflow/join.yaml", ()),
    ],
)
def test_an_application_runs(loaded: Loaded, file: str, options: tuple[str, ...]) -> None:
    """Its join has all rows, and no shuffle."""
    body = in_this_story(EXAMPLES / file)
    said = run([COLOCATION, "submit", "--replace", "-f", "-", *options], stdin=yaml.safe_dump(body)).stdout
    assert workload.result_of(said) == {"rows": loaded.oracle.row_count("lineitem"), "colocate": True}


def in_this_story(file: Path) -> dict[str, Any]:
    """The example in this story's namespace and group."""
    body: dict[str, Any] = yaml.safe_load(file.read_text())
    name = f"example-{file.parent.name}-{file.stem}"
    body["metadata"] = {"name": name, "namespace": workload.NAMESPACE, "labels": {
        **body["metadata"]["labels"], "colocation.dev/group": workload.GROUP}}  # fmt: skip
    spec = body["spec"]
    spec.pop("image", None)
    if body["apiVersion"].startswith("spark.apache.org"):
        spec["sparkConf"] |= SMALL_CONF
        del spec["sparkConf"]["spark.kubernetes.container.image"]
        spec["driverSpec"] = {"podTemplateSpec": {"spec": PROGRAM}}
        return body
    for role in ("driver", "executor"):
        spec[role] |= SMALL
    spec["driver"]["template"] = {"spec": PROGRAM}
    return workload.with_java_options(body)
