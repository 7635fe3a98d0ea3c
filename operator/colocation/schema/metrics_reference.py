"""The reference page of the metrics, from their table; ``scripts/generate-reference`` writes it."""

from collections.abc import Iterable, Iterator

from ..model.metrics import AGENT_METRICS, OPERATOR_METRICS, PROPOSED_MOVES, SPARK_METRICS, Kind, Metric, Per

HEAD = """\
# Metrics

Made from `operator/colocation/model/metrics.py` by `scripts/generate-reference`; do not edit.

The operator serves `/metrics` on port 8080, each agent on port 8441, in plain HTTP; no file is named there. The chart
brings a PodMonitor, alerts and a dashboard (`monitoring` in [its values](chart.md)); [runbooks](../how-to/runbooks.md)
explain the alerts.
Reasons are the words of [conditions](conditions.md).

## How many series

Nothing has a series per file, bucket, partition or accepted table. Label values are names that the API server has
checked, and words of this project; a reason that somebody else wrote into a status shows as `Other`.

| per | series |
|---|---|
"""
COST = """
Measured: 1,000 groups with 20,000 tables, every second group with unstable buckets, are 15,600 series and 1.6 MB of
text, made in 0.13 s of a processor per scrape, outside of the operator's event loop. The number of tables, buckets and
files plays no part. To keep less, drop series by `monitoring.podMonitor.metricRelabelings`, for example
`colocation_group_.*` of namespaces that do not matter.
"""
OPERATOR_HEAD = """
## Operator

Only the operator that holds the Lease knows groups and nodes; one that waits for it serves its own life alone.
"""
AGENT_HEAD = "\n## Agents\n\nOne per node; the scraped pod's node is the label `node` (PodMonitor).\n"

SPARK_HEAD = """
## Spark applications

Each driver shows these in [Spark's own metrics system](https://spark.apache.org/docs/latest/monitoring.html#metrics),
as the source `plugin.dev.colocation.spark.ColocationPlugin` of the instance `driver`: configure any of Spark's sinks.
`spark.metrics.conf.driver.sink.prometheusServlet.class=org.apache.spark.metrics.sink.PrometheusServlet` with
`spark.metrics.conf.driver.sink.prometheusServlet.path=/metrics/prometheus` serves them on the port of the driver's UI,
as `metrics_<application>_driver_plugin_dev_colocation_spark_ColocationPlugin_localBytes_Value` and so on. Executors
report when a task ends. A verdict counts each time that a statement looks a table up; `explain` has details.
"""


def render() -> str:
    """The page's text."""
    parts = [HEAD, *_counts(), COST, OPERATOR_HEAD, *_rows(OPERATOR_METRICS), AGENT_HEAD, *_rows(AGENT_METRICS)]
    return "".join([*parts, SPARK_HEAD, *_rows(SPARK_METRICS)])


def _counts() -> Iterator[str]:
    """Sums over the operator's and the agents' metrics, at most."""
    for per in Per:
        of_operator = sum(one.words for one in OPERATOR_METRICS if one.per == per)
        if per == Per.PROCESS:
            yield f"| operator | at most {of_operator} |\n"
            yield f"| agent | at most {sum(one.words for one in AGENT_METRICS)} |\n"
        elif per == Per.GROUP:
            varying = [one for one in OPERATOR_METRICS if one.per == per and _is_varying(one)]
            fixed = of_operator - sum(one.words for one in varying)
            yield f"| group | {fixed}, one per reason of unstable or blocked buckets, one while moves are proposed |\n"
        else:
            yield f"| {per} | at most {of_operator} |\n"


def _is_varying(metric: Metric) -> bool:
    """Whether only what is wrong has a series."""
    return metric is PROPOSED_MOVES or ("reason" in metric.labels and "condition" not in metric.labels)


def _rows(metrics: Iterable[Metric]) -> Iterator[str]:
    yield "\n| metric | type | meaning |\n|---|---|---|\n"
    for one in metrics:
        labels = f"{{{','.join(one.labels)}}}" if one.labels else ""
        parts = "; `_bucket`, `_sum`, `_count`" if one.kind == Kind.HISTOGRAM else ""
        yield f"| `{one.name}{labels}` | {one.kind}{parts} | {one.meaning} |\n"
