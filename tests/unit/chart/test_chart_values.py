"""values.yaml, its schema, and the chart's copy of the CRDs."""

import json
from typing import Any

import jsonschema
import pytest
import yaml

from .conftest import CHART, REPOSITORY, ChartRefused, Render

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def allowed(values: dict[str, Any]) -> bool:
    return jsonschema.Draft7Validator(SCHEMA).is_valid(values)


@pytest.mark.parametrize(
    ("tag", "is_allowed"),
    [("1.2.3", True), ("", True), ("20261201", True), (20261201, False), (1.1, False), ("a b", False)],
)
def test_an_image_tag_is_text(tag: object, is_allowed: bool) -> None:
    """Helm writes the number 20261201 as 2.0261201e+07, and 1.10 as 1.1: no such image is found."""
    assert allowed({**VALUES, "image": {**VALUES["image"], "tag": tag}}) is is_allowed


@pytest.mark.parametrize(
    ("quantity", "is_allowed"),
    [("1Gi", True), ("100m", True), (1, True), ("1.5", True), (".5", True), ("1e9", True), ("1e-3", True),
     ("1GB", False), ("1g", False)],
)  # fmt: skip
@pytest.mark.parametrize("part", ["operator", "agent"])
def test_a_quantity_is_one_of_kubernetes(part: str, quantity: object, is_allowed: bool) -> None:
    """The API server would refuse it in the middle of an upgrade, and name neither the value nor its place."""
    resources = {"requests": {"cpu": quantity}, "limits": {"memory": quantity}}
    assert allowed({**VALUES, part: {**VALUES[part], "resources": resources}}) is is_allowed


def leaves(values: dict[str, Any], schema: dict[str, Any], path: str = "") -> list[str]:
    """Every place of values.yaml that the schema does not describe."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    unknown = [f"{path}{key}" for key in values if "properties" in schema and key not in schema["properties"]]
    for key, value in values.items():
        if isinstance(value, dict) and key in schema.get("properties", {}):
            unknown += leaves(value, schema["properties"][key], f"{path}{key}.")
    return unknown


SYSTEM_FOLDERS = ("/etc", "/usr/local/data", "/tmp", "/var", "/var/lib", "/var/log", "/home", "/proc/1/root", "/root",
                  "/var/lib/kubelet/pods")  # fmt: skip


def test_the_defaults_are_allowed_and_described() -> None:
    """Every value of values.yaml stands in the schema and fits it."""
    jsonschema.Draft7Validator(SCHEMA).validate(VALUES)
    assert leaves(VALUES, SCHEMA) == []


def test_every_described_value_has_a_default() -> None:
    """values.yaml shows all that can be set; `global` is Helm's own."""

    def missing(schema: dict[str, Any], values: Any, path: str) -> list[str]:
        found = []
        for key, part in schema.get("properties", {}).items():
            if key not in values:
                found.append(f"{path}{key}")
            elif "properties" in part and isinstance(values[key], dict):
                found += missing(part, values[key], f"{path}{key}.")
        return found

    assert missing(SCHEMA, VALUES, "") == ["global"]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"dataroot": "/disk"}, id="misspelt"),
        pytest.param({"agent": {"scrub": {"enabled": True}}}, id="unknown inside"),
        pytest.param({"runAsUser": 0}, id="root"),
        pytest.param({"disableColocateBalance": "yes"}, id="a word for a switch"),
        pytest.param({"limits": {"diskHeadroomFraction": 1}}, id="no disk left"),
        pytest.param({"limits": {"maxConcurrentClonesPerNode": 0}}, id="no clones"),
        pytest.param({"limits": {"cloneBandwidth": {"perNodeMiBPerSecond": 0}}}, id="clones that stand still"),
        pytest.param({"limits": {"cloneBandwidth": {"perClusterMiBPerSecond": "fast"}}}, id="a word for a speed"),
        pytest.param({"agent": {"maxRequests": {"perAddress": 0}}}, id="no requests"),
        pytest.param({"operator": {"logLevel": "debug"}}, id="log level in small letters"),
        pytest.param({"image": {"repository": "x", "pullPolicy": "Sometimes"}}, id="unknown pull policy"),
        pytest.param({"image": {"repository": "x", "digest": "sha256:0123"}}, id="digest cut short"),
        pytest.param({"spark": {"digest": "sha256:0123"}}, id="Spark's digest cut short"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any]) -> None:
    """The schema knows every value by name and bounds."""
    assert not allowed(values)


@pytest.mark.parametrize(
    "path", ["/mnt", "/mnt/disks/ssd0", "/var/lib/colocation", "/data", "/opt/data", "/home/data", "/srv"]
)
def test_folders_for_data_are_allowed(render: Render, path: str) -> None:
    """Also below folders of the system's that others may use."""
    assert render(dataRoot=path)


@pytest.mark.parametrize("path", ["relative/path", "/", "/disk/", "/my disk", *SYSTEM_FOLDERS])
def test_other_folders_for_data_are_refused(render: Render, path: str) -> None:
    """In a sentence: of a schema Helm would print "'not' failed"."""
    with pytest.raises(ChartRefused, match=f'dataRoot is "{path}": give a folder for the data alone, .* such as /var/'):
        render(dataRoot=path)


def test_helm_names_the_wrong_value(render: Render) -> None:
    """The refusal reaches the user of helm."""
    with pytest.raises(ChartRefused, match="dataroot"):
        render(dataroot="/disk")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"existingSecret": "mine"}, r"set agent\.tls\.previousSecret to \"mine\"", id="one key for all"),
        pytest.param(
            {"signerName": "clusterissuers.cert-manager.io/ours"}, r"give the PEM .* as agent\.tls\.ca", id="no CA"
        ),
        pytest.param({"caSecret": "mine"}, r"no such Secret with tls\.crt", id="no Secret"),
        pytest.param(
            {"signerName": "kubernetes.io/kubelet-serving"},
            r'signerName is "kubernetes.io/kubelet-serving": give .*DOMAIN/NAME', id="another one's signer",
        ),
        pytest.param({"signerName": "ours"}, r'signerName is "ours": give .*DOMAIN/NAME', id="no domain"),
    ],
)
def test_certificates_that_cannot_be_are_explained(render: Render, values: dict[str, str], message: str) -> None:
    """With what to do instead."""
    with pytest.raises(ChartRefused, match=message):
        render(**{f"agent.tls.{name}": value for name, value in values.items()})


def test_more_requests_of_an_address_than_of_all_are_refused(render: Render) -> None:
    """At once, and not by agents that do not start."""
    with pytest.raises(ChartRefused, match=r"perAddress is 4096, and agent\.maxRequests\.total is 2048"):
        render(**{"agent.maxRequests.perAddress": 4096})


def test_the_charts_crds_are_the_generated_ones() -> None:
    """`make crds` keeps the copy; a stale one would install an older API."""
    generated = {path.name: path.read_text() for path in (REPOSITORY / "crds").glob("*.yaml")}
    packaged = {path.name: path.read_text() for path in (CHART / "crds").glob("*.yaml")}
    assert generated
    assert packaged == generated
