"""Operator and agents serve what the table of metrics lists, and nothing else."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from colocation.agent.metrics import Metrics as AgentMetrics
from colocation.agent.settings import Settings
from colocation.agent.upkeep import Upkeep
from colocation.controller.metrics import Metrics as OperatorMetrics
from colocation.controller.reconciler import PassResult
from colocation.model import metrics as table
from colocation.model.conditions import Condition, Reason
from colocation.model.metrics import Kind, Metric, Per
from colocation.state.observation import Observation
from colocation.storage.disk_health import DiskHealth
from colocation.storage.inventory import Inventory
from colocation.storage.root import DataRoot

from ..reconcile.scenes import decided, quiet_observation
from ..state.objects import NOW, clone_job, seconds

ALERTS = Path(__file__).parents[3] / "charts/colocation-operator/files/alerts.yaml"
Shape = tuple[str, str]
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def operator_metrics(observation: Observation) -> OperatorMetrics:
    """Of an operator that has made one pass."""
    metrics = OperatorMetrics({("PATCH", 409): 3})
    metrics.show(PassResult(observation, decided(observation)))
    return metrics


def shapes(registry: CollectorRegistry) -> dict[Shape, str]:
    """(name, type) -> meaning, as Prometheus stores the names."""
    return {
        (one.name + ("_total" if one.type == "counter" else ""), one.type): one.documentation
        for one in registry.collect()
    }


def series_of(metrics: OperatorMetrics) -> Series:
    """All series as text states them."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def series(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


@pytest.mark.parametrize(
    ("listed", "registry"),
    [
        pytest.param(table.OPERATOR_METRICS, operator_metrics(quiet_observation("orders")).registry, id="operator"),
        pytest.param(table.AGENT_METRICS, AgentMetrics().registry, id="agent"),
    ],
)
def test_what_is_listed_is_served_and_the_other_way_round(
    listed: tuple[Metric, ...], registry: CollectorRegistry
) -> None:
    """Names, types and meanings."""
    assert shapes(registry) == {(one.name, one.kind.value): one.meaning for one in listed}


def test_labels_are_those_of_the_table() -> None:
    """Of every metric that has a series in this scene."""
    known = {one.name: set(one.labels) for one in table.OPERATOR_METRICS if one.kind != Kind.HISTOGRAM}
    metrics = operator_metrics(quiet_observation("orders"))
    served = {(name, *sorted(dict(labels))) for name, labels in series_of(metrics)}
    assert {one[0] for one in served if one[0] in known} > {"colocation_group_stable", "colocation_api_errors_total"}
    assert all(set(labels) == known[name] for name, *labels in served if name in known)


def test_counters_whose_increase_is_an_alert_begin_at_0(tmp_path: Path) -> None:
    """``increase()`` sees no first failure where the series begins with it."""
    counted = set(re.findall(r"increase\((\w+)", ALERTS.read_text()))
    labelled = {one.name: one.words for one in (*table.OPERATOR_METRICS, *table.AGENT_METRICS)
                if one.name in counted and one.labels and one.per == Per.PROCESS}  # fmt: skip
    agent, root = AgentMetrics(), DataRoot(tmp_path)
    settings = Settings("node-1", tmp_path, tmp_path, tmp_path)
    Upkeep(settings, Inventory(root), agent, lambda _table: False, DiskHealth(root, "node-1"))
    families = (*OperatorMetrics().registry.collect(), *agent.registry.collect())
    begun = Counter(sample.name for family in families for sample in family.samples if sample.value == 0)
    assert labelled and {name: begun[name] for name in labelled} == labelled


def test_a_reason_that_others_wrote_is_no_label() -> None:
    """A tenant that writes statuses can make no new series."""
    observation = quiet_observation("orders")
    [group], [one] = observation.groups, observation.tables
    forged = Condition(type="Stable", status="False", reason="x" * 5000, message="")
    refused = forged.model_copy(update={"type": "Accepted"})
    group = replace(group, status=group.status.model_copy(update={"conditions": (forged,)}))
    one = replace(one, status=one.status.model_copy(update={"conditions": (refused,)}))
    found = series_of(operator_metrics(replace(observation, groups=(group,), tables=(one,))))
    condition = {"condition": "Stable", "status": "False", "reason": "Other"}
    assert found[series("colocation_group_condition", namespace="shop", group="sales", **condition)] == 1
    assert found[series("colocation_table_refused", namespace="shop", table="orders", reason="Other")] == 1
    assert found[series("colocation_tables", accepted="False", reason="Other")] == 1


