"""How little the command loads before it knows which command to run."""

import json
import os
import subprocess
import sys

import pytest

from colocation.cli.main import main

COMMANDS = sorted(main.commands)
HEAVY = {"kubernetes", "kopf", "pyspark", "aiohttp", "pydantic", "yaml", "urllib3"}
CLIENT = "kubernetes.client.api."
"""Where the client's APIs are; each loads hundreds of models."""
RUN = """
import contextlib, json, sys
from colocation.cli.main import main
for arguments in json.loads(sys.argv[1]):
    with contextlib.suppress(SystemExit):
        main(arguments, prog_name="colocation")
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def modules_of(*lines: list[str], **environment: str) -> set[str]:
    """Which modules Python has loaded after these commands, one after the other."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(lines)],
        env=os.environ | environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(json.loads(done.stderr))


def completing(line: str) -> dict[str, str]:
    """What a shell sets while it completes the last word of a line."""
    words = line.split(" ")
    return {"_COLOCATION_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}


@pytest.mark.parametrize(("arguments", "environment"), [
    pytest.param(["--help"], {}, id="help"),
    pytest.param(["--version"], {}, id="version"),
    pytest.param(["completion", "bash"], {}, id="script for a shell"),
    pytest.param([], completing("colocation "), id="completing a command"),
])  # fmt: skip
def test_no_library_is_loaded_before_a_command_runs(arguments: list[str], environment: dict[str, str]) -> None:
    """Help, version and completion take no time."""
    assert not modules_of(arguments, **environment) & HEAVY


def test_help_of_no_command_loads_an_api() -> None:
    """Nor what only the operator and Spark need."""
    loaded = modules_of(*([command, "--help"] for command in COMMANDS))
    assert not loaded & {"kopf", "pyspark", "aiohttp"}
    assert not [name for name in loaded if name.startswith(CLIENT)]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_shows_what_their_own_help_reports(command: str) -> None:
    """The list has a copy of each first sentence, since it does not load the command."""
    listed = main.commands[command]
    own = listed.load()
    assert own.name == command
    for limit in (45, 1000):
        assert listed.get_short_help_str(limit) == own.get_short_help_str(limit)
