"""What Spark's SQL tab knows of the queries that ran: the last 1,000."""

from typing import Any

from pyspark.sql import SparkSession


def executions(session: SparkSession) -> dict[int, Any]:
    """Spark's ``SQLExecutionUIData`` by execution id, the oldest first; all that have ended are there."""
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    found = session._jsparkSession.sharedState().statusStore().executionsList()
    listed = [found.apply(place) for place in range(found.size())]
    return {one.executionId(): one for one in sorted(listed, key=lambda one: one.executionId())}
