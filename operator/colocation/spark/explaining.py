"""explain: Spark's plan, and for each join whether it is colocated, as the plan itself shows."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from . import join_report
from .join_report import JoinReport, KnownTable, report_joins
from .plan_reader import read_plan
from .registration import REGISTERED_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def explain(df: "DataFrame") -> str:
    """Spark's physical plan, followed by ``colocate: true`` or ``colocate: false, reason: …`` for each join.

    After the query was run, the plan is the one that was executed.
    """
    plan = df._jdf.queryExecution().executedPlan().toString()
    reports = report_joins(read_plan(df), known_tables(df.sparkSession))
    lines = ["== Physical Plan ==", plan.rstrip(), "", "== Colocation =="]
    lines.extend(_line(report) for report in reports)
    if not reports:
        lines.append("no join")
    return "\n".join(lines)


def explain_json(df: "DataFrame") -> dict[str, Any]:
    """``{"joins": [{"join", "type", "keys", "tables", "colocate", "reason"}], "exchanges": n}``."""
    plan = read_plan(df)
    joins = [asdict(report) for report in report_joins(plan, known_tables(df.sparkSession))]
    return {"joins": joins, "exchanges": join_report.count_exchanges(plan)}


def count_exchanges(df: "DataFrame") -> int:
    """Shuffle Exchanges between a table scan and a join; run the query first to see the plan that was executed."""
    return join_report.count_exchanges(read_plan(df))


def known_tables(spark: "SparkSession") -> Mapping[str, KnownTable]:
    """What ``register`` noted in this session, by ``<namespace>/<directory>``."""
    tables = {}
    for key, value in spark.conf.getAll.items():
        if key.startswith(REGISTERED_PREFIX):
            noted = json.loads(value)
            directory = key.removeprefix(f"{REGISTERED_PREFIX}{noted['namespace']}.")
            tables[f"{noted['namespace']}/{directory}"] = KnownTable(
                name=noted["name"],
                namespace=noted["namespace"],
                group=noted["group"],
                bucketed=noted["colocated"],
                reason=noted["reason"],
                bucketed_by=tuple(noted["bucketed_by"]),
            )
    return tables


def _line(report: JoinReport) -> str:
    verdict = "colocate: true" if report.colocate else f"colocate: false, reason: {report.reason}"
    keys = " AND ".join(report.keys) or "no keys"
    return f"{report.join} {report.type} ({keys}) of {', '.join(report.tables)}: {verdict}"
