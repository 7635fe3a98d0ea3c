"""Reads a SparkApplication from a file or from standard input."""

import sys
from pathlib import Path
from typing import Any

import yaml

from .errors import WrongUsage


def read_manifest(file: str) -> dict[str, Any]:
    """The one object in a YAML or JSON file; ``-`` reads standard input.

    Raises:
        WrongUsage: no such file, no YAML, or not exactly one object.
    """
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        documents = [item for item in yaml.safe_load_all(text) if item is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise WrongUsage(f"{file} cannot be read as a manifest: {error}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise WrongUsage(f"{file} holds {len(documents)} documents; allowed: exactly one object, the SparkApplication")
    return documents[0]
