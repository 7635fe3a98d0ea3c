"""One pass: observe, decide, perform. What is kept between passes saves work, or makes the next ones careful.

A pass may end anywhere (crash, error, conflict); the next one starts from what the cluster shows. Two operators at once
do no harm: every write carries what it was decided from.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, Protocol

from ..kube.errors import AlreadyWritten, ClusterError, Refused, StaleDecision
from ..model.conditions import Reason
from ..reconcile.actions import (
    Action,
    ClusterWriter,
    CreateDataClaim,
    CreateDataVolume,
    PostEvent,
    WriteConfigMap,
    WriteGroupStatus,
)
from ..reconcile.decide import Decision, decide, next_deadline
from ..reconcile.evidence import Evidence
from ..reconcile.scopes import Scope
from ..state.memo import Memo
from ..state.objects import RefusedFiles
from ..state.observation import Observation
from .audit import audit_action
from .config_map_writes import ConfigMapWrites
from .settings import Settings
from .strategy import InOrder, Strategy

logger = logging.getLogger(__name__)

REFUSED_SECONDS = 60.0
"""What the API server refused is asked for again after this time."""


class NotLeading(ClusterError):
    """Another operator may lead by now: nothing is done any more."""


class InternalError(ClusterError):
    """An unforeseen error of ours; the log has its traceback."""


class ClusterReader(Protocol):
    """Tells what is known of the cluster; the real one is ``kube.reader``, simulations have their own."""

    async def observe(self, doubtful: Mapping[str, datetime] | None = None) -> Observation:
        """The cluster now, the clock included.

        ``doubtful``: nodes whose agents have to say again what they hold, from these moments on.

        Raises:
            ClusterError: the cluster could not be observed.
        """


@dataclass(frozen=True)
class PassResult:
    """What a pass did. ``failures``: scope -> why the rest of its actions were not done. ``has_advanced``: whether a
    scope was carried out to its end.
    """

    observation: Observation
    decision: Decision
    performed: tuple[Action, ...] = ()
    failures: Mapping[str, ClusterError] = field(default_factory=dict)
    has_advanced: bool = False

    @property
    def version(self) -> int | None:
        """Of the observation."""
        return self.observation.version

    @property
    def is_quiet(self) -> bool:
        """Whether nothing happened and nothing waits for the clock: the next pass would find the same."""
        plans = self.decision.plan.groups
        waiting = any(one.moves or one.blocked or one.drops or not one.stable for one in plans)
        away = any(not node.ready or node.disk_reason for node in self.decision.snapshot.nodes)
        waiting = waiting or self.decision.is_waiting
        silent = any(view.silent_since for view in self.observation.agent_views.values())
        return not (self.is_busy or waiting or away or silent)

    def is_quiet_at(self, now: datetime) -> bool:
        """Whether that is so, and nothing's time is over since."""
        deadline = next_deadline(self.observation)
        return self.is_quiet and (deadline is None or now < deadline)

    @property
    def has_failed(self) -> bool:
        """Whether something went wrong that trying again at once does not mend."""
        return any(not isinstance(error, StaleDecision) for error in self.failures.values())

    @property
    def is_busy(self) -> bool:
        """Whether something is under way: the next pass should follow soon."""
        return bool(self.performed or self.failures or self.decision.snapshot.clones)


@dataclass
class _Done:
    """What a pass has done so far; see ``PassResult``."""

    performed: list[Action] = field(default_factory=list)
    failures: dict[str, ClusterError] = field(default_factory=dict)
    has_advanced: bool = False


class LeaderState(NamedTuple):
    """What an operator may do at this moment. ``may_act``: False while another one may lead.

    ``renewed_at``: when its Lease was renewed last, by the wall clock; None = now. ``lost_fields`` and
    ``etcd_restored``: see ``Observation``; after a change of ``lost_fields`` ``forget_writes`` is to be called.
    """

    may_act: bool = True
    renewed_at: datetime | None = None
    lost_fields: tuple[str, ...] = ()
    etcd_restored: bool = False


