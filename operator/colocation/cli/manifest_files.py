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
    except OSError as error:
        raise WrongUsage(f"{file} cannot be read: {error.strerror}; name a file with a SparkApplication") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise WrongUsage(f"{file} is not YAML: {error}") from error
    if len(documents) != 1:
        raise WrongUsage(f"{file} holds {len(documents)} documents; allowed: exactly one, the SparkApplication")
    if not isinstance(documents[0], dict):
        kind = type(documents[0]).__name__
        raise WrongUsage(f"{file} holds a YAML {kind}; allowed: a mapping, the SparkApplication")
    return documents[0]
