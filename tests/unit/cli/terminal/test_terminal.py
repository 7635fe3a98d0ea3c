"""What stands at the other end of a command's output: other encodings, a full disk, a reader that goes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from colocation.cli.main import main; main(prog_name='colocation')"]
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


@pytest.mark.parametrize(("encoding", "shown"), [
    ("utf-8", ELLIPSIS), ("latin-1", "\\u2026"),
])  # fmt: skip
def test_what_an_encoding_lacks_is_escaped(encoding: str, shown: str) -> None:
    """Help and rows hold any character."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([*COMMAND, "sql", "--help"], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert shown in done.stdout.decode(encoding)


def test_a_full_disk_raises_no_room() -> None:
    """In the system's words."""
    with Path("/dev/full").open("wb") as full:
        line = [*COMMAND, "advise", "--size", "10Gi", "--cores", "4", "--nodes", "3"]
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


def test_a_reader_that_goes_ends_the_command() -> None:
    """`| head` prints nothing more."""
    reader, writer = os.pipe()
    os.close(reader)
    line = [*COMMAND, "advise", "--size", "10Gi", "--cores", "4", "--nodes", "3"]
    done = subprocess.run(line, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
