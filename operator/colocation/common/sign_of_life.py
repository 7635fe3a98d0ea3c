"""Asks the API server for the operator's last sign of life: for the submitter, the commands and Spark's sessions."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..model.reader_rules import CURRENT, Freshness, judge_freshness, read_sign_of_life
from .server_clock import ServerClock

LOG = logging.getLogger(__name__)
LEASE_GROUP, LEASE_VERSION, LEASE_PLURAL = "coordination.k8s.io", "v1", "leases"
CACHE_SECONDS = 5.0
"""A Lease is renewed every ten seconds; many groups have the same operator."""
REQUEST_TIMEOUT_SECONDS = 10


@dataclass(frozen=True)
class LeaseAnswer:
    """What the API server said of a Lease.

    Attributes:
        renew_time: as the Lease has it; empty when it could not be read.
        valid_seconds: its duration.
        asked_at: when, by this process's monotonic clock.
    """

    renew_time: str
    valid_seconds: float
    asked_at: float


class OperatorLife:
    """Whether verdicts hold, by the Lease of the operator that a group's ConfigMap names, else by the ConfigMap.

    Args:
        objects: the client's ``CustomObjectsApi``.
        monotonic: seconds that never go back.
        local_time: this machine's clock, until the API server has shown its own.
    """

    def __init__(
        self,
        objects: Any,
        monotonic: Callable[[], float] = time.monotonic,
        local_time: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._objects = objects
        self._monotonic = monotonic
        self._clock = ServerClock(local_time, monotonic)
        self._answers: dict[tuple[str, str], LeaseAnswer] = {}

    def freshness(self, config_map_data: Mapping[str, str]) -> Freshness:
        """Of the verdict on the group whose ConfigMap this is. No error is raised: what cannot be known is not current.

        A ConfigMap without a sign of life is of an operator of the release before: its verdicts are taken as they are.
        """
        try:
            sign = read_sign_of_life(config_map_data)
        except ValueError as error:
            return Freshness(message=str(error))
        if sign is None:
            return CURRENT
        answer = self._lease(sign.lease_namespace, sign.lease_name)
        now = self._clock.now()
        if answer.renew_time:
            witness = f"Lease {sign.lease_name} of namespace {sign.lease_namespace}"
            return judge_freshness(answer.renew_time, answer.valid_seconds, now, witness)
        return judge_freshness(sign.renew_time, sign.valid_seconds, now, "the group's ConfigMap")

    def _lease(self, namespace: str, name: str) -> LeaseAnswer:
        known = self._answers.get((namespace, name))
        if known is None or self._monotonic() - known.asked_at >= CACHE_SECONDS:
            known = self._answers[namespace, name] = self._ask(namespace, name)
        return known

    def _ask(self, namespace: str, name: str) -> LeaseAnswer:
        """The Lease; without one that can be read, the API server's time all the same."""
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        spec: Mapping[str, Any] = {}
        headers: Mapping[str, str] = {}
        try:
            if namespace and name:
                body, _, headers = self._objects.get_namespaced_custom_object_with_http_info(
                    LEASE_GROUP, LEASE_VERSION, namespace, LEASE_PLURAL, name, _request_timeout=REQUEST_TIMEOUT_SECONDS
                )
                spec = body.get("spec") or {}
        except ApiException as error:
            LOG.debug("Lease %s/%s: %s", namespace, name, error.status)
            headers = error.headers or {}
        except HTTPError as error:
            LOG.debug("Lease %s/%s: %s", namespace, name, error)
        self._clock.hear(headers)
        renew_time, valid_seconds = spec.get("renewTime"), spec.get("leaseDurationSeconds")
        is_sound = isinstance(renew_time, str) and isinstance(valid_seconds, int) and valid_seconds > 0
        return LeaseAnswer(
            renew_time=str(renew_time) if is_sound else "",
            valid_seconds=float(valid_seconds or 0) if is_sound else 0.0,
            asked_at=self._monotonic(),
        )
