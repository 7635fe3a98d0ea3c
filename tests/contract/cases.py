"""Reads the cases of the rules that Python and Java both state."""

import base64
import json
from pathlib import Path
from typing import Any

import zstandard

FOLDER = Path(__file__).parent
Case = dict[str, Any]


def cases(rule: str) -> list[Case]:
    """The cases of one rule."""
    found: list[Case] = json.loads((FOLDER / f"{rule}.json").read_text())
    return found


def rules() -> list[str]:
    """The names of all rules that have cases."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def stored_manifest(case: Case) -> bytes:
    """The bytes of a case's manifest: ``stored`` in base64, or ``manifest`` as format 1 has it."""
    if "stored" in case:
        return base64.b64decode(case["stored"])
    text = case["manifest"] if isinstance(case["manifest"], str) else json.dumps(case["manifest"])
    return zstandard.compress(text.encode())
