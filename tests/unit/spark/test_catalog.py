"""Objects as the API server gives them, and the compare-and-set as it is sent."""

from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from kubernetes.client import ApiException

from colocation.model.table import TableSnapshot
from colocation.sign_of_life import OperatorLife
from colocation.spark.catalog import (
    InvalidObject,
    KubernetesCatalog,
    NoAnswer,
    NotAllowed,
    NotInCatalog,
    RequestRefused,
    WriteConflict,
    parse_table,
)

ITEM = {
    "metadata": {"namespace": "shop", "name": "orders", "uid": "0123456789abcdef", "resourceVersion": "7"},
    "spec": {
        "colocateWith": "sales",
        "columns": [{"name": "id", "type": "bigint"}],
        "bucketedBy": ["id"],
    },
    "status": {
        "accepted": False,
        "aFieldOfANewerOperator": 1,
        "conditions": [
            {"type": "Accepted", "status": "False", "reason": "SchemaMismatch", "message": "10 should be 8"}
        ],
    },
}
DATE = {"Date": "Sat, 21 Nov 2026 04:00:30 GMT"}
SNAPSHOT = TableSnapshot(id=1, manifest="sha256:" + "0" * 64, committed_at="2026-11-21T04:00:00Z")


def catalog_over(patch: Any = None, get: Any = None) -> KubernetesCatalog:
    catalog = object.__new__(KubernetesCatalog)
    catalog._objects = SimpleNamespace(patch_namespaced_custom_object_status=patch, get_namespaced_custom_object=get)
    catalog._api_error = ApiException
    return catalog


def test_a_refused_table_says_why() -> None:
    """The operator's words go unchanged to whoever wants to load."""
    table = parse_table(ITEM)
    assert table.directory == "orders-01234567"
    assert table.refusal == "SchemaMismatch: 10 should be 8"
    assert parse_table({**ITEM, "status": {"accepted": True}}).refusal is None
    assert parse_table({**ITEM, "status": None}).refusal == "the operator has not accepted it yet"


def test_the_commit_carries_its_precondition() -> None:
    """Resource version and uid stand in the patch, so the API server itself compares and sets."""
    sent = {}

    def patch(*arguments: Any, **options: Any) -> None:
        sent["body"], sent["type"] = arguments[-1], options["_content_type"]

    catalog_over(patch).commit(parse_table(ITEM), SNAPSHOT, (SNAPSHOT,))
    assert sent["type"] == "application/merge-patch+json"
    assert sent["body"]["metadata"] == {"resourceVersion": "7", "uid": "0123456789abcdef"}
    assert sent["body"]["status"]["snapshot"]["committedAt"] == "2026-11-21T04:00:00Z"
    assert sent["body"]["status"]["history"] == [sent["body"]["status"]["snapshot"]]


def test_a_commit_keeps_the_keys_of_others() -> None:
    """The patch does not name them, so they stay; of a spoiled list it keeps what can be understood."""
    sent = {}

    def patch(*arguments: Any, **options: Any) -> None:
        sent.update(arguments[-1]["status"])

    good = {"writer": "stream", "version": 7, "snapshotId": 3}
    catalog_over(patch).commit(parse_table({**ITEM, "status": {"commits": [good]}}), SNAPSHOT, ())
    assert set(sent) == {"snapshot", "history"}
    spoiled = parse_table({**ITEM, "status": {"commits": [{"writer": ""}, good]}})
    with pytest.raises(InvalidObject, match=r"InvalidStatus: .*commits"):
        spoiled.check_status()
    catalog_over(patch).commit(spoiled, SNAPSHOT, ())
    assert sent["commits"] == [good]


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ApiException(status=409), WriteConflict),
        (ApiException(status=404), NotInCatalog),
        (ApiException(status=403), NotAllowed),
        (ApiException(status=422), RequestRefused),
        *[(ApiException(status=status), NoAnswer) for status in (0, 408, 429, 500, 502, 503, 504)],
        (urllib3.exceptions.ProtocolError("cut"), NoAnswer),
        (urllib3.exceptions.ReadTimeoutError(None, "/", "timed out"), NoAnswer),
        (urllib3.exceptions.MaxRetryError(None, "/", None), NoAnswer),
    ],
)
def test_errors_of_a_commit(raised: Exception, expected: type[Exception]) -> None:
    """A conflict says that nothing was done; a server error, a time-out or a lost connection says nothing at all."""

    def patch(*_: Any, **__: Any) -> None:
        raise raised

    with pytest.raises(expected):
        catalog_over(patch).commit(parse_table(ITEM), SNAPSHOT, ())


@pytest.mark.parametrize(
    ("status", "is_current"), [pytest.param(404, False, id="silent for years"), pytest.param(None, True, id="alive")]
)
def test_the_config_map_tells_agents_and_whether_the_operator_lives(status: int | None, is_current: bool) -> None:
    """Both are of one group; without rights on the Lease, or without one, the ConfigMap's own time counts."""

    def lease(*_: Any, **__: Any) -> Any:
        if status:
            raise ApiException(status=status)
        return {"spec": {"renewTime": "2026-11-21T04:00:00Z", "leaseDurationSeconds": 40}}, 200, DATE

    sign = '{"renewTime": "2006-11-21T04:00:00Z", "validSeconds": 600, "leaseNamespace": "colocation-system"}'
    data = {"agents.json": '{"node-1": "https://10.0.0.1:8440"}', "operator.json": sign}
    catalog = catalog_over()
    catalog._core = SimpleNamespace(read_namespaced_config_map=lambda *_, **__: SimpleNamespace(data=data))
    catalog._operator_life = OperatorLife(SimpleNamespace(get_namespaced_custom_object_with_http_info=lease))
    told = catalog.get_agents("shop", "sales")
    assert told.urls == {"node-1": "https://10.0.0.1:8440"}
    assert told.freshness.is_current is is_current


@pytest.mark.parametrize(
    ("snapshot", "last_id"),
    [
        pytest.param({"id": 7, "manifest": "x"}, 7, id="legible"),
        pytest.param({"id": 1 << 60, "manifest": "x"}, 3, id="too large to count on"),
        pytest.param({"id": True}, 3, id="no number"),
        pytest.param("gone", 3, id="no snapshot"),
    ],
)
def test_a_spoiled_status_may_be_mended(snapshot: Any, last_id: int) -> None:
    """What can be read of it is kept, and what the operator says of it is no refusal of the load that mends it."""
    refused = {"type": "Accepted", "status": "False", "reason": "InvalidStatus", "message": "snapshot"}
    kept = {**SNAPSHOT.to_json_dict(), "id": 3}
    status = {"snapshot": snapshot, "history": [kept], "accepted": False, "conditions": [refused]}
    table = parse_table({**ITEM, "status": status})
    assert (table.status.snapshot, [one.id for one in table.status.history], table.refusal) == (None, [3], None)
    assert table.last_id == last_id
    with pytest.raises(InvalidObject, match=r"InvalidStatus: the status of table shop\.orders cannot be understood"):
        table.check_status()


def test_a_newer_spec_is_refused() -> None:
    """An object that this version does not understand, with the field."""
    with pytest.raises(InvalidObject, match="bucketedBy"):
        parse_table({**ITEM, "spec": {**ITEM["spec"], "bucketedBy": []}})
