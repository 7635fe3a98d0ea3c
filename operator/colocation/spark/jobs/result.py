"""The last line of a job's output, by which the one who waits for it learns the outcome."""

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)
RESULT_MARK = "COLOCATION_RESULT"


def print_result(result: Mapping[str, object]) -> None:
    """Print ``COLOCATION_RESULT <json>`` on one line. Values that JSON lacks (dates, decimals) become text."""
    print(f"{RESULT_MARK} {json.dumps(result, default=str)}", flush=True)


def stop(spark: "SparkSession") -> None:
    """End the session of a job that is done: nothing that goes wrong now makes it a failed one."""
    try:
        spark.stop()
    except Exception:
        LOG.warning("the job is done; its Spark session did not end in order", exc_info=True)
