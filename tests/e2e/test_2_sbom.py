"""The list of what is in the images that everything here runs from."""

import json
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from demo.cluster import OPERATOR_IMAGE, SPARK_IMAGE
from devcluster import images, sbom

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("loaded")]


@pytest.mark.parametrize(
    ("name", "packages"),
    [
        (OPERATOR_IMAGE, {"debian", "nginx-light", "kopf", "colocation"}),
        (SPARK_IMAGE, {"debian", "openjdk-17-jre-headless", "pyspark", "colocation", "colocation-spark", "zstd-jni"}),
    ],
)
def test_sbom_lists_what_is_in_the_image(name: str, packages: set[str], tmp_path: Path) -> None:
    """Debian packages, Python packages and jars, in a document that follows its specification."""
    [image] = images.export([name])
    content = sbom.write(image, tmp_path).read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(content) is None
    assert packages <= {one["name"] for one in json.loads(content)["components"]}
