"""The manifests in examples/ are ones that `prepare` takes."""

from pathlib import Path

import pytest
import yaml

from colocation.submit import prepare
from colocation.submit.direct import direct_submission

from .applications_under_test import sales_group

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples" / "spark-applications").glob("*.yaml"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.stem))
def test_an_example_is_placed(file: Path) -> None:
    """As it stands; those that are no schedule run without an operator, too."""
    prepared = prepare(yaml.safe_load(file.read_text()), sales_group())
    assert prepared.decision.colocated
    if prepared.kind.flavour != "scheduled":
        name = prepared.application["metadata"]["name"]
        assert direct_submission(prepared, name).image == "registry.example/shop/join:1"
