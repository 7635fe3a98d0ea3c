"""The generated reference pages are fresh."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def test_the_reference_is_what_the_commands_and_the_chart_say() -> None:
    """docs/reference/cli.md and chart.md follow the code; scripts/generate-reference writes them."""
    script = REPOSITORY / "scripts" / "generate-reference"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
