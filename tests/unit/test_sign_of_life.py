"""The operator's Lease, asked of the API server, and what is done without rights on it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
import urllib3
from kubernetes.client import ApiException

from colocation.common.sign_of_life import CACHE_SECONDS, OperatorLife
from colocation.model.reader_rules import CURRENT

NOW = datetime(2026, 11, 21, 4, tzinfo=UTC)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def config_map(renewed_seconds_ago: float = 0, valid_seconds: int = 600) -> dict[str, str]:
    sign = {"renewTime": ago(renewed_seconds_ago), "validSeconds": valid_seconds, "leaseNamespace": "colocation-system",
            "leaseName": "colocation-operator"}  # fmt: skip
    return {"operator.json": json.dumps(sign)}


def lease(renewed_seconds_ago: float) -> dict[str, Any]:
    return {"spec": {"renewTime": ago(renewed_seconds_ago), "leaseDurationSeconds": 40}}


@dataclass
class FakeApi:
    """Answers for the Lease: an object or an error, with the API server's time; ``asked`` counts."""

    answer: Mapping[str, Any] | Exception
    server_time: datetime | None = NOW
    asked: list[tuple[str, ...]] = field(default_factory=list)
    seconds: float = 0.0

    def get_namespaced_custom_object_with_http_info(self, *path: str, _request_timeout: float) -> tuple[Any, ...]:
        self.asked.append(path)
        headers = {"date": format_datetime(self.server_time, usegmt=True)} if self.server_time else {}
        if isinstance(self.answer, ApiException):
            self.answer.headers = headers
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer, 200, headers

    def life(self, local_time: datetime = NOW) -> OperatorLife:
        return OperatorLife(self, monotonic=lambda: self.seconds, local_time=lambda: local_time)


FORBIDDEN, MISSING = ApiException(status=403), ApiException(status=404)
LOST = urllib3.exceptions.ProtocolError("cut")


@pytest.mark.parametrize(
    ("answer", "data", "witness"),
    [
        pytest.param(lease(30), config_map(9999), None, id="the Lease is renewed more often than the ConfigMap"),
        pytest.param(lease(61), config_map(0), "Lease colocation-operator of namespace colocation-system", id="silent"),
        pytest.param(FORBIDDEN, config_map(600), None, id="no rights: the ConfigMap"),
        pytest.param(FORBIDDEN, config_map(621), "the group's ConfigMap", id="no rights: the ConfigMap is too old"),
        pytest.param(MISSING, config_map(621), "the group's ConfigMap", id="no Lease: the operator was uninstalled"),
        pytest.param(ApiException(status=500), config_map(621), "the group's ConfigMap", id="server error"),
        pytest.param(LOST, config_map(621), "the group's ConfigMap", id="no answer"),
        pytest.param({"spec": {"renewTime": 7}}, config_map(0), None, id="a Lease that reports nothing"),
        pytest.param({}, config_map(621), "the group's ConfigMap", id="an empty Lease"),
        pytest.param(FORBIDDEN, {}, None, id="an operator of the release before"),
        pytest.param(lease(0), {"operator.json": "?"}, "operator.json", id="a sign of life that cannot be read"),
    ],
)
def test_what_is_believed(answer: Any, data: dict[str, str], witness: str | None) -> None:
    """The Lease where it can be read, else the ConfigMap; what is too old names what was read."""
    found = FakeApi(answer).life().freshness(data)
    assert found.is_current is (witness is None)
    assert (witness or "") in found.message


@pytest.mark.parametrize("answer", [lease(30), FORBIDDEN])
def test_the_api_servers_clock_counts(answer: Any) -> None:
    """This machine's clock may be wrong by years; without the API server's it is all there is."""
    years = timedelta(days=3650)
    data = config_map(30, valid_seconds=40)
    assert FakeApi(answer).life(local_time=NOW + years).freshness(data) == CURRENT
    assert not FakeApi(answer, server_time=None).life(local_time=NOW + years).freshness(data).is_current


def test_many_groups_are_one_question() -> None:
    """They have the same operator; a session that looks again later asks again, and time passes in between."""
    api = FakeApi(lease(58))
    life = api.life()
    assert [life.freshness(config_map()).is_current for _ in range(3)] == [True] * 3
    assert api.asked == [("coordination.k8s.io", "v1", "colocation-system", "leases", "colocation-operator")]
    api.seconds = CACHE_SECONDS - 1
    assert not life.freshness(config_map()).is_current
    api.seconds, api.server_time, api.answer = CACHE_SECONDS, NOW + timedelta(seconds=5), lease(0)
    assert life.freshness(config_map()).is_current
    assert len(api.asked) == 2
