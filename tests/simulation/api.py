"""A Kubernetes API server in memory: resource versions, subresources, preconditions, watches, requests that fail."""

import asyncio
import bisect
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from random import Random
from typing import Any

from colocation.common.server_clock import ServerClock
from colocation.kube.api import (
    GROUPS,
    JOBS,
    NODES,
    TABLES,
    ApiError,
    Conflict,
    Expired,
    Listing,
    NotFound,
    Resource,
)
from colocation.state.parse import format_time

JsonObject = dict[str, Any]
Key = tuple[str, str]
MOST_REFUSED_CHARACTERS = 1500
RESTORED_VERSIONS = 1000
NOT_CARRIED_OUT = (403, 413, 429)
PERHAPS_CARRIED_OUT = (0, 500, 504)
HAVE_STATUS = (GROUPS, TABLES, NODES, JOBS)


@dataclass(frozen=True)
class Event:
    """What a watch shows. ``body`` is shared and never changed."""

    resource: Resource
    body: JsonObject
    deleted: bool


class FakeApi:
    """The store behind all clients.

    What is stored is never changed in place, so that events share it; what callers give or get is a copy.
    ``refused``: objects that are almost too large for etcd: it takes only small changes of their status.
    ``is_down``: no operator reaches it. ``remembers_since``: the version when it began, as after a restore of etcd.
    ``unknown_fields``: of statuses, which the CRDs lack: they are dropped. ``denied``: kinds of which no object may be
    created, as by a quota, with the reason.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now
        self.version = 0
        self.objects: dict[Resource, dict[Key, JsonObject]] = {}
        self.events: list[Event] = []
        self.news = asyncio.Event()
        self.watchers: list[Callable[[Event], None]] = []
        self.refused: set[tuple[Resource, Key]] = set()
        self.is_down = False
        self.remembers_since = 0
        self.unknown_fields: set[tuple[str, ...]] = set()
        self.denied: dict[Resource, str] = {}

    def all(self, resource: Resource) -> list[JsonObject]:
        """Copies of all objects of a kind, by name."""
        return [copy_of(body) for body in self.peek(resource)]

    def peek(self, resource: Resource) -> list[JsonObject]:
        """All objects of a kind, by name: only to be looked at."""
        return [body for _, body in sorted(self.objects.get(resource, {}).items())]

    def find(self, resource: Resource, namespace: str, name: str) -> JsonObject | None:
        """An object, only to be looked at."""
        return self.objects.get(resource, {}).get((namespace, name))

    def read(self, resource: Resource, namespace: str, name: str) -> JsonObject:
        body = self.find(resource, namespace, name)
        if body is None:
            raise NotFound(404, f"{resource.plural} {namespace}/{name} not found")
        return copy_of(body)

    def listed_at(self, resource: Resource, version: int) -> tuple[list[JsonObject], int]:
        """A list as it was: what a replica of the API server that lags behind serves."""
        found: dict[Key, JsonObject] = {}
        for event in self.events:
            if event.resource == resource and version_of(event.body) <= version:
                key = key_of(event.body)
                found.pop(key, None) if event.deleted else found.__setitem__(key, event.body)
        return [copy_of(body) for _, body in sorted(found.items())], version

    def position_after(self, version: int) -> int:
        """Of the first event that is newer, among all events."""
        return bisect.bisect_right(self.events, version, key=lambda event: version_of(event.body))

    def add(self, resource: Resource, namespace: str, body: JsonObject) -> JsonObject:
        key = (namespace, body["metadata"]["name"])
        if key in self.objects.setdefault(resource, {}):
            raise Conflict(409, f"{resource.plural} {key} already exists")
        if resource in self.denied:
            raise ApiError(403, self.denied[resource])
        body = copy_of(body)
        created = {"namespace": namespace, "uid": f"{self.version + 1:08d}-uid", "generation": 1}
        body["metadata"] |= created | {"creationTimestamp": format_time(self.now())}
        return self._store(resource, key, body)

    def merge(
        self, resource: Resource, namespace: str, name: str, patch: JsonObject, subresource: str = ""
    ) -> JsonObject:
        """A merge patch; of the status only, or of all but the status, where the kind has this subresource."""
        key = (namespace, name)
        before = self.objects.get(resource, {}).get(key)
        if before is None:
            raise NotFound(404, f"{resource.plural} {namespace}/{name} not found")
        wanted = patch.get("metadata", {})
        for name_of_field in ("resourceVersion", "uid"):
            if name_of_field in wanted and wanted[name_of_field] != before["metadata"][name_of_field]:
                raise Conflict(409, f"{resource.plural} {namespace}/{name} has changed")
        if (resource, key) in self.refused and len(str(patch.get("status"))) > MOST_REFUSED_CHARACTERS:
            raise ApiError(413, "etcdserver: request is too large")
        after = merge_patch(before, self._allowed(resource, patch, subresource))
        if self.unknown_fields and "status" in after:
            after["status"] = without_fields(after["status"], self.unknown_fields)
        if after == before:
            return copy_of(before)
        if after.get("spec") != before.get("spec"):
            after["metadata"] = {**after["metadata"], "generation": before["metadata"]["generation"] + 1}
        return self._store(resource, key, after)

    def refuse_status_of(self, group: Key) -> None:
        """From now on etcd takes no whole status of this group any more."""
        self.refused.add((GROUPS, group))

    def remove(self, resource: Resource, namespace: str, name: str) -> None:
        body = copy_of(self.objects.get(resource, {}).pop((namespace, name)))
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self._tell(Event(resource, body, deleted=True))

    def end(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object that takes its time: it stays, and is marked."""
        body = copy_of(self.objects[resource][namespace, name])
        body["metadata"].setdefault("deletionTimestamp", format_time(self.now()))
        self._store(resource, (namespace, name), body)

    def restore(self, objects: dict[Resource, dict[Key, JsonObject]]) -> None:
        """Begin again with a copy of ``objects``. Versions go on, as with ``etcdutl snapshot restore --bump-revision``;
        nothing of before is remembered.
        """
        self.version += RESTORED_VERSIONS
        self.remembers_since = self.version
        self.objects = {resource: dict(found) for resource, found in objects.items()}
        stored = [(resource, body) for resource, found in objects.items() for body in found.values()]
        self.events = [Event(*one, deleted=False) for one in sorted(stored, key=lambda one: version_of(one[1]))]

    @staticmethod
    def _allowed(resource: Resource, patch: JsonObject, subresource: str) -> JsonObject:
        if subresource:
            return {subresource: patch.get(subresource, {})}
        given = patch.get("metadata", {})
        metadata = {name: given[name] for name in ("annotations", "labels") if name in given}
        rest = {name: part for name, part in patch.items() if name not in ("metadata", "apiVersion", "kind")}
        if resource in HAVE_STATUS:
            rest.pop("status", None)
        return {**rest, "metadata": metadata}

    def _store(self, resource: Resource, key: Key, body: JsonObject) -> JsonObject:
        self.version += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        self.objects[resource][key] = body
        self._tell(Event(resource, body, deleted=False))
        return copy_of(body)

    def _tell(self, event: Event) -> None:
        self.events.append(event)
        news, self.news = self.news, asyncio.Event()
        news.set()
        for watcher in tuple(self.watchers):
            watcher(event)


