"""One pass: observe, decide, perform. What is kept between passes saves work, or makes the next ones careful.

A pass may end anywhere (crash, error, conflict); the next one starts from what the cluster shows. Two operators at once
do no harm: every write carries what it was decided from.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from ..kube.actions import Action, ClusterWriter, PostEvent, WriteConfigMap
from ..kube.errors import ClusterError, StaleDecision
from ..kube.observation import Observation
from ..manifests.config_map import SparkConfigMap
from .decide import Decision, Scope, decide
from .evidence import Evidence
from .settings import Settings

logger = logging.getLogger(__name__)


class ClusterReader(Protocol):
    """Tells what is known of the cluster; the real one is ``kube.reader``, simulations have their own."""

    async def observe(self) -> Observation:
        """The cluster now, the clock included.

        Raises:
            ClusterError: it cannot be told.
        """


@dataclass(frozen=True)
class PassResult:
    """What a pass did. ``failures``: scope -> why the rest of its actions were not done."""

    observation: Observation
    decision: Decision
    performed: tuple[Action, ...] = ()
    failures: Mapping[str, ClusterError] = field(default_factory=dict)

    @property
    def version(self) -> int | None:
        """Of the observation."""
        return self.observation.version

    @property
    def is_quiet(self) -> bool:
        """Whether nothing happened and nothing waits for the clock: the next pass would find the same."""
        plans = self.decision.plan.groups
        waiting = any(one.moves or one.blocked or one.drops or not one.stable for one in plans)
        away = any(not node.ready for node in self.decision.snapshot.nodes)
        leaving = any(group.status.delete_after for group in self.observation.groups)
        silent = any(view.silent_since for view in self.observation.agent_views.values())
        return not (self.is_busy or waiting or away or leaving or silent)

    @property
    def is_busy(self) -> bool:
        """Whether something is under way: the next pass should follow soon."""
        return bool(self.performed or self.failures or self.decision.snapshot.clones)


class Reconciler:
    """Makes passes over one cluster.

    Args:
        reader: what is known of the cluster.
        writer: performs actions.
        settings: of the operator.
    """

    def __init__(self, reader: ClusterReader, writer: ClusterWriter, settings: Settings) -> None:
        self._reader = reader
        self._writer = writer
        self._settings = settings
        self._collect_at: datetime | None = None
        self._config_maps: dict[str, SparkConfigMap] = {}
        self._last: PassResult | None = None
        self._evidence = Evidence()

    def forget_writes(self) -> None:
        """Write again what is not watched (ConfigMaps), in case somebody changed it."""
        self._config_maps.clear()
        self._last = None

    async def reconcile_once(self) -> PassResult:
        """One pass over all groups and tables.

        Raises:
            ClusterError: the cluster could not be observed.
        """
        observation = await self._reader.observe()
        collect = self._is_time_to_collect(observation.now)
        last = self._last
        unchanged = last is not None and observation.version is not None and observation.version == last.version
        if last is not None and unchanged and last.is_quiet and not collect:
            return last
        decision = decide(observation, self._evidence, self._settings, collect)
        self._evidence = self._evidence.after(observation, (one for scope in decision.scopes for one in scope.actions))
        performed: list[Action] = []
        failures: dict[str, ClusterError] = {}
        for scope in decision.scopes:
            error = await self._perform(scope, performed)
            if error is not None:
                failures[scope.name] = error
        self._last = PassResult(observation, decision, tuple(performed), failures)
        return self._last

    async def _perform(self, scope: Scope, performed: list[Action]) -> ClusterError | None:
        for action in scope.actions:
            if self._is_written(action):
                continue
            try:
                await self._writer.perform(action)
            except ClusterError as error:
                level = logging.INFO if isinstance(error, StaleDecision) else logging.WARNING
                logger.log(level, "%s: %s not done: %s", scope.name, type(action).__name__, error)
                if isinstance(action, PostEvent):
                    continue  # an event that is lost harms nobody
                return error
            performed.append(action)
            if isinstance(action, WriteConfigMap):
                self._config_maps[action.group.uid] = action.content
        return None

    def _is_written(self, action: Action) -> bool:
        """Whether a ConfigMap has this content already: they are not watched, and all groups' would be many writes."""
        return isinstance(action, WriteConfigMap) and self._config_maps.get(action.group.uid) == action.content

    def _is_time_to_collect(self, now: datetime) -> bool:
        due = self._collect_at is None or now >= self._collect_at
        if due:
            self._collect_at = now + timedelta(seconds=self._settings.collect_seconds)
        return due
