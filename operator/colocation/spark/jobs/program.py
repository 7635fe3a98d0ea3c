"""What the programs share: their command lines, the progress that they print while they run, and their last line."""

import argparse
import json
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from colocation.model.changes import parse_partition
from colocation.model.driver_output import WriteProgress


def job_parser(program: str, description: str) -> argparse.ArgumentParser:
    """``TABLE [--namespace N]``."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("table", help="name of the ColocatedTable")
    parser.add_argument("--namespace", "-n", default=None, help="default: spark.colocation.namespace")
    return parser


def add_partition_argument(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """``--partition dt=2024-01-01/region=eu``, repeatable, as a list of values by column."""
    parser.add_argument(
        "--partition", dest="partitions", type=_partition, action="append", default=[], required=required,
        metavar="COLUMN=VALUE[/…]", help="as its folder is named; some of the columns are enough; repeatable",
    )


def _partition(text: str) -> dict[str, str | None]:
    try:
        return parse_partition(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


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


INTERVAL_SECONDS = 2.0


@dataclass(frozen=True)
class Stage:
    """What Spark knows of a stage; counts grow while its tasks run. ``rows_shuffled``: for the next stage."""

    tasks: int
    tasks_done: int
    bytes_read: int
    bytes_written: int
    rows_written: int
    rows_shuffled: int


class StageWatch:
    """Remembers the stages of an application: those that have ended count on."""

    def __init__(self, spark: "SparkSession") -> None:
        self._store = spark.sparkContext._jsc.sc().statusStore()
        self._seen: dict[int, Stage] = {}
        self._active: set[int] = set()

    def look(self) -> WriteProgress | None:
        """How far the write is; None while no stage runs."""
        stages = self._store.activeStages()
        active = {int(stages.apply(index).stageId()) for index in range(stages.size())}
        for number in active | self._active:
            self._seen[number] = _stage(self._store.lastStageAttempt(number))
        self._active = active
        return progress_of(self._seen, active)


def progress_of(stages: Mapping[int, Stage], active: set[int]) -> WriteProgress | None:
    """How far a write is. ``stages``: by number, also those that have ended; ``active``: numbers of those that run.

    A write shuffles all rows to their buckets; the stage after that writes them.
    """
    running = [stages[number] for number in active]
    if not running:
        return None
    shuffled = [stage.rows_shuffled for number, stage in sorted(stages.items()) if number < min(active)]
    rows = next((count for count in reversed(shuffled) if count), 0)
    if rows and not any(stage.bytes_read or stage.rows_shuffled for stage in running):
        return WriteProgress(
            phase="writing",
            bytes=sum(stage.bytes_written for stage in stages.values()),
            rows_done=min(rows, sum(stage.rows_written for stage in running)),
            rows=rows,
        )
    return WriteProgress(
        phase="reading",
        bytes=sum(stage.bytes_read for stage in stages.values()),
        tasks_done=sum(stage.tasks_done for stage in running),
        tasks=sum(stage.tasks for stage in running),
    )


def _stage(data: Any) -> Stage:
    return Stage(
        tasks=data.numTasks(),
        tasks_done=data.numCompleteTasks(),
        bytes_read=data.inputBytes(),
        bytes_written=data.outputBytes(),
        rows_written=data.outputRecords(),
        rows_shuffled=data.shuffleWriteRecords(),
    )


@contextmanager
def printing_progress(spark: "SparkSession", interval_seconds: float = INTERVAL_SECONDS) -> Iterator[None]:
    """Print a line whenever there is progress while the body runs. What goes wrong here hinders no write."""
    ended = threading.Event()

    def follow() -> None:
        watch, shown = StageWatch(spark), None
        while not ended.wait(interval_seconds):
            progress = watch.look()
            if progress and progress != shown:
                print(progress.line(), flush=True)
                shown = progress

    def follow_quietly() -> None:
        try:
            follow()
        except Exception:
            LOG.warning("the progress of the write is no longer reported", exc_info=True)

    thread = threading.Thread(target=follow_quietly, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
