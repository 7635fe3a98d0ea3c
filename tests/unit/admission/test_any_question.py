"""Whatever stands in an object, the webhooks answer: the API server would count a failure of ours against its author.

Mutating webhooks see objects that no schema has been held against yet.
"""

from collections.abc import Awaitable, Callable, Iterator

import pytest
from aiohttp.test_utils import TestClient

from colocation.admission import admission_application
from colocation.admission.review import parse_review
from colocation.admission.server import SPARK_APPLICATIONS_PATH, VALIDATE_PATH, Judge, validate
from colocation.admission.spark_applications import place_application

from ..state.test_parse_any import changed, paths
from ..submit.applications_under_test import apache_application, schedule, spark_application
from .reviews import RESOURCES, JsonObject, group, known, table

VALUES = (None, True, 0, -1, 10**400, 1.5, "", "x", [], [None], ["x"], [[]], [{}], [{"name": 1}], {}, {"x": None},
          {"x": ["x"]}, {"name": {}})  # fmt: skip
TERM = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}], "matchFields": []}
REQUIRED = {"nodeSelectorTerms": [TERM]}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": REQUIRED}}
CONTAINER = {
    "name": "spark-kubernetes-executor", "env": [{"name": "A", "value": "b"}],
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}  # fmt: skip
VOLUME = {"name": "v", "hostPath": {"path": "/v"}}
POD = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
    "spec": {
        "containers": [CONTAINER], "volumes": [VOLUME], "affinity": AFFINITY, "securityContext": {"runAsUser": 1},
        "topologySpreadConstraints": [{"topologyKey": "zone"}],
    },
}  # fmt: skip
PLAIN = {
    **{name: CONTAINER[name] for name in ("env", "volumeMounts")}, "affinity": AFFINITY, "sidecars": [{"name": "s"}],
    "initContainers": [{"name": "i"}], "envVars": {"A": "b"}, "cores": 2, "serviceAccount": "spark",
}  # fmt: skip
PARTS: JsonObject = {
    "sparkConf": {"spark.sql.extensions": "a,b"}, "volumes": [VOLUME], "image": "spark:1", "nodeSelector": {"a": "b"},
    "arguments": ["x"], "deps": {"jars": ["a"]}, "dynamicAllocation": {"enabled": True, "maxExecutors": 4},
}  # fmt: skip
APPLICATIONS = {
    "Kubeflow's": spark_application(executor=PLAIN, driver=PLAIN, **PARTS),
    "Kubeflow's with templates": spark_application(executor={"template": POD}, driver={"template": POD}, **PARTS),
    "a schedule": schedule(executor={"template": POD}, **PARTS),
    "Apache's": apache_application(
        sparkConf=PARTS["sparkConf"], driverSpec={"podTemplateSpec": POD}, executorSpec={"podTemplateSpec": POD}
    ),
}
GROUP_FIELDS = {
    "relocation": {}, "balancing": {"maxConcurrentClones": 2}, "allowedNamespaces": ["lake"],
    "bucketSequence": [["node-1", "node-2"]] * 2,
}  # fmt: skip
OBJECTS = {"a group": group(**GROUP_FIELDS), "a table": table("new", retention={"seconds": 60}, partitionedBy=["day"])}
QUESTION = b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1"}}'


def question(body: JsonObject) -> JsonObject:
    """As the API server asks when the object is made."""
    group_of_kind, version, resource = RESOURCES[body["kind"]]
    request = {
        "uid": "1", "operation": "CREATE", "namespace": "shop", "name": "x", "object": body,
        "resource": {"group": group_of_kind, "version": version, "resource": resource},
    }  # fmt: skip
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def spoiled(body: JsonObject) -> Iterator[JsonObject]:
    """Questions about the object with one part replaced by any value; the API server has looked at metadata itself."""
    for path in paths(body):
        if path[0] == "spec":
            for value in VALUES:
                asked = question(body)
                asked["request"]["object"] = changed(body, path, value)
                yield asked


@pytest.mark.parametrize("body", APPLICATIONS.values(), ids=APPLICATIONS)
def test_any_application_is_answered(body: JsonObject) -> None:
    """Placed, left alone, or refused with what is wrong."""
    assert place_application(parse_review(question(body)), known()).patch
    for asked in spoiled(body):
        verdict = place_application(parse_review(asked), known())
        assert verdict.allowed or verdict.message, asked


@pytest.mark.parametrize("body", OBJECTS.values(), ids=OBJECTS)
def test_any_object_of_ours_is_answered(body: JsonObject) -> None:
    """The API server has held the schema against it; an older or newer schema may let more through."""
    assert validate(parse_review(question(body)), known()).allowed
    for asked in spoiled(body):
        verdict = validate(parse_review(asked), known())
        assert verdict.allowed or verdict.message, asked


@pytest.mark.parametrize(("judge", "body"), [(validate, table("new")), (place_application, spark_application())])
def test_any_question_is_one_or_is_refused(judge: Judge, body: JsonObject) -> None:
    """Nothing but a verdict, or an error that names what is wrong with the question."""
    whole = question(body)
    for path in paths(whole):
        for value in VALUES:
            answer: object
            try:
                answer = judge(parse_review(changed(whole, path, value)), known())
            except ValueError as error:
                answer = str(error)
            assert answer


@pytest.mark.parametrize("path", [VALIDATE_PATH, SPARK_APPLICATIONS_PATH])
@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b'"\\ud800"', b"[" * 200_000, b'{"a":' * 100_000, b"1" * 10_000, b"NaN", b"null", QUESTION[:-9]],
    ids=lambda body: repr(body[:8]),
)
async def test_what_is_no_question_is_refused(
    aiohttp_client: Callable[..., Awaitable[TestClient]], path: str, body: bytes
) -> None:
    """With what is wrong; anybody in the cluster may reach the port."""
    client = await aiohttp_client(admission_application(known))
    answer = await client.post(path, data=body)
    assert (answer.status, bool(await answer.text())) == (400, True)
