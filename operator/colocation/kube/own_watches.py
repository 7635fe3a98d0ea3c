"""Watches of the operator's own namespace: agents' pods and clone Jobs.

kopf watches either all namespaces or some, for every kind alike. Groups and tables are everywhere; pods and Jobs of
others are none of our business, and so need no right that is valid for the whole cluster.
"""

import asyncio
import logging
from collections.abc import Callable

from .api import Api, Expired, JsonObject, Resource
from .errors import ClusterError

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 2.0
"""Between two watches, so that an API server that ends each at once is not asked without end."""

Take = Callable[[Resource, JsonObject, bool], object]


async def follow(api: Api, resource: Resource, namespace: str, labels: str, take: Take) -> None:
    """Pass on every change of the namespace's objects that have these labels, for ever.

    What a gap between two watches hides, the full lists find that are taken from time to time.
    """
    version = ""
    while True:
        try:
            async for event in api.watch(resource, namespace, labels, version):
                body = event["object"]
                version = body["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    take(resource, body, event["type"] == "DELETED")
        except Expired:
            version = ""
        except (ClusterError, KeyError, TypeError) as error:
            logger.warning("the watch of %s in %s broke and is begun anew: %s", resource.plural, namespace, error)
        await asyncio.sleep(PAUSE_SECONDS)
