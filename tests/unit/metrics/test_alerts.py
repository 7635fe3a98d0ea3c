"""Alerts, runbooks and dashboard speak of metrics that exist, and of each other."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from colocation.controller.certificates import AUTHORITY_WARNING
from colocation.model.conditions import Reason
from colocation.model.metrics import AGENT_METRICS, OPERATOR_METRICS, Kind
from tests.monitoring.programs import program

ROOT = Path(__file__).parents[3]
FILES = ROOT / "charts/colocation-operator/files"
ALERTS = FILES / "alerts.yaml"
CASES = Path(__file__).parent / "alerts_test.yaml"
RUNBOOKS = (ROOT / "docs/how-to/runbooks.md").read_text()
PARTS = ("Meaning", "Impact", "Diagnosis", "Mitigation")
METRICS = {one.name: one for one in (*OPERATOR_METRICS, *AGENT_METRICS)}
HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")

Rule = dict[str, Any]


def rules() -> list[Rule]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def expressions() -> list[str]:
    """Of all alerts and panels."""
    panels = json.loads((FILES / "dashboard.json").read_text())["panels"]
    return [rule["expr"] for rule in rules()] + [one["expr"] for panel in panels for one in panel.get("targets", ())]


def metric_names(expression: str) -> set[str]:
    """The metrics that an expression reads."""
    return set(re.findall(r"\bcolocation_\w+", expression))


def known(name: str) -> bool:
    """Whether it is a metric, or the part of a histogram."""
    base = next((name.removesuffix(part) for part in HISTOGRAM_PARTS if name.endswith(part)), name)
    return name in METRICS or (base in METRICS and METRICS[base].kind == Kind.HISTOGRAM)


def runbook(alert: str) -> str:
    """The section of an alert."""
    return RUNBOOKS.partition(f"\n## {alert}\n")[2].partition("\n## ")[0]


def test_the_log_and_the_alert_warn_of_the_authority_at_the_same_time() -> None:
    """The operator's log names the days; the alert has them in its expression."""
    assert f" < {AUTHORITY_WARNING.days} * 86400 and " in ALERTS.read_text()


@pytest.mark.parametrize("expression", expressions())
def test_expressions_read_metrics_that_exist(expression: str) -> None:
    """By name; what is a counter is not read as a gauge, and the other way round."""
    names = metric_names(expression)
    assert names or expression.startswith("up{")
    assert [name for name in names if not known(name)] == []
    for name in names & METRICS.keys():
        is_rate = re.search(rf"(rate|increase)\({name}\b", expression) is not None
        assert is_rate == (METRICS[name].kind == Kind.COUNTER)


@pytest.mark.parametrize("expression", expressions())
def test_expressions_use_labels_and_reasons_that_exist(expression: str) -> None:
    """Every label in braces is one of its metric; every reason is a word of ours."""
    for name, matchers in re.findall(r"\b(colocation_\w+)\{([^}]*)\}", expression):
        labels = METRICS[name].labels if name in METRICS else ()
        found = re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"', matchers)
        assert {label for label, _ in found} <= set(labels)
        reasons = [one for label, value in found if label == "reason" for one in value.split("|")]
        assert set(reasons) <= {reason.value for reason in Reason}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_every_alert_has_a_runbook(rule: Rule) -> None:
    """With its four parts, and none of them empty; an alert reports how bad it is, and in one sentence what is."""
    section = runbook(rule["alert"])
    texts = [section.partition(f"**{part}.**")[2].partition("\n**")[0].strip() for part in PARTS]
    assert all(len(text) > 20 for text in texts), f"runbooks.md lacks a part of {rule['alert']}"
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"]["summary"].endswith(".")


def test_an_answer_without_news_is_no_error() -> None:
    """Agents answer the operator with 304 all day, while nothing changes."""
    panels = json.loads((FILES / "dashboard.json").read_text())["panels"]
    [panel] = [one for one in panels if one["title"] == "Answers that are errors"]
    codes = re.findall(r'code(=~|!~)"([^"]*)"', panel["targets"][0]["expr"])
    shown = {code for code in ("200", "304", "409", "503") for operator, pattern in codes
             if (re.fullmatch(pattern, code) is not None) == (operator == "=~")}  # fmt: skip
    assert shown == {"409", "503"}


def test_no_runbook_is_left_over() -> None:
    """Sections in the order of the alerts."""
    assert re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE) == [rule["alert"] for rule in rules()]


def test_every_alert_is_tested() -> None:
    """It fires in one test at least."""
    cases = yaml.safe_load(CASES.read_text())["tests"]
    fired = {one["alertname"] for case in cases for one in case["alert_rule_test"] if one.get("exp_alerts")}
    assert {rule["alert"] for rule in rules()} - fired == set()


@pytest.mark.parametrize("command", [("check", "rules", str(ALERTS)), ("test", "rules", str(CASES))], ids=" ".join)
def test_promtool(command: tuple[str, ...]) -> None:
    """The rules are sound, and fire when they should and not before."""
    done = subprocess.run(
        [str(program("promtool")), *command], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
