"""Events about groups, tables and agents' pods.

An Event's name follows from its text and its object, so one that is posted again (by a repeated pass, by a second
operator) only counts up.
"""

import hashlib
from collections.abc import Callable
from datetime import datetime

from ..model.names import APP_NAME, GROUP_API_VERSION
from ..reconcile.actions import PostEvent
from ..state.parse import format_time
from .api import EVENTS, Api, Conflict, JsonObject

POD_KIND = "Pod"
MAX_MESSAGE_LENGTH = 1024
MAX_SUBJECT_LENGTH = 230
"""Of an Event's message, and of its subject's name in its own: the API server refuses longer ones."""


class EventPoster:
    """Posts Events to the API server.

    Args:
        api: the API server.
        now: the clock.
        instance: the operator that posts it, by its pod's name.
    """

    def __init__(self, api: Api, now: Callable[[], datetime], instance: str) -> None:
        self._api = api
        self._now = now
        self._instance = instance

    async def post(self, event: PostEvent) -> None:
        """Create the Event, or count it up."""
        body = self._body(event)
        namespace, name = event.subject.namespace, body["metadata"]["name"]
        try:
            await self._api.create(EVENTS, namespace, body)
        except Conflict:
            again = await self._api.patch(EVENTS, namespace, name, {"lastTimestamp": format_time(self._now())})
            count = again.get("count")
            await self._api.patch(EVENTS, namespace, name, {"count": count + 1 if isinstance(count, int) else 2})

    def _body(self, event: PostEvent) -> JsonObject:
        subject, time = event.subject, format_time(self._now())
        said = hashlib.sha256(f"{subject.uid}\n{event.reason}\n{event.message}".encode()).hexdigest()
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{subject.name[:MAX_SUBJECT_LENGTH].rstrip('-.')}.{said[:16]}",
                "namespace": subject.namespace,
            },
            "involvedObject": {
                "apiVersion": "v1" if event.kind == POD_KIND else GROUP_API_VERSION,
                "kind": event.kind,
                "namespace": subject.namespace,
                "name": subject.name,
                "uid": subject.uid,
                "resourceVersion": subject.resource_version,
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message[:MAX_MESSAGE_LENGTH],
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "source": {"component": APP_NAME},
            "reportingComponent": APP_NAME,
            "reportingInstance": self._instance,
        }
