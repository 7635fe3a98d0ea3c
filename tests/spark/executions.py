"""Statements that run after others, and what Spark's SQL tab knows of the last 1,000 that ran."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession


def executions(session: SparkSession) -> dict[int, Any]:
    """Spark's ``SQLExecutionUIData`` by execution id, the oldest first; all that have ended are there."""
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    found = session._jsparkSession.sharedState().statusStore().executionsList()
    listed = [found.apply(place) for place in range(found.size())]
    return {one.executionId(): one for one in sorted(listed, key=lambda one: one.executionId())}


def run_after(session: SparkSession, statement: str, *others: Callable[[], object]) -> None:
    """Run a statement, with these commits between its analysis and its run."""
    state, java = session._jsparkSession.sessionState(), session.sparkContext._jvm
    skip = java.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    execution = state.executePlan(state.sqlParser().parsePlan(statement), skip)
    execution.analyzed()
    for other in others:
        other()
    plan = execution.executedPlan()
    plan.metrics()  # else Spark 4.3.0 makes them while the statement holds the plan's lock, in another thread, for ever
    plan.executeCollect()
