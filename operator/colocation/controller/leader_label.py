"""Keeps the label ``colocation.dev/leads`` on the pod of the operator that leads, and on no other one.

Every operator's pod is ready, those that stand by, too. The Services of the admin API and the webhooks select this
label, so that callers reach the one operator that has made a pass.
"""

import asyncio
import logging
from collections.abc import Callable

from ..kube.api import PODS, Api, JsonObject
from ..kube.errors import ClusterError
from ..model.names import APP_NAME, LABEL_COMPONENT, LABEL_LEADS, LABEL_NAME

OPERATOR_COMPONENT = "operator"
SELECTOR = f"{LABEL_NAME}={APP_NAME},{LABEL_COMPONENT}={OPERATOR_COMPONENT}"
LOOK_SECONDS = 1.0
"""Between looks at whether this operator serves."""
KEEP_SECONDS = 30.0
"""Between looks at the label while it serves: a predecessor's late write, or a user, may have changed it."""

logger = logging.getLogger(__name__)


class LeaderLabel:
    """Of one operator.

    Args:
        api: the API server.
        namespace: the operators' own.
        pod: name of this operator's pod.
        is_serving: whether it leads and has made a pass.
    """

    def __init__(self, api: Api, namespace: str, pod: str, is_serving: Callable[[], bool]) -> None:
        self._api = api
        self._namespace = namespace
        self._pod = pod
        self._is_serving = is_serving

    async def run(self) -> None:
        """Keep the label, until cancelled."""
        while True:
            pause = LOOK_SECONDS
            if self._is_serving():
                try:
                    await self.step()
                    pause = KEEP_SECONDS
                except ClusterError as error:
                    logger.warning("the label %s of the operators' pods: %s", LABEL_LEADS, error)
            await asyncio.sleep(pause)

    async def step(self) -> None:
        """Label this pod, and take the label from the others.

        Raises:
            ClusterError: the API server refused, or gave no answer.
        """
        pods, _ = await self._api.list_all(PODS, self._namespace, SELECTOR)
        for pod in pods:
            metadata = pod["metadata"]
            wanted = "true" if metadata["name"] == self._pod else None
            if metadata.get("labels", {}).get(LABEL_LEADS) != wanted:
                await self._api.patch(PODS, self._namespace, metadata["name"], _patch(metadata["uid"], wanted))


def _patch(uid: str, value: str | None) -> JsonObject:
    return {"metadata": {"uid": uid, "labels": {LABEL_LEADS: value}}}
