"""The operator: watches feed it, it wakes, coalesces, and makes one pass after another while it leads."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from datetime import datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from ..admin_api.application import AdminApi
from ..admin_api.changes import GroupChanges
from ..admin_api.last_pass import LastPass, Passes
from ..admission import Known, admission_application
from ..agentclient import Credentials
from ..common.waiting import set_within
from ..kube.agent_channel import HttpChannel
from ..kube.agent_tokens import AgentTokens, TokenAccount
from ..kube.api import CLAIMS, GROUPS, PODS, TABLES, VOLUMES, Api, ApiError, Resource
from ..kube.certificate_requests import CERTIFICATE_REQUESTS, CertificateRequests
from ..kube.errors import ClusterError
from ..kube.events import EventPoster
from ..kube.inventories import Inventories
from ..kube.orders import AgentOrders, order_client, patient_client
from ..kube.own_watches import follow, from_all_there_is
from ..kube.reader import LABEL_SELECTORS, OWN_NAMESPACE, JsonObject, LiveCluster
from ..kube.writer import LiveWriter
from ..model.adoption import Folders
from ..model.reader_rules import CURRENT, Freshness
from ..state.memo import Memo
from .authority import Authority
from .certificates import CertificateSigner
from .clock import SteadyClock
from .folders import folders_of
from .full_lists import FullLists
from .kinds import Kinds
from .leader_label import LeaderLabel
from .leadership import Leadership
from .metrics import Metrics
from .pace import Pace
from .reconciler import LeaderState, PassResult, Reconciler
from .settings import Settings
from .strategy import BesideTheLoop

logger = logging.getLogger(__name__)

WAITING_INTERVAL_SECONDS = 1.0
"""Between looks at whether this operator leads."""
COALESCING_SECONDS = 0.05
"""Events come in bursts; a pass waits this long for the rest of its burst."""
MAX_COALESCING_SECONDS = 2.0
"""Long passes wait a quarter as long as the last one took, at most so long: a fifth of the time is others'."""
MAX_UNSUCCESSFUL_SECONDS = 300.0
"""A leader that has made no pass for so long ends: its Lease must not keep an old verdict alive."""
MAX_TIMELESS_ANSWERS = 10
"""Of an API server, or of a proxy before it, that does not tell the time."""
MAX_STILL_SECONDS = 120.0
"""The loop of a living operator does something at least this often."""


class NoPasses(Exception):
    """The operator leads and cannot make passes; the log has the reason."""


class LeadershipLost(Exception):
    """What this operator remembers is not to be trusted: another one leads, or etcd was restored."""


