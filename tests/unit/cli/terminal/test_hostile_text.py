"""What others wrote into objects does nothing to the terminal of a user who reads them."""

import pytest

from colocation.cli.errors import CommandFailed
from colocation.cli.terminal.live import moving_line, warn
from colocation.cli.terminal.output import columns, tell, write

from ..conftest import FakeCluster, Run

HOSTILE = "a\x1b]52;c;ZXZpbA==\x07b\x1b[2J\x9b2J\r\u202ec\u2066\u2069"
SHOWN = "a\\x1b]52;c;ZXZpbA==\\x07b\\x1b[2J\\x9b2J\\r\\u202ec\\u2066\\u2069"


@pytest.fixture
def hostile(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions, columns' names and events of a tenant who writes to terminals."""
    condition = {"type": "Ready", "status": "False", "reason": "GroupFull", "message": HOSTILE}
    for item in (cluster.groups()[0], cluster.tables()[0]):
        item["status"]["conditions"] = [condition]
    cluster.tables()[0]["spec"]["bucketedBy"] = [HOSTILE]
    event = {"lastTimestamp": None, "type": "Normal", "reason": "Stable", "message": HOSTILE + "\nforged"}
    monkeypatch.setattr(cluster, "events", lambda group: [event])


@pytest.mark.parametrize("output", ["text", "json", "yaml"])
@pytest.mark.parametrize("command", [("events", "sales"), ("tables",), ("show", "sales"), ("groups",)])
def test_views_write_nothing_to_the_terminal(run: Run, hostile: None, command: tuple[str, ...], output: str) -> None:
    """In each format only newlines are left of control characters."""
    done = run(*command, "-o", output)
    assert done.exit_code == 0
    assert set(done.output) - {"\n"} == {one for one in done.output if one.isprintable()}


def test_an_event_stays_in_its_line(run: Run, hostile: None) -> None:
    """A message with a newline forges no other event."""
    _, line = run("events", "sales").stdout.splitlines()
    assert line.endswith(f"{SHOWN}\\nforged")


def test_lines_keep_newlines_and_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    """Texts of several lines are ours; so is a driver's traceback."""
    tell(f"{HOSTILE}\n\tat a.B")
    write({}, f"{HOSTILE}\n", "text")
    assert capsys.readouterr().out == f"{SHOWN}\n\tat a.B\n{SHOWN}\n\n"


def test_what_is_said_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """Failures, warnings, and how far something is."""
    CommandFailed(HOSTILE).show()
    warn([HOSTILE])
    with moving_line() as say:
        say(HOSTILE, "\n")
    assert capsys.readouterr().err == f"error: {SHOWN}\nwarning: {SHOWN}\n{SHOWN}\\n\n"


def test_cells_are_as_wide_as_what_is_shown() -> None:
    """So that columns stand below each other."""
    first, second = columns(["A", "B"], [[HOSTILE, "b"]]).splitlines()
    assert (first.index("B"), second) == (len(SHOWN) + 3, f"{SHOWN}   b")
