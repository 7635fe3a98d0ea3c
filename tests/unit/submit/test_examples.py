"""The manifests in examples/ are ones that `prepare` takes."""

from pathlib import Path

import pytest
import yaml

from colocation.submit import prepare
from colocation.submit.direct import direct_submission

from .applications_under_test import sales_group

FOLDER = Path(__file__).resolve().parents[3] / "examples"
APPLICATIONS = ("spark-applications/*.yaml", "sql-server/2-application.yaml", "spark-connect/*.yaml", "airflow/*.yaml",
                "kueue/application.yaml")  # fmt: skip
EXAMPLES = sorted(file for pattern in APPLICATIONS for file in FOLDER.glob(pattern))
OWN_IMAGE = "registry.example/shop/join:1"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_an_example_is_placed(file: Path) -> None:
    """As it stands; applications run without an operator, too."""
    group = sales_group()
    prepared = prepare(yaml.safe_load(file.read_text()), group)
    assert prepared.decision.colocated
    if prepared.kind.kind == "SparkApplication":
        name = prepared.application["metadata"]["name"]
        assert direct_submission(prepared, name).image in (OWN_IMAGE, group.spark_image)
