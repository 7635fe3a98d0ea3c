"""The Kubernetes API in plain JSON: list, read, create, patch, delete; errors by what callers do about them."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.config import ConfigException

from ..common.server_clock import ServerClock
from ..model.names import API_GROUP, API_VERSION, GROUP_PLURAL, TABLE_PLURAL
from ..model.wording import in_words
from .errors import ClusterError, StaleDecision

JsonObject = dict[str, Any]

REQUEST_TIMEOUT_SECONDS = 15.0
WATCH_SECONDS = 300
"""The API server ends a watch after this."""
WATCH_SILENCE_SECONDS = 100.0
"""A watch that dies silently is started again; a living one has a bookmark every minute."""
PAGE_OBJECTS = 50
"""An object may have 1.5 MiB; and the API server gives a few hundred small pages within seconds."""
MAX_PAGED_ATTEMPTS = 3
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
FIELD_MANAGER = "colocation-operator"


@dataclass(frozen=True)
class Resource:
    """A kind of object, as its URL names it. ``part``: those of its objects that we look at on their own."""

    group: str
    version: str
    plural: str
    part: str = ""

    @property
    def title(self) -> str:
        """For people."""
        return self.part or self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL's path of all objects, those of a namespace, one object, or its subresource."""
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        parts += ["namespaces", namespace] if namespace else []
        return "/".join([*parts, self.plural, *filter(None, [name, subresource])])


GROUPS = Resource(API_GROUP, API_VERSION, GROUP_PLURAL)
TABLES = Resource(API_GROUP, API_VERSION, TABLE_PLURAL)
NODES = Resource("", "v1", "nodes")
PODS = Resource("", "v1", "pods")
HOLDERS = Resource("", "v1", "pods", "holders")
CLONE_PODS = Resource("", "v1", "pods", "pods of clones")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
JOBS = Resource("batch", "v1", "jobs")
NAMESPACES = Resource("", "v1", "namespaces")
VOLUMES = Resource("", "v1", "persistentvolumes")
CLAIMS = Resource("", "v1", "persistentvolumeclaims")
CONFIG_MAPS = Resource("", "v1", "configmaps")
EVENTS = Resource("", "v1", "events")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts")


_TOO_OLD = re.compile(r"too old resource version: \d+ \((\d+)\)")


class ApiError(ClusterError):
    """The API server refused a request, or gave no answer (``status`` 0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}" if status else message)
        self.status = status


class NotFound(ApiError):
    """404: the object is not there (any more)."""


class Conflict(ApiError, StaleDecision):
    """409: somebody else wrote the object since we read it, or it exists already."""


class Expired(ApiError):
    """410: the API server does not remember the rest of a list, or what was since a version, any more."""

    @property
    def remembered_since(self) -> str:
        """The first version that a watch may begin with; "" = the API server does not say.

        ``too old resource version: <asked for> (<first>)``, by k8s.io/apiserver's watch cache. It remembers
        nothing of before its own start, and what is newer for 75 s at least.
        """
        found = _TOO_OLD.search(str(self))
        return found[1] if found else ""


class Listing(Protocol):
    """Takes the objects of a full list as its pages arrive: never all of them are here as JSON at one time."""

    def begin(self) -> None:
        """The first page follows; what was taken before was of a list that could not be finished."""

    def take(self, body: JsonObject) -> None:
        """The next object."""


class _Collected:
    """Keeps all objects."""

    def __init__(self) -> None:
        self.objects: list[JsonObject] = []

    def begin(self) -> None:
        self.objects = []

    def take(self, body: JsonObject) -> None:
        self.objects.append(body)


async def connect() -> "Api":
    """Inside a pod by its ServiceAccount, else by the user's kubeconfig."""
    configuration = client.Configuration()
    try:
        config.load_incluster_config(configuration)
    except ConfigException:
        await config.load_kube_config(client_configuration=configuration)
    return Api(client.ApiClient(configuration))


