"""Renders the chart with the pinned helm, which is built where it is not there yet."""

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import binaries

REPOSITORY = Path(__file__).resolve().parents[3]
CHART = REPOSITORY / "charts" / "colocation-operator"

IMAGE = ("--set", "image.repository=colocation-operator")
"""The one value that the chart requires."""
Render = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def helm() -> Path:
    """The pinned helm."""
    binaries.ensure((binaries.HELM,))
    return binaries.HELM.program("helm")


@pytest.fixture(scope="session")
def render(helm: Path) -> Render:
    """``render(**{"agent.scrub.mibPerSecond": 5})`` gives the chart's objects with these values set."""

    def rendered(**values: object) -> list[dict[str, Any]]:
        settings = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
        return [item for item in yaml.load_all(template(*settings), Loader=yaml.CSafeLoader) if item]

    @cache
    def template(*settings: str) -> str:
        command = [str(helm), "template", "colocation", str(CHART), "--namespace", "colocation-system"]
        done = subprocess.run([*command, *IMAGE, *settings], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ChartRefused(done.stderr)
        return done.stdout

    return rendered


class ChartRefused(RuntimeError):
    """Helm does not render the chart with these values."""


def one(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The one object of this kind and name."""
    found = [item for item in objects if (item["kind"], item["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1, f"{len(found)} objects {kind}/{name}"
    return found[0]


def only_container(workload: dict[str, Any]) -> dict[str, Any]:
    """The one container of a Deployment's or DaemonSet's pods."""
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


def variables(workload: dict[str, Any]) -> dict[str, str | None]:
    """The environment of the one container; None for a value from a field."""
    return {item["name"]: item.get("value") for item in only_container(workload)["env"]}