def test_refused_tables_are_bounded() -> None:
    """All are counted; so many are named."""
    observation = quiet_observation("orders")
    condition = Condition(type="Accepted", status="False", reason=Reason.SCHEMA_MISMATCH, message="")
    [one] = observation.tables
    one = replace(one, status=one.status.model_copy(update={"conditions": (condition,)}))
    refused = [
        replace(one, identity=replace(one.identity, name=f"orders-{number}", uid=f"{number:08d}-uid"))
        for number in range(table.MAX_REFUSED_TABLES + 7)
    ]
    found = series_of(operator_metrics(replace(observation, tables=tuple(refused))))
    assert found[series("colocation_tables", accepted="False", reason="SchemaMismatch")] == len(refused)
    assert sum(name == "colocation_table_refused" for name, _ in found) == table.MAX_REFUSED_TABLES


def test_a_lost_node_is_named_with_its_reason() -> None:
    """And the buckets that lost a replica are counted."""
    observation = quiet_observation("orders")
    first, *others = observation.nodes
    lost = replace(first, ready=False, not_ready_message="kubelet is silent")
    found = series_of(operator_metrics(replace(observation, nodes=(lost, *others))))
    assert found[series("colocation_node_fault", node="node-1", reason="NodeNotReady")] == 1
    assert found[series("colocation_nodes", ready="false")] == 1
    unstable = {"namespace": "shop", "group": "sales", "reason": "NodeNotReady"}
    assert found[series("colocation_group_unstable_buckets", **unstable)] == 1


def test_buckets_without_a_live_replica_are_counted_at_once() -> None:
    """Whatever the operator may do about them: within the tolerance, with no node to spare, with relocation off."""
    observation = quiet_observation("orders")
    key = series("colocation_group_dead_buckets", namespace="shop", group="sales")
    [group] = observation.groups
    rows = group.status.backends_per_bucket_seq or ()
    counted = replace(group, status=group.status.model_copy(update={"table_count": 1}))
    lost = tuple(
        replace(node, ready=node.name not in rows[0], not_ready_message="gone") for node in observation.nodes
    )
    dead = sum(set(row) <= set(rows[0]) for row in rows)
    assert dead
    for groups, nodes, expected in (
        ((counted,), observation.nodes, 0), ((counted,), lost, dead), ((group,), lost, 0),
    ):  # fmt: skip
        assert series_of(operator_metrics(replace(observation, groups=groups, nodes=nodes)))[key] == expected


def clone_seconds(metrics: OperatorMetrics) -> tuple[float | None, float | None]:
    """(number, sum) of the clones that were measured."""
    registry = metrics.registry
    return tuple(registry.get_sample_value(f"colocation_clone_seconds_{part}") for part in ("count", "sum"))  # type: ignore[return-value]


def test_each_clone_that_succeeds_is_measured_once() -> None:
    """Not those that had ended before this operator began, and none twice."""
    observation = quiet_observation("orders")
    decision = decided(observation)
    old = clone_job("succeeded", finished_at=NOW)
    new = replace(old, identity=replace(old.identity, name="new", uid="new"), finished_at=NOW + seconds(15))
    metrics = OperatorMetrics()
    for jobs in ((old,), (old, new), (old, new), (new,)):
        metrics.show(PassResult(replace(observation, clone_jobs=jobs), decision))
    assert clone_seconds(metrics) == (1, 45)


def test_what_clones_read_is_part_of_what_is_served() -> None:
    """By the account that asks."""
    metrics = AgentMetrics("system:serviceaccount:system:clone")
    metrics.count_sent("system:serviceaccount:system:clone", 5)
    metrics.count_sent("system:serviceaccount:shop:spark", 7)
    assert metrics.registry.get_sample_value("colocation_agent_served_bytes_total") == 12
    assert metrics.registry.get_sample_value("colocation_agent_cloned_bytes_total") == 5
