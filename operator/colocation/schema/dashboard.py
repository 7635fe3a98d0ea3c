"""The chart's Grafana dashboard, made from a table of panels; ``scripts/generate-reference`` writes it."""

import json
from typing import Any, NamedTuple

WIDTH = 8
HEIGHT = 8
COLUMNS = 24
CHOSEN = 'namespace=~"$namespace",group=~"$group"'
JsonObject = dict[str, Any]


class Query(NamedTuple):
    """A PromQL expression, and what its series are called."""

    expression: str
    legend: str = ""


class Panel(NamedTuple):
    """A chart over time, or the value of now (``kind`` stat). ``unit``: Grafana's word."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"


class Row(NamedTuple):
    """A heading with the panels under it."""

    title: str
    panels: tuple[Panel, ...]


def _one(title: str, expression: str, legend: str = "", unit: str = "short", kind: str = "timeseries") -> Panel:
    return Panel(title, (Query(expression, legend),), unit, kind)


ROWS = (
    Row(
        "Now",
        (
            _one("Operators that lead", "count(colocation_leading == 1)", kind="stat"),
            _one("Since the last pass", "min(time() - colocation_last_pass_timestamp_seconds)", unit="s", kind="stat"),
            _one("Groups that are not stable", "count(colocation_group_stable == 0) or vector(0)", kind="stat"),
            _one("Nodes that are not ready", 'max(colocation_nodes{ready="false"})', kind="stat"),
            _one("Tables that are refused", 'sum(colocation_tables{accepted="False"}) or vector(0)', kind="stat"),
            _one("Folders withheld from deletion", "max(colocation_withheld_folders)", kind="stat"),
        ),
    ),
    Row(
        "Groups",
        (
            _one("Stable", f"colocation_group_stable{{{CHOSEN}}}", "{{namespace}}/{{group}}"),
            _one(
                "Unstable buckets by reason",
                f"sum by (reason) (colocation_group_unstable_buckets{{{CHOSEN}}})",
                "{{reason}}",
            ),
            _one(
                "Blocked buckets by reason",
                f"sum by (reason) (colocation_group_blocked_buckets{{{CHOSEN}}})",
                "{{reason}}",
            ),
            _one(
                "Stalled",
                f'colocation_group_condition{{condition="Stalled",status="True",{CHOSEN}}}',
                "{{namespace}}/{{group}} {{reason}}",
            ),
            _one("Bytes of one replica", f"colocation_group_bytes{{{CHOSEN}}}", "{{namespace}}/{{group}}", "bytes"),
            _one("Tables", f"colocation_group_tables{{{CHOSEN}}}", "{{namespace}}/{{group}}"),
            _one(
                "Moves that wait for approval",
                f"colocation_group_proposed_moves{{{CHOSEN}}}",
                "{{namespace}}/{{group}}",
            ),
            _one("Refused tables", "colocation_table_refused", "{{namespace}}/{{table}} {{reason}}"),
        ),
    ),
    Row(
        "Clones",
        (
            _one("Queue", f"sum by (state) (colocation_group_clones{{{CHOSEN}}})", "{{state}}"),
            _one("Replicas still to be made", f"sum(colocation_group_moves{{{CHOSEN}}})", "replicas"),
            _one(
                "Bytes of running clones",
                f"sum by (part) (colocation_group_clone_bytes{{{CHOSEN}}})",
                "{{part}}",
                "bytes",
            ),
            Panel(
                "Ended clones in 5 minutes",
                (
                    Query(f"sum(increase(colocation_group_clones_succeeded_total{{{CHOSEN}}}[5m]))", "succeeded"),
                    Query(f"sum(increase(colocation_group_clones_failed_total{{{CHOSEN}}}[5m]))", "failed"),
                ),
            ),
            Panel(
                "Duration of clones",
                (
                    Query(
                        "histogram_quantile(0.5, sum by (le) (rate(colocation_clone_seconds_bucket[15m])))", "median"
                    ),
                    Query("histogram_quantile(0.9, sum by (le) (rate(colocation_clone_seconds_bucket[15m])))", "90 %"),
                ),
                "s",
            ),
            _one(
                "Copied, by the node that gives",
                "sum by (node) (rate(colocation_agent_cloned_bytes_total[5m]))",
                "{{node}}",
                "Bps",
            ),
            _one("Nodes on which clones fail", f"sum(colocation_group_failing_targets{{{CHOSEN}}})", "nodes"),
        ),
    ),
    Row(
        "Nodes and disks",
        (
            _one("Faults", "colocation_node_fault", "{{node}} {{reason}}"),
            _one(
                "Free",
                "colocation_agent_disk_free_bytes / colocation_agent_disk_capacity_bytes",
                "{{node}}",
                "percentunit",
            ),
            _one("Served", "sum by (node) (rate(colocation_agent_served_bytes_total[5m]))", "{{node}}", "Bps"),
            _one("Received", "sum by (node) (rate(colocation_agent_received_bytes_total[5m]))", "{{node}}", "Bps"),
            _one("Transfers under way", "colocation_agent_active_transfers", "{{node}}"),
            _one(
                "Answers that are errors",
                'sum by (node, code) (rate(colocation_agent_requests_total{code=~"[45].."}[5m]))',
                "{{node}} {{code}}",
            ),
            _one("Scrub backlog", "colocation_agent_scrub_backlog_bytes", "{{node}}", "bytes"),
            _one("Age of the oldest verification", "colocation_agent_oldest_verification_age_seconds", "{{node}}", "s"),
            _one(
                "Damaged files found in a day", "increase(colocation_agent_damaged_files_found_total[1d])", "{{node}}"
            ),
        ),
    ),
    Row(
        "Operator",
        (
            Panel(
                "Duration of passes",
                (
                    Query("histogram_quantile(0.5, sum by (le) (rate(colocation_pass_seconds_bucket[5m])))", "median"),
                    Query("histogram_quantile(0.99, sum by (le) (rate(colocation_pass_seconds_bucket[5m])))", "99 %"),
                ),
                "s",
            ),
            _one("Actions", "sum by (action) (rate(colocation_actions_total[5m]))", "{{action}}", "ops"),
            _one(
                "Actions that failed",
                "sum by (stale) (rate(colocation_action_failures_total[5m]))",
                "stale: {{stale}}",
                "ops",
            ),
            _one(
                "Failed API requests",
                "sum by (verb, code) (rate(colocation_api_errors_total[5m]))",
                "{{verb}} {{code}}",
                "ops",
            ),
            _one("Silent agents", "max(colocation_silent_agents)", "agents"),
            Panel(
                "Time until certificates end",
                (
                    Query("min(colocation_agent_certificate_end_timestamp_seconds > 0) - time()", "agents' first"),
                    Query("min(colocation_agent_authority_end_timestamp_seconds > 0) - time()", "agents' CA"),
                    Query("colocation_server_certificate_end_timestamp_seconds - time()", "{{server}}"),
                ),
                "s",
            ),
        ),
    ),
)


def render() -> str:
    """The dashboard as Grafana imports it."""
    dashboard = {
        "uid": "colocation",
        "title": "Colocation",
        "tags": ["colocation"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [_data_source(), _choice("namespace", ""), _choice("group", '{namespace=~"$namespace"}')]
        },
        "panels": _panels(),
    }
    return json.dumps(dashboard, indent=1) + "\n"


def _data_source() -> JsonObject:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _choice(label: str, matchers: str) -> JsonObject:
    return {
        "name": label, "label": label.capitalize(), "type": "query", "multi": True, "includeAll": True,
        "allValue": ".*", "current": {"text": "All", "value": "$__all"}, "refresh": 2, "sort": 1,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": f"label_values(colocation_group_stable{matchers}, {label})",
    }  # fmt: skip


def _panels() -> list[JsonObject]:
    panels: list[JsonObject] = []
    top = 0
    for row in ROWS:
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
        panels.append({"id": len(panels) + 1, "type": "row", "title": row.title, "gridPos": place, "panels": []})
        top += 1
        width = COLUMNS // len(row.panels) if row.panels[0].kind == "stat" else WIDTH
        height = HEIGHT // 2 if row.panels[0].kind == "stat" else HEIGHT
        for number, panel in enumerate(row.panels):
            line, column = divmod(number, COLUMNS // width)
            place = {"h": height, "w": width, "x": column * width, "y": top + line * height}
            panels.append(_panel(len(panels) + 1, panel, place))
        top += height * -(-len(row.panels) // (COLUMNS // width))
    return panels


def _panel(number: int, panel: Panel, place: JsonObject) -> JsonObject:
    source = {"type": "prometheus", "uid": "${datasource}"}
    targets = [
        {"refId": chr(ord("A") + index), "datasource": source, "expr": query.expression, "legendFormat": query.legend}
        for index, query in enumerate(panel.queries)
    ]
    return {
        "id": number, "type": panel.kind, "title": panel.title, "gridPos": place, "datasource": source,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []}, "targets": targets,
    }  # fmt: skip
