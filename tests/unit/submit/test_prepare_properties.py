"""Properties of `prepare` over arbitrary manifests."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from colocation.model.names import node_label
from colocation.submit import prepare

from .applications_under_test import container, pod_spec, sales_group, spark_application

NAMES = st.text("abcdefgh", min_size=1, max_size=4)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def named(values: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(values, max_size=4, unique_by=lambda item: item["name"])


ENVIRONMENT = named(st.fixed_dictionaries({"name": NAMES, "value": NAMES}))
VOLUMES = named(st.fixed_dictionaries({"name": NAMES, "emptyDir": st.just({})}))
EXPRESSIONS = st.lists(st.fixed_dictionaries({"key": NAMES, "operator": st.just("Exists")}))
TERMS = st.lists(st.fixed_dictionaries({"matchExpressions": EXPRESSIONS}), max_size=3)


@st.composite
def executors(draw: st.DrawFn) -> dict[str, Any]:
    """An executor whose author used the template, plain fields, or both."""
    executor: dict[str, Any] = {}
    if draw(st.booleans()):
        executor["env"] = draw(ENVIRONMENT)
    else:
        executor["template"] = {"spec": {
            "volumes": draw(VOLUMES),
            "containers": [{"name": "spark-kubernetes-executor", "env": draw(ENVIRONMENT)}],
        }}  # fmt: skip
    if draw(st.booleans()):
        executor["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": draw(TERMS)}}}
    return executor


@given(executor=executors(), conf=st.dictionaries(NAMES, NAMES, max_size=3), stable=st.booleans())
def test_preparing_is_idempotent(executor: dict[str, Any], conf: dict[str, str], stable: bool) -> None:
    """What was prepared is complete: preparing it again adds nothing."""
    group = sales_group(stable=stable)
    once = prepare(spark_application(executor=executor, sparkConf=conf), group)
    assert prepare(once.application, group) == once


@given(executor=executors(), conf=st.dictionaries(NAMES, NAMES, max_size=3))
def test_nothing_of_the_authors_is_lost(executor: dict[str, Any], conf: dict[str, str]) -> None:
    """Every variable, volume and setting of the manifest is in the prepared one."""
    prepared = prepare(spark_application(executor=executor, sparkConf=conf), sales_group()).application
    template = executor.get("template", {}).get("spec", {})
    environment = executor.get("env") or (template.get("containers") or [{}])[0].get("env") or []
    assert all(item in container(prepared, "executor")["env"] for item in environment)
    assert all(item in pod_spec(prepared, "executor")["volumes"] for item in template.get("volumes", []))
    assert conf.items() <= prepared["spec"]["sparkConf"].items()


@given(executor=executors())
def test_every_term_of_the_affinity_asks_for_the_groups_label(executor: dict[str, Any]) -> None:
    """Whatever the author asks for, no executor may start elsewhere."""
    group = sales_group()
    affinity = pod_spec(prepare(spark_application(executor=executor), group).application, "executor")["affinity"]
    wanted = {"key": node_label("shop", "sales"), "operator": "In", "values": ["true"]}
    for term in affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]:
        assert term["matchExpressions"][-1] == wanted
