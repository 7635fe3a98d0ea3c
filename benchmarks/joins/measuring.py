"""Figures of the stages that ran since a moment, from Spark's status store."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = ("PROCESS_LOCAL", "NODE_LOCAL")
MAX_TASKS = 100_000


class Stages:
    """The stages that begin after this was made."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        self._known = {stage.stageId() for stage in self._all()}

    def measured(self) -> dict[str, object]:
        """Shuffled bytes, processor seconds, and the share of the tasks with input that ran on a node that has it."""
        stages = [stage for stage in self._all() if stage.stageId() not in self._known]
        tasks = [task for stage in stages for task in self._tasks(stage)]
        with_input = [task for task in tasks if task.taskMetrics().get().inputMetrics().bytesRead() > 0]
        local = sum(task.taskLocality() in LOCAL for task in with_input)
        return {
            "shuffle_bytes": sum(stage.shuffleWriteBytes() for stage in stages),
            "executor_cpu_seconds": sum(stage.executorCpuTime() for stage in stages) / 1e9,
            "tasks": len(tasks),
            "tasks_local_ratio": local / len(with_input) if with_input else None,
        }

    def _store(self) -> Any:
        context = self._spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        return context.statusStore()

    def _all(self) -> list[Any]:
        context = self._spark.sparkContext
        java, gateway = context._jvm, context._gateway
        assert java is not None and gateway is not None
        quantiles = gateway.new_array(java.double, 0)
        nothing = java.java.util.ArrayList()
        return list(_elements(self._store().stageList(nothing, False, False, quantiles, nothing)))

    def _tasks(self, stage: Any) -> list[Any]:
        tasks = _elements(self._store().taskList(stage.stageId(), stage.attemptId(), MAX_TASKS))
        return [task for task in tasks if task.taskMetrics().isDefined()]


def _elements(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
