"""Watches in addition to kopf's: agents' pods, clone Jobs, tables, volumes and claims of namespaces' files.

kopf watches either all namespaces or some, for every kind alike. Groups and tables are everywhere; pods and Jobs of
others do not matter, so the operator needs no cluster-wide right on them. Tables are too many for kopf, which lists all
objects of a kind in one piece and keeps a task and a queue for each.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from .api import Api, Expired, JsonObject, Resource
from .errors import ClusterError

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 2.0
"""From the beginning of a watch to that of the next one, at least: an API server that ends each at once is not asked
without end."""

Take = Callable[[Resource, JsonObject, bool], object]


async def from_all_there_is(resource: Resource) -> str:
    """A watch from here on begins with all that is there; it does not report what is gone."""
    return ""


async def follow(
    api: Api,
    resource: Resource,
    namespace: str,
    labels: str,
    take: Take,
    listed_again: Callable[[Resource], Awaitable[str]],
    since: str = "",
) -> None:
    """Pass on every change of the objects that have these labels, for ever.

    ``namespace``: empty = of all namespaces. ``listed_again``: the resource version to begin with when the API server
    does not remember what was before (it has restarted, above all): of a full list, which alone shows what is gone.
    ``since``: the first such version, or "" to begin with all that is there.
    """
    version, loop = since, asyncio.get_running_loop()
    while True:
        next_at = loop.time() + PAUSE_SECONDS
        try:
            async for event in api.watch(resource, namespace, labels, version):
                body = event["object"]
                version = body["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    take(resource, body, event["type"] == "DELETED")
        except Expired:
            version = await listed_again(resource)
        except (ClusterError, KeyError, TypeError) as error:
            logger.warning("the watch of %s broke and is started again: %s", resource.path(namespace), error)
        await asyncio.sleep(next_at - loop.time())
