"""Reads what a command is given in a file or on standard input."""

import sys
from pathlib import Path
from typing import Any

import yaml

from ..errors import WrongUsage

A_MANIFEST = "a file with a SparkApplication"


def read_text(file: str, wanted: str) -> str:
    """The text of a file; ``-`` reads standard input. ``wanted``: what to name instead, for the message.

    Raises:
        WrongUsage: no such file, a folder, or no text.
    """
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise WrongUsage(f"{file} cannot be read: {error.strerror}; name {wanted}") from error
    except UnicodeDecodeError as error:
        where = f"byte {error.start}: {error.reason}"
        raise WrongUsage(f"{shown(file)} is not UTF-8 text ({where}); name {wanted}") from error


def shown(file: str) -> str:
    """How messages name the input."""
    return "standard input" if file == "-" else file


def read_manifest(file: str) -> dict[str, Any]:
    """The one object in a YAML or JSON file; ``-`` reads standard input.

    Raises:
        WrongUsage: no such file, no YAML, or not exactly one object.
    """
    text, name = read_text(file, A_MANIFEST), shown(file)
    try:
        documents = [item for item in yaml.safe_load_all(text) if item is not None]
    except yaml.YAMLError as error:
        raise WrongUsage(f"{name} is not YAML: {error}") from error
    except RecursionError as error:
        raise WrongUsage(f"{name} is nested too deeply; name {A_MANIFEST}") from error
    if len(documents) != 1:
        raise WrongUsage(f"{name} holds {len(documents)} documents; allowed: exactly one, the SparkApplication")
    if not isinstance(documents[0], dict):
        kind = type(documents[0]).__name__
        raise WrongUsage(f"{name} holds a YAML {kind}; allowed: a mapping, the SparkApplication")
    return documents[0]
