"""The Makefile's targets whose output a shell evaluates."""

import shutil
import subprocess
from pathlib import Path

MAKEFILE = Path(__file__).parents[3] / "Makefile"


def test_what_is_set_up_is_reported_apart_from_the_commands(tmp_path: Path) -> None:
    """`eval "$(make -s cluster-env)"` after the jar's sources changed."""
    shutil.copy(MAKEFILE, tmp_path)
    (tmp_path / "scripts").mkdir()
    scripts = {"setup": "echo build-jar: compiling", "nginx": "true"}
    for name, command in scripts.items():
        (tmp_path / "scripts" / name).write_text(f"#!/bin/sh\n{command}\n")
        (tmp_path / "scripts" / name).chmod(0o755)
    done = subprocess.run(["make", "-s", "setup"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "build-jar: compiling\n")