def _label_pairs(selector: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in selector.split(",") if pair)


def _matches(body: JsonObject, namespace: str, labels: dict[str, str]) -> bool:
    metadata = body["metadata"]
    return namespace in ("", metadata["namespace"]) and labels.items() <= metadata.get("labels", {}).items()


def version_of(body: JsonObject) -> int:
    return int(body["metadata"]["resourceVersion"])


def key_of(body: JsonObject) -> Key:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def copy_of(value: Any) -> Any:
    """A copy of a JSON value, all the way down; many times as fast as ``deepcopy``."""
    if isinstance(value, dict):
        return {key: copy_of(item) if isinstance(item, dict | list) else item for key, item in value.items()}
    return [copy_of(item) for item in value] if isinstance(value, list) else value


def without_fields(value: Any, fields: set[tuple[str, ...]]) -> Any:
    """Without the fields at these paths, in each item of lists on the way."""
    if isinstance(value, list):
        return [without_fields(item, fields) for item in value]
    if not isinstance(value, dict):
        return value
    below = {name: {path[1:] for path in fields if path[0] == name and path[1:]} for name in value}
    return {name: without_fields(item, below[name]) for name, item in value.items() if (name,) not in fields}


def merge_patch(body: Any, patch: Any) -> Any:
    """RFC 7386; a new value, in which what the patch does not name is shared, but for the top two levels."""
    if not isinstance(patch, dict):
        return copy_of(patch)
    result = dict(body) if isinstance(body, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


@dataclass
class ApiFaults:
    """How requests of one operator fail.

    ``rate``: of requests that fail. ``away``: no request is answered or carried out. ``stale_rate``: of lists that are
    served from a version of up to ``stale_versions`` before. ``frozen_until``: the process stands still.
    ``on_stale`` is called with every such list.
    """

    rate: float = 0.0
    away: bool = False
    stale_rate: float = 0.0
    stale_versions: int = 60
    seconds: tuple[float, float] = (0.005, 0.2)
    frozen_until: float = 0.0
    slowest_watch_seconds: float = 0.5
    on_stale: Callable[[], None] = field(default=lambda: None)

    def frozen_seconds(self, now: float) -> float:
        """How much longer the process stands still."""
        return max(0.0, self.frozen_until - now)


@dataclass
class ApiClient:
    """What `colocation.kube.api.Api` is to the operator, over the fake server.

    ``before_write`` and ``after_write`` are called with each write; they may kill the operator.
    """

    server: FakeApi
    random: Random
    faults: ApiFaults
    before_write: Callable[[str], None] = field(default=lambda _: None)
    after_write: Callable[[str], None] = field(default=lambda _: None)
    is_alive: Callable[[], bool] = field(default=lambda: True)
    after_read: Callable[[Resource, Key, JsonObject | None], None] = field(default=lambda *_: None)
    clock: ServerClock = field(default_factory=ServerClock)
    failures: dict[tuple[str, int], int] = field(default_factory=dict)

    async def check_ready(self) -> None:
        await self._request(lambda: None)

    async def _request(self, work: Callable[[], Any], write: str = "") -> Any:
        await self._way()
        fault = self._fault()
        if fault is not None and (fault in NOT_CARRIED_OUT or self.random.random() < 0.5):
            await self._way()
            self._hear_time(fault)
            raise ApiError(fault, "a fault: not carried out")
        if write:
            self.before_write(write)
            await self._hang_if_dead()
        try:
            answer = work()
        finally:
            if write:
                self.after_write(write)
        await self._way()
        self._hear_time(200 if fault is None else fault)
        if fault is not None:
            raise ApiError(fault, "a fault: carried out")
        return answer

    def _hear_time(self, status: int) -> None:
        if status:
            self.clock.hear({"Date": format_datetime(self.server.now(), usegmt=True)})

    async def _way(self) -> None:
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(self.random.uniform(*self.faults.seconds) + self.faults.frozen_seconds(now))
        await self._hang_if_dead()

    async def _hang_if_dead(self) -> None:
        """A dead process hears of nothing, and asks for nothing."""
        if not self.is_alive():
            await asyncio.get_running_loop().create_future()

    def _fail_if_away(self) -> None:
        if self.faults.away or self.server.is_down:
            raise ApiError(0, "no answer from the API server: it is away")

    def _fault(self) -> int | None:
        self._fail_if_away()
        if self.random.random() >= self.faults.rate:
            return None
        return self.random.choice((*NOT_CARRIED_OUT, *PERHAPS_CARRIED_OUT, 0, 0, 500))

    async def list_all(self, resource: Resource, namespace: str = "", labels: str = "") -> tuple[list[JsonObject], int]:
        wanted = _label_pairs(labels)

        def matching() -> tuple[list[JsonObject], int]:
            bodies, version = self._bodies(resource)
            return [body for body in bodies if _matches(body, namespace, wanted)], version

        answer: tuple[list[JsonObject], int] = await self._request(matching)
        return answer

    async def list_into(self, listing: Listing, resource: Resource, namespace: str = "", labels: str = "") -> int:
        bodies, version = await self.list_all(resource, namespace, labels)
        listing.begin()
        for body in bodies:
            listing.take(body)
        return version

    def _bodies(self, resource: Resource) -> tuple[list[JsonObject], int]:
        if self.random.random() < self.faults.stale_rate:
            self.faults.on_stale()
            version = self.server.version - self.random.randint(1, self.faults.stale_versions)
            version = max(self.server.remembers_since, version)
            return self.server.listed_at(resource, version)
        return self.server.all(resource), self.server.version

    async def watch(self, resource: Resource, namespace: str, labels: str, version: str) -> AsyncIterator[JsonObject]:
        """Events since the version, late, until the watch ends or breaks; since "" all objects come first."""
        wanted, loop = _label_pairs(labels), asyncio.get_running_loop()
        ends_at = loop.time() + self.random.uniform(60, 240)
        await self._way()
        self._fail_if_away()
        if version and self.random.random() < self.faults.rate:
            raise Expired(410, f"too old resource version: {version} ({version})")
        if version and int(version) < self.server.remembers_since:
            raise Expired(410, f"too old resource version: {version} ({self.server.remembers_since})")
        seen = len(self.server.events)
        if not version:
            for body in self.server.all(resource):
                if _matches(body, namespace, wanted):
                    yield {"type": "ADDED", "object": body}
        else:
            seen = self.server.position_after(int(version))
        while loop.time() < ends_at:
            news = self.server.news
            for event in self.server.events[seen:]:
                if event.resource == resource and _matches(event.body, namespace, wanted):
                    yield {"type": "DELETED" if event.deleted else "MODIFIED", "object": copy_of(event.body)}
            seen = len(self.server.events)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ends_at - loop.time()):
                    await news.wait()
            await asyncio.sleep(self.random.uniform(0.001, self.faults.slowest_watch_seconds))
            await self._hang_if_dead()
            self._fail_if_away()

    async def get(self, resource: Resource, namespace: str, name: str) -> JsonObject:
        try:
            answer: JsonObject = await self._request(lambda: self.server.read(resource, namespace, name))
        except NotFound:
            self.after_read(resource, (namespace, name), None)
            raise
        self.after_read(resource, (namespace, name), answer)
        return answer

    async def find(self, resource: Resource, name: str) -> JsonObject | None:
        found = await self._request(lambda: self.server.find(resource, "", name))
        return copy_of(found) if found else None

    async def create(self, resource: Resource, namespace: str, body: JsonObject) -> JsonObject:
        write = f"create {resource.plural} {namespace}/{body['metadata']['name']}"
        answer: JsonObject = await self._request(lambda: self.server.add(resource, namespace, body), write)
        return answer

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: JsonObject, subresource: str = ""
    ) -> JsonObject:
        write = f"patch {resource.plural} {namespace}/{name} {subresource}".rstrip()
        answer: JsonObject = await self._request(
            lambda: self.server.merge(resource, namespace, name, body, subresource), write
        )
        return answer

    async def apply(self, resource: Resource, namespace: str, name: str, body: JsonObject) -> JsonObject:
        def create_or_merge() -> JsonObject:
            if (namespace, name) in self.server.objects.get(resource, {}):
                return self.server.merge(resource, namespace, name, body)
            return self.server.add(resource, namespace, body)

        answer: JsonObject = await self._request(create_or_merge, f"apply {resource.plural} {namespace}/{name}")
        return answer

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        uid: str,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        def remove_if_same() -> None:
            body = self.server.find(resource, namespace, name)
            if body is None or body["metadata"]["uid"] != uid:
                return
            if resource_version in (None, body["metadata"]["resourceVersion"]):
                self.server.remove(resource, namespace, name)

        await self._request(remove_if_same, f"delete {resource.plural} {namespace}/{name}")

    async def close(self) -> None:
        """Nothing to close."""
