"""The last line of a job's output, by which the one who waits for it learns the outcome."""

import json
from collections.abc import Mapping

RESULT_MARK = "COLOCATION_RESULT"


def print_result(result: Mapping[str, object]) -> None:
    """Print ``COLOCATION_RESULT <json>`` on one line. Values that JSON lacks (dates, decimals) become text."""
    print(f"{RESULT_MARK} {json.dumps(result, default=str)}", flush=True)
