"""Tests leave nothing in the temporary folder of this machine."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.conftest import TEMPORARY, remove_folders_of_ended_processes


def test_children_use_the_folder_of_the_run(temporary_folder: Path) -> None:
    """It goes with the run, and so does what a killed child has left there."""
    asked = [sys.executable, "-c", "import tempfile; print(tempfile.gettempdir())"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip() == str(temporary_folder)
    assert tempfile.gettempdir() == str(temporary_folder)


def test_what_a_killed_run_has_left_goes(tmp_path: Path) -> None:
    """Those of runs that go on stay."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for process_id in (ended.pid, os.getpid()):
        (tmp_path / f"{TEMPORARY}{process_id}" / "colocation-front-x").mkdir(parents=True)
    remove_folders_of_ended_processes(tmp_path)
    assert [left.name for left in tmp_path.iterdir()] == [f"{TEMPORARY}{os.getpid()}"]
