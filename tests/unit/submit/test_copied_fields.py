"""Node selector and tolerations, which Kueue sets on an application that was placed before, and takes back again."""

import copy
from typing import Any

import pytest

from colocation.model.names import ANNOTATION_COPIED_FIELDS
from colocation.submit import ManifestError, prepare
from colocation.submit.direct import direct_submission, driver_job

from .applications_under_test import pod_spec, sales_group, spark_application

DEDICATED = {"key": "dedicated", "operator": "Equal", "value": "colocation", "effect": "NoSchedule"}
SPOT = {"key": "spot", "operator": "Exists"}


def placed(application: dict[str, Any]) -> dict[str, Any]:
    return prepare(application, sales_group()).application


def changed(application: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The application after Kueue has set these fields of its executors; None takes one away."""
    after = copy.deepcopy(application)
    for name, value in fields.items():
        after["spec"]["executor"].pop(name, None)
        if value is not None:
            after["spec"]["executor"][name] = value
    return after


def scheduling(application: dict[str, Any]) -> tuple[Any, Any]:
    spec = pod_spec(application, "executor")
    return spec.get("nodeSelector"), spec.get("tolerations")


def test_the_fields_are_in_the_template_and_stay() -> None:
    """Kubeflow's operator reads the template, Kueue the fields."""
    fields = {"nodeSelector": {"disk": "fast"}, "tolerations": [DEDICATED]}
    application = placed(spark_application(executor=fields))
    assert scheduling(application) == ({"disk": "fast"}, [DEDICATED])
    assert fields.items() <= application["spec"]["executor"].items()
    assert placed(application) == application


@pytest.mark.parametrize("own", [
    pytest.param({}, id="the author has none"),
    pytest.param({"nodeSelector": {"disk": "fast"}, "tolerations": [DEDICATED]}, id="in the fields"),
    pytest.param({"template": {"spec": {"nodeSelector": {"disk": "fast"}, "tolerations": [DEDICATED]}}},
                 id="in the template"),
])  # fmt: skip
def test_admitted_evicted_and_admitted_to_another_flavor(own: dict[str, Any]) -> None:
    """The template follows, and keeps what is the author's."""
    waits = placed(spark_application(executor=own))
    selector, tolerations = scheduling(waits)
    fields = {name: waits["spec"]["executor"].get(name) for name in ("nodeSelector", "tolerations")}

    def admitted(pool: str) -> dict[str, Any]:
        selector = {**(fields["nodeSelector"] or {}), "pool": pool}
        return {"nodeSelector": selector, "tolerations": [*(fields["tolerations"] or []), SPOT]}

    first = placed(changed(waits, **admitted("spot")))
    assert scheduling(first) == ({**(selector or {}), "pool": "spot"}, [*(tolerations or []), SPOT])
    evicted = placed(changed(first, **fields))
    assert evicted == waits
    second = placed(changed(evicted, **admitted("reserved")))
    assert scheduling(second)[0] == {**(selector or {}), "pool": "reserved"}


def test_another_value_in_the_template_is_refused() -> None:
    """With both."""
    executor = {"nodeSelector": {"disk": "fast"}, "template": {"spec": {"nodeSelector": {"disk": "slow"}}}}
    with pytest.raises(ManifestError, match=r"spec\.executor\.nodeSelector\[disk\].*'slow'.*'fast'"):
        placed(spark_application(executor=executor))


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"nodeSelector": 5}', '{"tolerations": ["a"]}'])
def test_an_annotation_that_is_not_ours_is_refused(text: str) -> None:
    """The message has what to do."""
    template = {"metadata": {"annotations": {ANNOTATION_COPIED_FIELDS: text}}}
    with pytest.raises(ManifestError, match=r"spec\.executor\.template has the annotation .*remove it"):
        placed(spark_application(executor={"template": template}))


def test_a_driver_without_an_operator_has_them() -> None:
    """The Job's pod is made from the template."""
    driver = {"nodeSelector": {"disk": "fast"}, "tolerations": [DEDICATED]}
    submission = direct_submission(prepare(spark_application(driver=driver), sales_group()), "report")
    pod = driver_job(submission)["spec"]["template"]["spec"]
    assert (pod["nodeSelector"], pod["tolerations"]) == ({"disk": "fast"}, [DEDICATED])
