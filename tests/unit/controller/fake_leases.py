"""The part of the API server that holds one Lease."""

import copy
from collections import Counter
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

from colocation.common.server_clock import ServerClock
from colocation.kube.api import ApiError, Conflict, NotFound, Resource


class FakeLeases:
    """Reads, creates and patches with the precondition of a resource version; ``away`` answers no one.

    ``tells``: headers of all answers.
    """

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.away = False
        self.failures = Counter[tuple[str, int]]()
        self.clock = ServerClock()
        self.tells = {"Date": format_datetime(datetime.now(UTC), usegmt=True)}
        self.loses_answers = False
        self._version = 0

    async def check_ready(self) -> None:
        self._be_there()

    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        self._be_there()
        if self.lease is None:
            raise NotFound(404, "no such Lease")
        return copy.deepcopy(self.lease)

    async def create(self, resource: Resource, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        self._be_there()
        if self.lease is not None:
            raise Conflict(409, "it exists")
        return self._store(copy.deepcopy(body))

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: dict[str, Any], subresource: str = ""
    ) -> dict[str, Any]:
        self._be_there()
        if self.lease is None:
            raise NotFound(404, "no such Lease")
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict(409, "it has changed")
        annotations = {**self.annotations, **body["metadata"].get("annotations", {})}
        metadata = {**self.lease["metadata"], "annotations": annotations}
        return self._store({**self.lease, "metadata": metadata, "spec": {**self.lease["spec"], **body["spec"]}})

    @property
    def annotations(self) -> dict[str, str]:
        return (self.lease or {"metadata": {}})["metadata"].get("annotations", {})  # type: ignore[no-any-return]

    def go_on_from(self, version: int) -> None:
        """The store's next version is the one after this."""
        self._version = version

    def save(self) -> tuple[dict[str, Any] | None, int]:
        """A copy of etcd."""
        return copy.deepcopy(self.lease), self._version

    def restore(self, saved: tuple[dict[str, Any] | None, int]) -> None:
        """Replace etcd's data by an older copy."""
        self.lease, self._version = copy.deepcopy(saved)

    def _be_there(self) -> None:
        if self.away:
            raise ApiError(0, "no answer from the API server")
        self.clock.hear(self.tells)

    def _store(self, body: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        if self.loses_answers:
            raise ApiError(504, "the answer was lost")
        return copy.deepcopy(self.lease)
