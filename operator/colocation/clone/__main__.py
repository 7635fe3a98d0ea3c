"""``python -m colocation.clone``: run the clone that ``CLONE_SPEC`` describes; exit code 0 only if it is complete."""

import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from colocation.agentclient import AgentClient, Credentials, Timeouts
from colocation.common.logs import configure
from colocation.model.clone import CloneSource, spec_from_environment
from colocation.model.conditions import Reason
from colocation.model.names import DEFAULT_DATA_ROOT, TOKEN_DIRECTORY
from colocation.storage.disk_health import WrongDisk, check_disk
from colocation.storage.errors import FileChanged, StorageError
from colocation.storage.root import DataRoot

from .job import CloneJob
from .pull import CloneFailed
from .pull_all import TRANSFERS_AT_ONCE

TERMINATION_LOG = Path("/dev/termination-log")
"""Where Kubernetes reads the message of a container that ended (4096 bytes)."""
MAX_MESSAGE_CHARACTERS = 3000
SOURCE_TIMEOUTS = Timeouts(connect_seconds=5.0, read_seconds=60.0, retry_deadline_seconds=10.0)

_log = logging.getLogger(__name__)


class Interrupted(BaseException):
    """SIGTERM: raised out of whatever runs, even out of a blocked read. Every step may be interrupted.

    Not an Exception, so that handlers of ordinary failures (such as logging's) do not swallow it.
    """


def run(environment: Mapping[str, str]) -> int:
    """Run the clone; returns how many files were pulled.

    Raises:
        CloneFailed: it is not complete, or the environment is wrong.
    """
    try:
        spec = spec_from_environment(environment)
    except ValueError as error:
        raise CloneFailed(Reason.INVALID_SPEC, f"CLONE_SPEC is no CloneSpec: {error}") from error
    directory = Path(environment.get("COLOCATION_TOKEN_DIRECTORY", TOKEN_DIRECTORY))
    credentials = Credentials(directory / "token", directory / "ca.crt")

    def connect(source: CloneSource) -> AgentClient:
        node = "" if source.shares_certificate else source.node
        return AgentClient(source.url, credentials, SOURCE_TIMEOUTS, pool_size=TRANSFERS_AT_ONCE, node=node)

    try:
        path = Path(environment.get("COLOCATION_DATA_ROOT", DEFAULT_DATA_ROOT))
        if spec.disk_id:
            check_disk(path, spec.disk_id)
        root = DataRoot(path, owns_ledger=False)
        try:
            return CloneJob(spec, root, connect).run()
        finally:
            root.close()
    except WrongDisk as error:
        raise CloneFailed(Reason.DISK_MISSING, f"node {spec.target}: {error}") from error
    except (OSError, StorageError, FileChanged, ValueError) as error:
        raise CloneFailed(Reason.CLONE_FAILED, f"node {spec.target}: {error}") from error


def _report_failure(reason: str, message: str) -> None:
    """Write one line of JSON for people and for the pod's status."""
    line = json.dumps({"error": reason, "message": message[:MAX_MESSAGE_CHARACTERS]})
    print(line, file=sys.stderr, flush=True)
    if TERMINATION_LOG.exists():
        TERMINATION_LOG.write_text(line)


def main() -> int:
    """Run the clone; returns the exit code."""
    configure()

    def interrupt(_number: int, _frame: object) -> None:
        raise Interrupted

    signal.signal(signal.SIGTERM, interrupt)
    try:
        pulled = run(os.environ)
    except CloneFailed as error:
        _report_failure(error.reason.value, error.message)
        return 1
    except Interrupted:
        _report_failure("Interrupted", "stopped by SIGTERM; the next run resumes")
        os._exit(1)  # immediately: a transfer's thread may wait for its source for a minute
    _log.info("complete; %d files were pulled", pulled)
    return 0


if __name__ == "__main__":
    sys.exit(main())
