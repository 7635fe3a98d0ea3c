"""Whether the API server gets the webhook's answer: tried by a group that is never stored."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import Configuration, CustomObjectsApi
from kubernetes.client.exceptions import ApiException

from colocation.cli.connection import Connection
from colocation.cli.doctor import webhooks

UNTRUSTED = 'Post "https://w.s.svc:443/v1/validate?timeout=5s": tls: failed to verify certificate: x509: unknown'
CALLED_IN_VAIN = (
    'Internal error occurred: failed calling webhook "validation.colocation.dev": failed to call webhook: ' + UNTRUSTED
)
REFUSED = 'admission webhook "validation.colocation.dev" denied the request: bucket 0: The backend x does not exist'


def hook(*excluded: str) -> SimpleNamespace:
    expression = SimpleNamespace(key="kubernetes.io/metadata.name", values=list(excluded))
    return SimpleNamespace(namespace_selector=SimpleNamespace(match_expressions=[expression]))


@pytest.mark.parametrize(
    ("status", "said", "outcome"),
    [
        pytest.param(422, REFUSED, {}, id="refused by the webhook"),
        pytest.param(500, CALLED_IN_VAIN, {"failure": UNTRUSTED}, id="no answer"),
        pytest.param(None, "", {"failure": "objects pass that it would refuse"}, id="no answer, and ignored"),
        pytest.param(403, 'User "ann" cannot create resource "colocationgroups"',
                     {"untried": "you may not create colocationgroups in namespace shop"}, id="no right"),
        pytest.param(404, 'namespaces "nope" not found', {"untried": 'namespaces "nope" not found'}, id="no namespace"),
    ],
)  # fmt: skip
def test_the_api_server_tells_whether_it_gets_an_answer(
    monkeypatch: pytest.MonkeyPatch, status: int | None, said: str, outcome: dict[str, str]
) -> None:
    """What is not known is no fault."""
    asked: list[Any] = []

    def create(*place: object, **options: object) -> None:
        asked.append((place[3], options))
        if status:
            error = ApiException(status=status)
            error.body = json.dumps({"message": said})
            raise error

    monkeypatch.setattr(CustomObjectsApi, "create_namespaced_custom_object", create)
    found = webhooks._trial(Connection(Configuration()), hook("kube-system"), "shop")
    assert {field: text.partition(" (its failurePolicy")[0] for field, text in found.items()} == outcome
    assert asked == [("shop", {"dry_run": "All"})]


def test_nothing_is_tried_where_the_webhook_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a namespace that the chart excludes."""
    monkeypatch.delattr(CustomObjectsApi, "create_namespaced_custom_object")
    found = webhooks._trial(Connection(Configuration()), hook("kube-system", "shop"), "shop")
    assert found == {"untried": "the API server does not ask it in namespace shop"}
