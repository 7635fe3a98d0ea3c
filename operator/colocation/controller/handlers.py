"""kopf's handlers: they only pass on what they hear.

Only event handlers: they put no finalizers and no annotations on objects, so that whatever a user deletes goes at once,
whether the operator runs or not. Tables are too many for kopf: ``kube.own_watches`` watches them.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import kopf
from kubernetes.aio.config import ConfigException

from ..kube.api import GROUPS, NODES, Resource, connect
from ..model.wording import in_words
from .http import HttpServers
from .kopf_storages import NoLastState, NoProgress
from .operator import Operator
from .settings import settings_from

SERVER_TIMEOUT_SECONDS = 300
"""The API server ends watches after this; the next one goes on where they ended."""
CLIENT_TIMEOUT_SECONDS = SERVER_TIMEOUT_SECONDS + 30
CONNECT_TIMEOUT_SECONDS = 10
INACTIVITY_TIMEOUT_SECONDS = 70
"""Watches that die silently are begun again."""


@kopf.on.login()
def login(**arguments: Any) -> kopf.ConnectionInfo | None:
    """Inside a pod by its ServiceAccount, else by the user's kubeconfig."""
    return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)


@kopf.on.startup(errors=kopf.ErrorsMode.PERMANENT)
async def start(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """Configure kopf and begin to make passes."""
    settings.posting.enabled = False  # we post our own events
    settings.persistence.diffbase_storage, settings.persistence.progress_storage = NoLastState(), NoProgress()
    settings.watching.server_timeout = SERVER_TIMEOUT_SECONDS
    settings.watching.client_timeout = CLIENT_TIMEOUT_SECONDS
    settings.watching.connect_timeout = CONNECT_TIMEOUT_SECONDS
    settings.watching.inactivity_timeout = INACTIVITY_TIMEOUT_SECONDS
    ours = settings_from(os.environ)
    try:
        memo.operator = Operator(await connect(), ours, failed=partial(_die, memo))
        memo.servers = HttpServers(memo.operator, ours)
        await memo.servers.start()
    except (OSError, ConfigException) as error:
        memo.has_died = True
        raise kopf.PermanentError(f"the operator cannot start: {in_words(error)}") from error
    try:
        await memo.operator.start()
    except asyncio.CancelledError:  # kopf would not clean up
        await _clean_up(memo)
        raise


@kopf.on.cleanup(errors=kopf.ErrorsMode.PERMANENT)
async def stop(memo: kopf.Memo, **_: Any) -> None:
    """End the passes; any of them may be cut short."""
    await _clean_up(memo)


async def _clean_up(memo: kopf.Memo) -> None:
    if "servers" in memo:
        await memo.servers.stop()
        await memo.operator.stop()
    memo.stop.set()  # a task of kopf's own waits for it, and kopf would wait 5 s for that task


def _die(memo: kopf.Memo) -> None:
    memo.has_died = True
    memo.stop.set()


def _handler(resource: Resource) -> Callable[..., Awaitable[None]]:
    async def changed(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
        body = dict(event["object"])
        if event["type"] is None:  # so kopf marks what a watch begins with
            memo.operator.take_listed(resource, body)
        else:
            memo.operator.take(resource, body, deleted=event["type"] == "DELETED")

    changed.__name__ = changed.__qualname__ = f"{resource.plural}_changed"
    return changed


for _resource in (GROUPS, NODES):
    kopf.on.event(_resource.group, _resource.version, _resource.plural)(_handler(_resource))
