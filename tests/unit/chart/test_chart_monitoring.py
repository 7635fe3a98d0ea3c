"""PodMonitor, PrometheusRule and dashboard: off unless wanted, and true to the pods and files they are made of."""

import json
from typing import Any

import pytest
import yaml

from .conftest import CHART, ChartRefused, Render, one

ALERTS = yaml.safe_load((CHART / "files/alerts.yaml").read_text())
KINDS = {"PodMonitor", "PrometheusRule"}


def names(groups: list[dict[str, Any]]) -> set[str]:
    return {rule["alert"] for group in groups for rule in group["rules"]}


def test_nothing_of_it_is_there_by_default(render: Render) -> None:
    """Its kinds are not known to most clusters."""
    objects = render()
    assert not KINDS & {item["kind"] for item in objects}
    assert "colocation-dashboard" not in {item["metadata"]["name"] for item in objects}


def test_pods_of_operator_and_agents_are_scraped(render: Render) -> None:
    """By labels and a port that they have; clone Jobs serve nothing."""
    objects = render(**{"monitoring.enabled": True, "monitoring.labels.release": "prometheus"})
    monitor = one(objects, "PodMonitor", "colocation")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    [wanted] = monitor["spec"]["selector"]["matchExpressions"]
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    for kind, name in (("Deployment", "colocation-operator"), ("DaemonSet", "colocation-agent")):
        template = one(objects, kind, name)["spec"]["template"]
        labels = template["metadata"]["labels"]
        assert labels.items() >= monitor["spec"]["selector"]["matchLabels"].items()
        assert labels[wanted["key"]] in wanted["values"]
        ports = {port["name"] for container in template["spec"]["containers"] for port in container["ports"]}
        assert endpoint["port"] in ports


def test_the_rules_are_those_of_the_file_with_their_runbooks(render: Render) -> None:
    """Prometheus' own placeholders survive Helm's."""
    objects = render(**{"monitoring.enabled": True, "monitoring.rules.runbookUrl": "https://docs.example.org/runbooks"})
    groups = one(objects, "PrometheusRule", "colocation")["spec"]["groups"]
    for group in groups:
        for rule in group["rules"]:
            url = rule["annotations"].pop("runbook_url")
            assert url == f"https://docs.example.org/runbooks#{rule['alert'].lower()}"
    assert groups == ALERTS["groups"]


def test_single_alerts_can_be_left_out(render: Render) -> None:
    """By name."""
    objects = render(**{"monitoring.enabled": True, "monitoring.rules.disabled": "{ColocationTableRefused}"})
    groups = one(objects, "PrometheusRule", "colocation")["spec"]["groups"]
    assert names(ALERTS["groups"]) - names(groups) == {"ColocationTableRefused"}


def test_an_alert_that_there_is_not_is_refused(render: Render) -> None:
    """Else the one that was meant goes on firing, and no one knows why."""
    what = r"monitoring\.rules\.disabled names ColocationTableRefusd, .*: kubectl get prometheusrule colocation -n "
    with pytest.raises(ChartRefused, match=what):
        render(**{"monitoring.enabled": True, "monitoring.rules.disabled": "{ColocationTableRefusd}"})


def test_the_dashboard_is_the_file(render: Render) -> None:
    """In a ConfigMap that Grafana's sidecar finds."""
    found = one(render(**{"monitoring.enabled": True}), "ConfigMap", "colocation-dashboard")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["colocation.json"]) == json.loads((CHART / "files/dashboard.json").read_text())