class Api:
    """Requests to the API server. All methods raise ``ApiError`` or one of its subclasses.

    ``failures``: (verb, HTTP status) -> failed requests so far; status 0 = no answer. ``clock``: the API server's.
    """

    def __init__(self, api_client: client.ApiClient) -> None:
        self._client = api_client
        self.clock = ServerClock()
        self.failures: Counter[tuple[str, int]] = Counter()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def list_all(self, resource: Resource, namespace: str = "", labels: str = "") -> tuple[list[JsonObject], int]:
        """(objects, resource version of the list); ``labels`` is a label selector."""
        collected = _Collected()
        version = await self.list_into(collected, resource, namespace, labels)
        return collected.objects, version

    async def list_into(self, listing: Listing, resource: Resource, namespace: str = "", labels: str = "") -> int:
        """Give all objects to ``listing``, page by page; the resource version of the list.

        A list that takes so long that the API server forgets its beginning is requested again, at last in one piece.
        """
        query = [("labelSelector", labels)] if labels else []
        for _ in range(MAX_PAGED_ATTEMPTS):
            try:
                return await self._list_pages(listing, resource, namespace, [*query, ("limit", str(PAGE_OBJECTS))])
            except Expired:
                continue
        return await self._list_pages(listing, resource, namespace, query)

    async def _list_pages(
        self, listing: Listing, resource: Resource, namespace: str, query: list[tuple[str, str]]
    ) -> int:
        listing.begin()
        page = query
        while True:
            answer = await self._request("GET", resource.path(namespace), query=page)
            try:
                objects = list(answer["items"] or [])
                version, more = int(answer["metadata"]["resourceVersion"]), answer["metadata"].get("continue")
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise ApiError(0, f"GET {resource.path(namespace)}: the answer is not a list: {error!r}") from error
            del answer
            for body in objects:
                listing.take(body)
                await asyncio.sleep(0)  # an object may be large, and a Lease is to be renewed
            if not more:
                return version
            page = [*query, ("continue", more)]

    async def check_ready(self) -> None:
        """Whether the API server is ready. Before that it has not read all roles, and refuses what is allowed.

        Raises:
            ApiError: it is not, or has not yet read the role that lets us ask.
        """
        await self._content("GET", "/readyz")

    async def get(self, resource: Resource, namespace: str, name: str) -> JsonObject:
        """One object, as it stands in etcd now."""
        return await self._request("GET", resource.path(namespace, name))

    async def find(self, resource: Resource, name: str) -> JsonObject | None:
        """One object of the whole cluster, by a list of it alone: a right to list all is no right to get one."""
        collected = _Collected()
        await self._list_pages(collected, resource, "", [("fieldSelector", f"metadata.name={name}")])
        return collected.objects[0] if collected.objects else None

    async def watch(
        self, resource: Resource, namespace: str, labels: str, version: str
    ) -> AsyncGenerator[JsonObject, None]:
        """Watch events since ``version`` until the watch ends; since "" they begin with every object that is there.

        Raises:
            Expired: the API server does not remember that version any more.
        """
        path = resource.path(namespace)
        query = [
            ("watch", "true"), ("labelSelector", labels), ("resourceVersion", version),
            ("allowWatchBookmarks", "true"), ("timeoutSeconds", str(WATCH_SECONDS)),
        ]  # fmt: skip
        headers = {"Accept": "application/json"}
        timeout = aiohttp.ClientTimeout(sock_connect=REQUEST_TIMEOUT_SECONDS, sock_read=WATCH_SILENCE_SECONDS)
        try:
            request = await self._client.param_serialize(
                "GET", path, query_params=query, header_params=headers, auth_settings=["BearerToken"]
            )
            answer = await self._client.call_api(*request, _request_timeout=timeout)
            async with answer.response as response:
                if response.status >= 300:
                    raise self._failed("WATCH", response.status, f"watch {path}: {_message(await response.read())}")
                async for line in _lines(response.content.iter_any()):
                    yield _event(path, line)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            message = f"watch {path}: no answer from the API server: {in_words(error)}"
            raise self._failed("WATCH", 0, message) from error

    async def create(self, resource: Resource, namespace: str, body: JsonObject) -> JsonObject:
        """A new object; Conflict when its name is taken."""
        return await self._request("POST", resource.path(namespace), body, query=[("fieldManager", FIELD_MANAGER)])

    async def create_token(self, namespace: str, account: str, spec: JsonObject) -> JsonObject:
        """A TokenRequest with this ``spec`` for a ServiceAccount, as the API server answered it."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return await self._request("POST", SERVICE_ACCOUNTS.path(namespace, account, "token"), body)

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: JsonObject, subresource: str = ""
    ) -> JsonObject:
        """A merge patch. With ``metadata.resourceVersion`` in the body: Conflict when the object has changed."""
        return await self._request("PATCH", resource.path(namespace, name, subresource), body, MERGE_PATCH)

    async def apply(self, resource: Resource, namespace: str, name: str, body: JsonObject) -> JsonObject:
        """Server-side apply: make the object's fields so, whether it exists or not."""
        query = [("fieldManager", FIELD_MANAGER), ("force", "true")]
        return await self._request("PATCH", resource.path(namespace, name), body, APPLY_PATCH, query)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        uid: str,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete this very object (as it was at ``resource_version``) and, in the background, what it owns.

        One that is gone already, or has changed, is no error. ``grace_seconds``: instead of the object's own.
        """
        preconditions = {"uid": uid, **({"resourceVersion": resource_version} if resource_version else {})}
        body: JsonObject = {"propagationPolicy": "Background", "preconditions": preconditions}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            await self._request("DELETE", resource.path(namespace, name), body)
        except (NotFound, Conflict):
            return

    async def _request(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        content_type: str = "application/json",
        query: list[tuple[str, str]] | None = None,
    ) -> JsonObject:
        content = await self._content(method, path, body, content_type, query)
        try:
            return json.loads(content)
        except ValueError as error:
            raise self._failed(method, 0, f"{method} {path}: the answer is not JSON: {error}") from error

    async def _content(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        content_type: str = "application/json",
        query: list[tuple[str, str]] | None = None,
    ) -> bytes:
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        try:
            request = await self._client.param_serialize(
                method, path, query_params=query, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            response = await self._client.call_api(*request, _request_timeout=REQUEST_TIMEOUT_SECONDS)
            content = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            message = f"{method} {path}: no answer from the API server: {in_words(error)}"
            raise self._failed(method, 0, message) from error
        self.clock.hear(response.headers)
        if response.status >= 300:
            raise self._failed(method, response.status, f"{method} {path}: {_message(content)}")
        return bytes(content)

    def _failed(self, verb: str, status: int, message: str) -> ApiError:
        self.failures[verb, status] += 1
        return _error(status, message)


def _error(status: int, message: str) -> ApiError:
    return {404: NotFound, 409: Conflict, 410: Expired}.get(status, ApiError)(status, message)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whole lines; aiohttp's own reader refuses long ones, and a Job's is long."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line


def _event(path: str, line: bytes) -> JsonObject:
    try:
        event: JsonObject = json.loads(line)
        kind, body = event["type"], event["object"]
        status = int(body["code"]) if kind == "ERROR" else 0
    except (ValueError, KeyError, TypeError) as error:
        raise ApiError(0, f"watch {path}: the answer is not an event: {error!r}") from error
    if kind == "ERROR":
        raise _error(status, f"watch {path}: {body.get('message')}")
    return event


def _message(content: bytes) -> str:
    """The message of a Status object; anything else is quoted."""
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content[:300].decode(errors="replace")
