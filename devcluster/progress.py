"""Progress lines on stderr, so that stdout stays free for what a command hands over (`env`, `status -o json`)."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

HEARTBEAT_SECONDS = 15.0


def say(message: str) -> None:
    """Print one progress line."""
    print(f"devcluster: {message}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def timed(what: str, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> Iterator[None]:
    """Say when `what` starts, that it still runs every so often, and how long it took."""
    started = time.monotonic()
    finished = threading.Event()

    def beat() -> None:
        while not finished.wait(heartbeat_seconds):
            say(f"{what}: {time.monotonic() - started:.0f} s ...")

    say(f"{what} ...")
    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        finished.set()
    say(f"{what}: done in {time.monotonic() - started:.1f} s")


def tail(path: Path, lines: int = 15) -> str:
    """The last lines of a log file, for error messages."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return f"(no log at {path})"
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])