class Reconciler:
    """Makes passes over one cluster.

    Args:
        reader: what is known of the cluster.
        writer: performs actions.
        settings: of the operator.
        leader_state: asked before every pass and every action.
        strategy: how to use the event loop.
    """

    def __init__(
        self,
        reader: ClusterReader,
        writer: ClusterWriter,
        settings: Settings,
        leader_state: Callable[[], LeaderState] = LeaderState,
        strategy: Strategy | None = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._settings = settings
        self._leader_state = leader_state
        self._strategy = strategy or InOrder()
        self._collect_at: datetime | None = None
        self._config_maps = ConfigMapWrites(settings.namespace)
        self._last: PassResult | None = None
        self._evidence = Evidence()
        self._memo = Memo()
        self._performed: tuple[Action, ...] = ()
        self._refused: dict[str, RefusedFiles] = {}

    def forget_writes(self) -> None:
        """Decide again in the next pass, whether or not anything has changed since this operator wrote it."""
        self._last = None

    async def reconcile_once(self) -> PassResult:
        """One pass over all groups and tables.

        Raises:
            ClusterError: the cluster could not be observed.
        """
        observation = await self._reader.observe(self._evidence.doubtful)
        state = self._leader_state()
        observation = replace(
            observation,
            refused_files=dict(self._refused),
            lost_fields=state.lost_fields,
            etcd_restored=state.etcd_restored,
        )
        self._evidence = self._evidence.ended(self._performed, observation.now)
        self._performed = ()
        collect = self._is_time_to_collect(observation.now)
        last = self._last
        unchanged = last is not None and observation.version is not None and observation.version == last.version
        unchanged = unchanged and last is not None and observation.etcd_restored == last.observation.etcd_restored
        if last is not None and unchanged and last.is_quiet_at(observation.now) and not collect:
            await self._renew_config_maps(observation.now)
            return last
        decision = await self._strategy.decide(
            partial(decide, observation, self._evidence, self._settings.policy, collect, self._memo)
        )
        known = last.decision.withheld.message if last and last.decision.withheld else ""
        if decision.withheld and decision.withheld.message != known:
            logger.warning("%s: %s", Reason.TOO_MANY_DELETIONS, decision.withheld.message)
        self._config_maps.begin(one for one in _all_actions(decision) if isinstance(one, WriteConfigMap))
        self._evidence = self._evidence.after(observation, _all_actions(decision), decision.holders.unneeded)
        done = _Done()
        now = observation.now
        self._refused = {namespace: one for namespace, one in self._refused.items() if now < one.retry_at}
        await self._strategy.perform([self._work(scope, now, done) for scope in decision.scopes])
        self._performed = tuple(done.performed)
        for name, error in decision.errors.items():
            logger.error("%s: the decision failed; the others go on", name, exc_info=error)
        self._last = PassResult(observation, decision, self._performed, done.failures, done.has_advanced)
        await self._renew_config_maps(observation.now)
        return self._last

    def _work(self, scope: Scope, now: datetime, done: "_Done") -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            performed: list[Action] = []
            error = await self._perform(scope, now, performed)
            done.performed += performed
            if error is not None:
                done.failures[scope.name] = error
            elif performed:
                done.has_advanced = True

        return work

    async def _perform(self, scope: Scope, now: datetime, performed: list[Action]) -> ClusterError | None:
        """Do a scope's actions in their order; the error that cut it short, whatever it is."""
        is_repetition = False
        for action in scope.actions:
            if isinstance(action, WriteConfigMap) and self._config_maps.is_written(action):
                continue
            if is_repetition and isinstance(action, PostEvent):
                continue  # of a status that was written in vain, and announced, before
            if not self._leader_state().may_act:
                return NotLeading(f"{scope.name}: this operator may not act: its Lease ran out")
            try:
                await self._writer.perform(self._signed(action, now))
            except AlreadyWritten:
                is_repetition = True
                continue
            except ClusterError as error:
                level = logging.INFO if isinstance(error, StaleDecision) else logging.WARNING
                logger.log(level, "%s: %s not done: %s", scope.name, type(action).__name__, error)
                if isinstance(action, PostEvent):
                    continue  # a lost event does no harm
                self._note_refusal(action, error, now)
                if isinstance(action, WriteGroupStatus):
                    await self._fall_back(scope, action, performed)
                return error
            except Exception as error:  # the last line of defence: one scope's error stays in its scope
                logger.exception("%s: %s not done", scope.name, type(action).__name__)
                if isinstance(action, WriteGroupStatus):
                    await self._fall_back(scope, action, performed)
                return InternalError(f"{scope.name}: {type(action).__name__}: {error!r}")
            audit_action(scope.name, action)
            performed.append(action)
            if isinstance(action, WriteConfigMap):
                self._config_maps.wrote(action, now)
        return None

    def _note_refusal(self, action: Action, error: ClusterError, now: datetime) -> None:
        if isinstance(error, Refused) and isinstance(action, CreateDataClaim | CreateDataVolume):
            retry_at = now + timedelta(seconds=REFUSED_SECONDS)
            self._refused[action.namespace] = RefusedFiles(str(error), retry_at)

    async def _fall_back(self, scope: Scope, action: WriteGroupStatus, performed: list[Action]) -> None:
        """Write less of a status that was refused."""
        for fallback in action.fallbacks:
            if not self._leader_state().may_act:
                return
            try:
                await self._writer.perform(fallback)
            except ClusterError as error:
                logger.warning("%s: %s not done either: %s", scope.name, type(fallback).__name__, error)
            except Exception:  # the last line of defence, as above
                logger.exception("%s: %s not done either", scope.name, type(fallback).__name__)
            else:
                audit_action(scope.name, fallback)
                performed.append(fallback)
                return

    async def _renew_config_maps(self, now: datetime) -> None:
        """Write some again although they have not changed; nothing waits for it."""
        for action in self._config_maps.due(now):
            if not self._leader_state().may_act:
                return
            try:
                await self._writer.perform(self._signed(action, now))
            except ClusterError as error:
                logger.warning("ConfigMap of group %s was not renewed: %s", action.group.name, error)
                self._config_maps.failed(action, now)
            else:
                self._config_maps.wrote(action, now)

    def _signed(self, action: Action, now: datetime) -> Action:
        if not isinstance(action, WriteConfigMap):
            return action
        return self._config_maps.signed(action, self._leader_state().renewed_at or now)

    def _is_time_to_collect(self, now: datetime) -> bool:
        due = self._collect_at is None or now >= self._collect_at
        if due:
            self._collect_at = now + timedelta(seconds=self._settings.collect_seconds)
        return due


def _all_actions(decision: Decision) -> Iterator[Action]:
    return (action for scope in decision.scopes for action in scope.actions)
