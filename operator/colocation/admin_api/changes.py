"""What an admin changes on a group object: the mark of instability, the bucket sequence."""

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

from ..kube.api import GROUPS, Api, Conflict, JsonObject, NotFound
from ..kube.errors import ClusterError
from ..model.conditions import EventReason
from ..model.group import BucketSequence
from ..model.names import ANNOTATION_MARKED_UNSTABLE, GROUP_KIND
from ..reconcile.actions import PostEvent
from ..state.objects import Identity, ObservedGroup
from ..state.parse import format_time, parse_group
from .errors import Refusal

MAX_ATTEMPTS = 5
"""The operator writes the group's status meanwhile; each attempt reads the group again."""

logger = logging.getLogger(__name__)


class GroupChanges:
    """Changes groups for admins, each with what it was decided from as a precondition, and posts an Event.

    Args:
        api: the API server.
        post: posts an Event.
        now: the clock.
        take: called with every object that a write returned.
    """

    def __init__(
        self,
        api: Api,
        post: Callable[[PostEvent], Awaitable[None]],
        now: Callable[[], datetime],
        take: Callable[[JsonObject], object],
    ) -> None:
        self._api = api
        self._post = post
        self._now = now
        self._take = take

    async def mark_unstable(self, group: Identity, user: str) -> int:
        """Mark a group unstable; one that is marked keeps its mark. The resource version that shows it."""
        mark = f"{user}, since {format_time(self._now())}"

        def change(current: ObservedGroup) -> JsonObject | None:
            if current.marked_unstable is not None:
                return None
            return {"metadata": {"annotations": {ANNOTATION_MARKED_UNSTABLE: mark}}}

        return await self._change(
            group, change, EventReason.MARKED_UNSTABLE, f"by {user}; until POST /api/colocate/group_stable"
        )

    async def remove_mark(self, group: Identity, user: str) -> int:
        """Take the mark back; a group without one is left alone. The resource version that shows it."""

        def change(current: ObservedGroup) -> JsonObject | None:
            if current.marked_unstable is None:
                return None
            return {"metadata": {"annotations": {ANNOTATION_MARKED_UNSTABLE: None}}}

        return await self._change(
            group, change, EventReason.MARK_REMOVED, f"by {user}; stability follows from the replicas again"
        )

    async def set_sequence(self, group: Identity, sequence: BucketSequence, user: str) -> int:
        """Write ``spec.bucketSequence``. The resource version that shows it."""

        def change(current: ObservedGroup) -> JsonObject | None:
            if current.spec is None:
                raise Refusal(409, "InvalidSpec", f"the group's spec is not valid: {current.spec_error}; correct it")
            if current.spec.bucket_sequence == sequence:
                return None
            return {"spec": {"bucketSequence": sequence}}

        return await self._change(group, change, EventReason.BUCKET_SEQUENCE_SET, f"by {user}: {len(sequence)} buckets")

    async def _change(
        self, group: Identity, change: Callable[[ObservedGroup], JsonObject | None], reason: EventReason, message: str
    ) -> int:
        """Patch the group with what ``change`` returns for it; nothing when that is None.

        Raises:
            Refusal: the group is gone, or is being written all the time.
            ApiError: the API server did not do its part.
        """
        for _ in range(MAX_ATTEMPTS):
            current = await self._read(group)
            patch = change(current)
            if patch is None:
                return int(current.identity.resource_version)
            metadata = {**patch.get("metadata", {}), "resourceVersion": current.identity.resource_version}
            try:
                written = await self._api.patch(GROUPS, group.namespace, group.name, {**patch, "metadata": metadata})
            except Conflict:
                continue
            self._take(written)
            logger.info("group %s/%s: %s %s", group.namespace, group.name, reason, message)
            await self._tell(current.identity, reason, message)
            return int(written["metadata"]["resourceVersion"])
        raise Refusal(409, "Conflict", "the group is being changed by others at the same time; try again")

    async def _read(self, group: Identity) -> ObservedGroup:
        try:
            current = parse_group(await self._api.get(GROUPS, group.namespace, group.name))
        except NotFound as error:
            raise _gone() from error
        if current.identity.uid != group.uid or current.identity.deleting:
            raise _gone()
        return current

    async def _tell(self, group: Identity, reason: EventReason, message: str) -> None:
        """Post an Event; a lost one does no harm."""
        try:
            await self._post(PostEvent(GROUP_KIND, group, "Normal", reason, message))
        except ClusterError as error:
            logger.warning("event %s of group %s/%s is lost: %s", reason, group.namespace, group.name, error)


def _gone() -> Refusal:
    return Refusal(404, "NoSuchGroup", "the group has just been deleted")
