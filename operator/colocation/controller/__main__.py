"""``python -m colocation.controller``: run the operator until it is stopped."""

import asyncio
import gc
import logging
import os
import sys
from asyncio import sslproto

import kopf

from ..common.logs import configure
from .settings import SettingsError, settings_from

WRONG_USAGE = 2
COLLECTION_THRESHOLDS = (50_000, 20, 50)
"""Python's own (700, 10, 10) walk over a large cluster's objects again and again while they arrive; few of them are
in cycles.
"""
MAX_TLS_READ_BYTES = 32 << 10
"""asyncio keeps a buffer of the largest read for each TLS connection, and OpenSSL another one; 256 KiB each make half
a gigabyte with the agents of a thousand nodes.
"""


def main() -> int:
    """The process's exit code: 0 stopped, 1 it died or could not start, 2 a setting is wrong."""
    try:
        settings = settings_from(os.environ)
    except SettingsError as error:
        print(f"wrong settings: {error}", file=sys.stderr)
        return WRONG_USAGE
    configure(settings.log_format, settings.log_level)
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # else a line for every watch event
    return asyncio.run(_run())


async def _run() -> int:
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    sslproto.SSLProtocol.max_size = MAX_TLS_READ_BYTES
    from . import handlers  # noqa: F401, registers itself with kopf, which needs a process of its own

    stop = asyncio.Event()
    memo = kopf.Memo(stop=stop, has_died=False)
    try:
        await kopf.operator(standalone=True, clusterwide=True, stop_flag=stop, memo=memo)
    except Exception:  # kopf's own, of no public class
        if not memo.has_died:  # else the log has the reason
            raise
    return int(memo.has_died)


if __name__ == "__main__":
    sys.exit(main())
