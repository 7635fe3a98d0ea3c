"""The chart, rendered with the pinned helm for the namespace of the tests' installations."""

import subprocess
from pathlib import Path

import yaml

from devcluster import binaries

from .objects import JsonObject

CHART = Path(__file__).parents[2] / "charts" / "colocation-operator"
SYSTEM = "colocation-system"


def rendered(*kinds: str, settings: str = "") -> list[JsonObject]:
    """The objects of these kinds; ``settings`` as for ``helm --set``."""
    return [item for item in _template(*(["--set", settings] if settings else [])) if item["kind"] in kinds]


def rendered_with(**values: object) -> list[JsonObject]:
    """All objects with these values set."""
    settings = [word for key, value in values.items() for word in ("--set", f"{key}={str(value).lower()}")]
    return _template(*settings)


def _template(*settings: str) -> list[JsonObject]:
    binaries.ensure((binaries.HELM,))
    command = [str(binaries.HELM.program("helm")), "template", "colocation", str(CHART), "--namespace", SYSTEM,
               "--set", "image.repository=colocation-operator"]  # fmt: skip
    done = subprocess.run([*command, *settings], capture_output=True, text=True, check=True)
    return [item for item in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if item]
