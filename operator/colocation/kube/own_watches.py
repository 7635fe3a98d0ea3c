"""Watches of our own, beside kopf's: agents' pods, clone Jobs, tables, volumes and claims of namespaces' files.

kopf watches either all namespaces or some, for every kind alike. Groups and tables are everywhere; pods and Jobs of
others are none of our business, and so need no right that is valid for the whole cluster. Tables are too many for kopf:
it lists all objects in one piece, and has a task and a queue for each (docs/decisions/0037-tables-beside-kopf.md).
"""

import asyncio
import logging
from collections.abc import Callable

from .api import Api, Expired, JsonObject, Resource
from .errors import ClusterError

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 2.0
"""From the beginning of a watch to that of the next one, at least: an API server that ends each at once is not asked
without end."""

Take = Callable[[Resource, JsonObject, bool], object]


async def follow(
    api: Api,
    resource: Resource,
    namespace: str,
    labels: str,
    take: Take,
    since: str = "",
    missed: Callable[[], object] = lambda: None,
) -> None:
    """Pass on every change of the objects that have these labels, for ever.

    ``namespace``: empty = of all namespaces. ``since``: a resource version, or "" to begin with all that is there.
    ``missed``: called when objects may have gone unseen, as the API server does not remember what was before (it has
    begun anew, above all): only full lists tell.
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
            version = ""
            missed()
        except (ClusterError, KeyError, TypeError) as error:
            logger.warning("the watch of %s broke and is begun anew: %s", resource.path(namespace), error)
        await asyncio.sleep(next_at - loop.time())
