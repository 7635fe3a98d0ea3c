"""How far a job's write is, printed while it runs for the one who waits: from what Spark knows of its stages."""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from colocation.model.driver_output import WriteProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)
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
