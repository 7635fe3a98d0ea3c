"""A Kubernetes API server in memory: resource versions, merge patches, preconditions, watch events, lost answers."""

from dataclasses import dataclass
from random import Random
from typing import Any

from colocation.kube.api import ApiError, Conflict, NotFound, Resource
from colocation.state.parse import format_time

from .schedule import Clock, Turn

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """What a watch shows."""

    resource: Resource
    body: JsonObject
    deleted: bool


class FakeApi:
    """The store behind all clients. ``events`` is the history that watches read at their own pace.

    What is stored is never changed in place, so that events share it; what callers give or get is a copy.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.version = 0
        self.objects: dict[Resource, dict[tuple[str, str], JsonObject]] = {}
        self.events: list[Event] = []

    def all(self, resource: Resource) -> list[JsonObject]:
        return [copy_of(body) for _, body in sorted(self.objects.get(resource, {}).items())]

    def read(self, resource: Resource, namespace: str, name: str) -> JsonObject:
        body = self.objects.get(resource, {}).get((namespace, name))
        if body is None:
            raise NotFound(404, f"{resource.plural} {namespace}/{name} not found")
        return copy_of(body)

    def add(self, resource: Resource, namespace: str, body: JsonObject) -> JsonObject:
        key = (namespace, body["metadata"]["name"])
        if key in self.objects.setdefault(resource, {}):
            raise Conflict(409, f"{resource.plural} {key} already exists")
        body = copy_of(body)
        created = {"namespace": namespace, "uid": f"{self.version + 1:08d}-uid", "generation": 1}
        body["metadata"] |= created | {"creationTimestamp": format_time(self.clock.now())}
        return self._store(resource, key, body)

    def merge(self, resource: Resource, namespace: str, name: str, patch: JsonObject) -> JsonObject:
        body = self.read(resource, namespace, name)
        wanted = patch.get("metadata", {})
        for field in ("resourceVersion", "uid"):
            if field in wanted and wanted[field] != body["metadata"][field]:
                raise Conflict(409, f"{resource.plural} {namespace}/{name} has changed")
        annotations = {"annotations": wanted["annotations"]} if "annotations" in wanted else {}
        merged = merge_patch(body, {**patch, "metadata": annotations})
        return merged if merged == body else self._store(resource, (namespace, name), merged)

    def remove(self, resource: Resource, namespace: str, name: str) -> None:
        body = copy_of(self.objects.get(resource, {}).pop((namespace, name)))
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.events.append(Event(resource, body, deleted=True))

    def _store(self, resource: Resource, key: tuple[str, str], body: JsonObject) -> JsonObject:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.objects[resource][key] = body
        self.events.append(Event(resource, body, deleted=False))
        return copy_of(body)


def copy_of(value: Any) -> Any:
    """A copy of a JSON value, all the way down; many times as fast as ``deepcopy``."""
    if isinstance(value, dict):
        return {key: copy_of(item) if isinstance(item, dict | list) else item for key, item in value.items()}
    return [copy_of(item) for item in value] if isinstance(value, list) else value


def merge_patch(body: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy_of(patch)
    result = dict(body) if isinstance(body, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


class ApiClient:
    """What `colocation.kube.api.Api` is to the operator, over the fake server.

    Each request gives the others a turn first. One in ``1 / fault_rate`` has no answer: half of these were carried out.
    """

    def __init__(self, server: FakeApi, random: Random, fault_rate: float) -> None:
        self._server = server
        self._random = random
        self.fault_rate = fault_rate

    async def _request(self, work: Any) -> Any:
        await Turn()
        lost = self._random.random() < self.fault_rate
        if lost and self._random.random() < 0.5:
            raise ApiError(0, "no answer from the API server: not carried out")
        answer = work()
        if lost:
            raise ApiError(0, "no answer from the API server: carried out")
        return answer

    async def list_all(self, resource: Resource, namespace: str = "", labels: str = "") -> tuple[list[JsonObject], int]:
        wanted = dict(pair.split("=") for pair in labels.split(",") if pair)

        def matching() -> tuple[list[JsonObject], int]:
            bodies = [
                body
                for body in self._server.all(resource)
                if namespace in ("", body["metadata"]["namespace"])
                and wanted.items() <= body["metadata"].get("labels", {}).items()
            ]
            return bodies, self._server.version

        answer: tuple[list[JsonObject], int] = await self._request(matching)
        return answer

    async def get(self, resource: Resource, namespace: str, name: str) -> JsonObject:
        answer: JsonObject = await self._request(lambda: self._server.read(resource, namespace, name))
        return answer

    async def create(self, resource: Resource, namespace: str, body: JsonObject) -> JsonObject:
        answer: JsonObject = await self._request(lambda: self._server.add(resource, namespace, body))
        return answer

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: JsonObject, subresource: str = ""
    ) -> JsonObject:
        answer: JsonObject = await self._request(lambda: self._server.merge(resource, namespace, name, body))
        return answer

    async def apply(self, resource: Resource, namespace: str, name: str, body: JsonObject) -> JsonObject:
        def create_or_merge() -> JsonObject:
            if (namespace, name) in self._server.objects.get(resource, {}):
                return self._server.merge(resource, namespace, name, {"data": body["data"]})
            return self._server.add(resource, namespace, body)

        answer: JsonObject = await self._request(create_or_merge)
        return answer

    async def delete(
        self, resource: Resource, namespace: str, name: str, uid: str, resource_version: str | None = None
    ) -> None:
        def remove_if_same() -> None:
            body = self._server.objects.get(resource, {}).get((namespace, name))
            if body is None or body["metadata"]["uid"] != uid:
                return
            if resource_version in (None, body["metadata"]["resourceVersion"]):
                self._server.remove(resource, namespace, name)

        await self._request(remove_if_same)

    async def close(self) -> None:
        """Nothing to close."""
