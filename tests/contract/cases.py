"""Reads the cases of the rules that Python and Java both state."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
Case = dict[str, Any]


def cases(rule: str) -> list[Case]:
    """The cases of one rule."""
    found: list[Case] = json.loads((FOLDER / f"{rule}.json").read_text())
    return found


def rules() -> list[str]:
    """The names of all rules that have cases."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))
