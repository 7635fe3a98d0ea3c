"""The requests themselves: questions in, answers out, nothing before the operator knows its cluster."""

import asyncio
import base64
import json
import threading
from collections.abc import Awaitable, Callable

import pytest
from aiohttp.test_utils import TestClient

from colocation.admission import Known, admission_application
from colocation.admission.review import Review, Verdict
from colocation.admission.server import SPARK_APPLICATIONS_PATH, VALIDATE_PATH, VALIDATORS

from ..submit.applications_under_test import spark_application
from .reviews import JsonObject, creation, known, table

Ask = Callable[[str, JsonObject], Awaitable[JsonObject]]


def question(review: Review) -> JsonObject:
    """As the API server sends it, fields that we do not read included."""
    request = {**review.model_dump(mode="json", by_alias=True), "kind": {"group": "x"}, "userInfo": {"username": "ada"}}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


@pytest.fixture
def ask(aiohttp_client: Callable[..., Awaitable[TestClient]]) -> Ask:
    """``await ask(path, question)``: the response's part of the answer."""

    async def asked(path: str, body: JsonObject) -> JsonObject:
        client = await aiohttp_client(admission_application(known))
        answer = await client.post(path, json=body)
        assert answer.status == 200
        document: JsonObject = await answer.json()
        assert (document["apiVersion"], document["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        response: JsonObject = document["response"]
        return response

    return asked


async def test_questions_do_not_hold_up_the_operator(monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    """Its Lease and its watches are on the same loop; with 20,000 tables a question took more than a second of it."""
    judged = threading.Event()

    def slow(_review: Review, _known: Known) -> Verdict:
        assert judged.wait(30), "the loop does nothing else"
        return Verdict()

    monkeypatch.setitem(VALIDATORS, "colocatedtables", slow)
    answer = asyncio.create_task(ask(VALIDATE_PATH, question(creation(table("new")))))
    await asyncio.sleep(0.2)
    judged.set()
    assert (await answer)["allowed"]


async def test_a_good_object_is_allowed(ask: Ask) -> None:
    """The answer carries the question's uid."""
    assert await ask(VALIDATE_PATH, question(creation(table("new")))) == {"uid": "question-1", "allowed": True}


async def test_a_refusal_has_reason_and_message(ask: Ask) -> None:
    """kubectl prints both."""
    response = await ask(VALIDATE_PATH, question(creation(table("new", buckets=3))))
    assert (response["allowed"], response["status"]["reason"]) == (False, "SchemaMismatch")
    assert "3 should be 2" in response["status"]["message"]
    assert response["status"]["code"] == 422


async def test_a_warning_goes_to_the_user(ask: Ask) -> None:
    """kubectl prints it and goes on."""
    response = await ask(VALIDATE_PATH, question(creation(table("new", colocateWith="later"))))
    assert response["allowed"] is True
    assert len(response["warnings"]) == 1


async def test_a_patch_is_json_in_base64(ask: Ask) -> None:
    """As the API server wants it."""
    response = await ask(SPARK_APPLICATIONS_PATH, question(creation(spark_application())))
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    steps = json.loads(base64.b64decode(response["patch"]))
    assert {step["path"] for step in steps} == {"/spec", "/metadata/annotations"}


async def test_objects_of_others_pass(ask: Ask) -> None:
    """A configuration that sends too much does no harm."""
    assert (await ask(VALIDATE_PATH, question(creation(spark_application()))))["allowed"] is True


async def test_nothing_is_answered_before_the_first_pass(aiohttp_client: Callable[..., Awaitable[TestClient]]) -> None:
    """The API server then goes by the failure policy: an operator that knows no group may not refuse its tables."""

    def nothing() -> Known | None:
        return None

    client = await aiohttp_client(admission_application(nothing))
    assert (await client.post(VALIDATE_PATH, json=question(creation(table("new"))))).status == 503


@pytest.mark.parametrize("body", ["{", "[]", '{"kind": "Pod", "apiVersion": "v1"}', '"x"'])
async def test_what_is_no_question_is_refused(aiohttp_client: Callable[..., Awaitable[TestClient]], body: str) -> None:
    """400, with what is allowed."""
    client = await aiohttp_client(admission_application(known))
    assert (await client.post(VALIDATE_PATH, data=body)).status == 400


async def test_a_question_in_another_version_is_refused(aiohttp_client: Callable[..., Awaitable[TestClient]]) -> None:
    """Its fields may mean something else."""
    client = await aiohttp_client(admission_application(known))
    older = {**question(creation(table("new"))), "apiVersion": "admission.k8s.io/v1beta1"}
    assert (await client.post(VALIDATE_PATH, json=older)).status == 400
