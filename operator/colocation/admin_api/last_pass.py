"""What the admin API knows of the cluster: what the operator's last pass saw and decided."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ..model.plan import GroupPlan, Plan
from ..model.snapshot import Snapshot
from ..state.membership import Membership, memberships
from ..state.objects import ObservedGroup
from ..state.observation import Observation


@dataclass(frozen=True)
class LastPass:
    """One pass: what it saw, the planner's snapshot, and the plan."""

    observation: Observation
    snapshot: Snapshot
    plan: Plan

    @cached_property
    def membership(self) -> Membership:
        """Which tables are in which group."""
        return memberships(self.observation)

    def group_of_id(self, group_id: str) -> ObservedGroup | None:
        """The group of this ``status.groupId``."""
        return next((group for group in self.observation.groups if group.status.group_id == group_id), None)

    def group_of_uid(self, uid: str) -> ObservedGroup | None:
        """The group object of this uid."""
        return next((group for group in self.observation.groups if group.identity.uid == uid), None)

    def plan_of(self, group: ObservedGroup) -> GroupPlan | None:
        """The group's part of the plan; None when its spec is not valid or it is being deleted."""
        return self.plan.find_group(group.key)


class Passes:
    """The newest pass, and the next ones for those who wait."""

    def __init__(self) -> None:
        self.latest: LastPass | None = None
        self._changed = asyncio.Condition()

    async def show(self, last_pass: LastPass) -> None:
        """Take a pass."""
        async with self._changed:
            self.latest = last_pass
            self._changed.notify_all()

    async def wait_for(self, shows: Callable[[LastPass], bool], seconds: float) -> LastPass | None:
        """The first pass, the latest included, that ``shows`` it; None when there is none in time."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                while self.latest is None or not shows(self.latest):
                    await self._changed.wait()
                return self.latest
        except TimeoutError:
            return None