class Operator:
    """Runs passes until it is stopped.

    Args:
        api: the API server.
        settings: of the operator.
        failed: called when the loop dies: the process must not live on without it.
    """

    def __init__(self, api: Api, settings: Settings, failed: Callable[[], None]) -> None:
        access = Path(settings.token_directory)
        credentials = Credentials(access / "token", access / "ca.crt")
        self._clock = SteadyClock(api.clock.now)
        now = self._clock.now
        self.metrics = Metrics(api.failures)
        self.last: PassResult | None = None
        self.last_pass_at: datetime | None = None
        self._last_known: Known | None = None
        self.leadership = Leadership(api, settings.namespace, settings.pod_name, api.clock.now)
        self._now = now
        self._settings = settings
        self._failed = failed
        self._api = api
        self._wake = asyncio.Event()
        account = TokenAccount(settings.namespace, settings.service_account, settings.pod_name)
        tokens = AgentTokens(api, account, credentials, lambda url: self._cluster.agent_at(url))
        self._connect_patiently = patient_client(tokens.credentials)
        self._inventories = Inventories(
            HttpChannel(credentials, tokens), now, self._wake.set, self.leadership
        )
        self._orders = AgentOrders(
            order_client(tokens.credentials), self._inventories.ask_again, self.leadership.hear_term
        )
        self._cluster = LiveCluster(
            api, settings.namespace, now, self._inventories, access / "ca.crt", self._term, settings.taint_keys
        )
        self._lists = FullLists(self._cluster, settings.resync_seconds, self._wake.set)
        events = EventPoster(api, now, self.leadership.identity)
        writer = LiveWriter(api, self._orders, events, settings.clone_jobs, settings.holders, self._cluster.take)
        self._kinds = Kinds(api)
        self._reconciler = Reconciler(self._cluster, writer, settings, self._leader_state, BesideTheLoop())
        self._certificates = self._certificate_signer(events)
        self._passes = Passes()
        self._changes = GroupChanges(api, events.post, now, lambda body: self.take(GROUPS, body))
        self._tasks: list[asyncio.Task[None]] = []
        self._follows_tables = False
        self._advanced_at = self._leading_since = self._succeeded_at = time.monotonic()
        self._pace = Pace(settings.inventory_seconds)
        self._pass_seconds = 0.0

    async def start(self) -> None:
        """Begin to take part in the election, and to make passes, in the background.

        Not before the API server has said what time it is: nothing may be heard by another clock.
        """
        await self._set_clock()
        watched = {**dict.fromkeys(OWN_NAMESPACE, self._settings.namespace), VOLUMES: "", CLAIMS: ""}
        own = (
            (follow(self._api, kind, namespace, LABEL_SELECTORS[kind], self.take, self._lists.again), kind.title)
            for kind, namespace in watched.items()
        )
        for work, name in ((self.leadership.run(), "leadership"), (self._run(), "passes"), *own):
            self._begin(work, name)
        if pod := self._settings.pod_name:
            label = LeaderLabel(self._api, self._settings.namespace, pod, lambda: self.is_serving)
            self._begin(label.run(), "leader's label")
        if self._certificates is not None:
            take = self._certificates.take
            watch = follow(self._api, CERTIFICATE_REQUESTS, "", LABEL_SELECTORS[PODS], take, from_all_there_is)
            self._begin(watch, CERTIFICATE_REQUESTS.plural)
            self._begin(self._certificates.run(), "certificates")

    async def _set_clock(self) -> None:
        answers, logged = 0, ""
        while not self._api.clock.is_known and answers < MAX_TIMELESS_ANSWERS:
            self._advanced_at = time.monotonic()
            why = "its answer has no header Date"
            try:
                await self._api.check_ready()
                answers += 1
            except ApiError as error:
                why = str(error)
                answers += error.status > 0
            if not self._api.clock.is_known:
                if why != logged:
                    logger.warning("waiting for the API server, by whose clock the operator goes: %s", why)
                logged = why
                await asyncio.sleep(WAITING_INTERVAL_SECONDS)
        if not self._api.clock.is_known:
            logger.warning("the clock of this node is taken for that of the API server, which does not tell it")
        self._clock.set()

    def _certificate_signer(self, events: EventPoster) -> CertificateSigner | None:
        settings = self._settings
        if not settings.signer_name:
            return None
        folder = settings.authority_directory
        return CertificateSigner(
            CertificateRequests(self._api),
            settings.certificates,
            Authority(Path(folder)) if folder else None,
            lambda: self._cluster.agents,
            lambda: self.leadership.is_leading,
            self._now,
            self.metrics,
            events.post,
        )

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    async def stop(self) -> None:
        """End the passes, wherever they are, give up the Lease, and close all connections."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)  # not awaited themselves: one may have died, which was logged already
        await self.leadership.release()
        await self._inventories.close()
        self._orders.close()
        await self._api.close()

    @property
    def is_alive(self) -> bool:
        """Whether the loop advances, be the API server there or not."""
        return time.monotonic() - self._advanced_at <= MAX_STILL_SECONDS

    @property
    def is_serving(self) -> bool:
        """Whether it leads and has made a pass: it can answer the admin API and the webhooks."""
        return self.last is not None and self.leadership.is_leading

    async def folders(self) -> Folders | None:
        """Folders of lost tables, as the agents see them now; None before the first pass."""
        if self.last is None:
            return None
        return await folders_of(self.last.observation, self._connect_patiently)

    def admin_api(self) -> web.Application:
        """The requests of admins."""
        return AdminApi(self._api, self._passes, self._changes).application()

    def admission(self) -> web.Application:
        """The requests of the API server's webhooks."""
        return admission_application(self._known)

    def _known(self) -> Known | None:
        """The same object as long as nothing is new: what it has found out is not found out again."""
        if self.last is None:
            return None
        known, snapshot, freshness = self._last_known, self.last.decision.snapshot, self._freshness()
        groups, tables = self._cluster.groups, self._cluster.tables
        if (
            known is None
            or known.groups is not groups
            or known.tables is not tables
            or known.snapshot is not snapshot
            or known.freshness != freshness
        ):
            memo = known.memo.branch() if known else Memo()
            self._last_known = known = Known(
                now=self._now(),
                groups=groups,
                tables=tables,
                snapshot=snapshot,
                data_root=self._settings.data_root,
                spark_image=self._settings.spark_image or None,
                freshness=freshness,
                memo=memo,
            )
        return known

    def _freshness(self) -> Freshness:
        """Whether the verdicts that the groups hold are still this operator's."""
        if self.leadership.is_leading:
            return CURRENT
        since = self.leadership.renewed_at
        return Freshness(message=f"the operator that answers does not lead (its Lease was renewed at {since})")

    def take(self, resource: Resource, body: JsonObject, deleted: bool = False) -> None:
        """Hear of an object; a change that matters wakes the next pass."""
        if self._cluster.take(resource, body, deleted):
            self._wake.set()

    def take_listed(self, resource: Resource, body: JsonObject) -> None:
        """Hear of an object from a watch of kopf's that starts again with all that is there: what was deleted since it
        broke is not reported, and would stay for minutes.
        """
        self.take(resource, body)
        self._lists.ask()

    def _term(self) -> int:
        return self.leadership.term

    def _leader_state(self) -> LeaderState:
        """Asked before every action, and so a sign that the loop advances."""
        self._advanced_at = time.monotonic()
        leadership = self.leadership
        self.metrics.leading.set(leadership.is_leading)
        self.metrics.etcd_restored.set(leadership.etcd_restored)
        return LeaderState(
            leadership.is_leading, leadership.renewed_at, self._kinds.lost_fields, leadership.etcd_restored
        )

    async def _run(self) -> None:
        while True:
            self._clock.check()
            if not self._leader_state().may_act:
                self._leading_since = time.monotonic()
                await asyncio.sleep(WAITING_INTERVAL_SECONDS)
                continue
            started = time.monotonic()
            if started - max(self._leading_since, self._succeeded_at) > MAX_UNSUCCESSFUL_SECONDS:
                raise NoPasses(f"no pass in {MAX_UNSUCCESSFUL_SECONDS:.0f} s; the process ends, to be started again")
            result = await self._pass_or_none()
            self._pass_seconds = time.monotonic() - started
            await self._sleep(self._pace.interval(result))

    async def _pass_or_none(self) -> PassResult | None:
        """One pass; None when it did not happen, which is logged and counted."""
        try:
            self._wake.clear()
            await self._list_if_due()
            with self.metrics.time_pass():
                result = await self._reconciler.reconcile_once()
            await self._show(result)
        except ClusterError as error:
            self.metrics.failed_passes.inc()
            logger.warning("the pass did not happen: %s", error)
            return None
        except Exception:  # the last line of defence: the next pass may go well; NoPasses ends what never does
            self.metrics.failed_passes.inc()
            logger.exception("the pass did not happen")
            return None
        self._succeeded_at = time.monotonic()
        return result

    async def _show(self, result: PassResult) -> None:
        """Tell of a pass: metrics, snapshot, admin API."""
        self.metrics.last_pass.set(self._api.clock.now().timestamp())
        new, self.last, self.last_pass_at = result is not self.last, result, self._now()
        self.metrics.show(result)
        if new:
            decision = result.decision
            await self._passes.show(LastPass(result.observation, decision.snapshot, decision.plan))

    async def _list_if_due(self) -> None:
        if not await self._lists.take_if_due():
            return
        if not self._follows_tables:
            await self._cluster.hear_of_drops(self.leadership.predecessor_version)
            self._follows_tables = True
            since = str(self._cluster.listed_at[TABLES])
            self._begin(follow(self._api, TABLES, "", "", self.take, self._lists.again, since), TABLES.plural)
        await self._kinds.look()
        self.metrics.show_kinds(self._kinds.missing)
        self._reconciler.forget_writes()

    async def _sleep(self, seconds: float) -> None:
        await set_within(self._wake, seconds)
        await asyncio.sleep(max(COALESCING_SECONDS, min(self._pass_seconds / 4, MAX_COALESCING_SECONDS)))

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            error = task.exception() or LeadershipLost(self.leadership.why_lost)
            logger.critical("%s ended; the process ends, to be started again", task.get_name(), exc_info=error)
            self._failed()
