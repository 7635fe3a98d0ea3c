"""The description of the admin API, OpenAPI 3.1: ``openapi.yaml``, as JSON.

``python -m colocation.admin_api.openapi [FILE]`` writes ``docs/reference/admin-api.openapi.json``
unless another path is given. The file is committed; a test compares it with what this module makes.
"""

import json
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

DOCUMENT = Path("docs/reference/admin-api.openapi.json")


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    described: dict[str, Any] = yaml.safe_load(resources.files(__package__).joinpath("openapi.yaml").read_text())
    return described


def render() -> str:
    """The file's text."""
    return json.dumps(document(), indent=2) + "\n"


def main() -> None:
    """Write the file."""
    (Path(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENT).write_text(render())


if __name__ == "__main__":
    main()
