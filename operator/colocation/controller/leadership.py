"""One operator leads, the others wait: by a Lease, as Kubernetes' own controllers do.

The holder renews the Lease. A waiting operator takes it over once it has itself seen no renewal for the Lease's
duration (by its monotonic clock, never by the times in the Lease: clocks differ), or at once when the holder released
it. Each takeover begins a new *term*, a number that only grows. Agents refuse questions and orders of older terms, so
an operator that was replaced and does not know it yet does no harm. A holder that cannot renew stops acting before
anybody else may begin (``is_leading``), goes on when it finds the Lease still its own, and ends when another holds it.

Resource versions only grow, unless etcd is restored from an older copy. Caches that are fed by watches then hold
objects of a future that never came, and take the real ones for old. The Lease is written every few seconds, so it is
where that shows: an operator that finds it with a smaller resource version than before ends, whether it leads or waits.

Agents remember the resource version that an operator saw last. One that takes over an older Lease than an agent
remembers marks it by an annotation: nothing is deleted until an administrator takes that away (``colocation adopt``).
An agent is asked to remember a newer version only after its memory has been compared, and the mark has been written.

Source: client-go's ``leaderelection``. The Python client's port of it is not used: it reads the wall clock, counts no
transitions, and ends at the first error of the network.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from ..common.waiting import set_within
from ..kube.api import Api, ApiError, Conflict, NotFound, Resource
from ..model.agent import SeenLease
from ..model.names import ANNOTATION_ETCD_RESTORED, LEASE_DURATION_SECONDS, LEASE_NAME, LEASE_RENEW_SECONDS

LEASES = Resource("coordination.k8s.io", "v1", "leases")
MAX_TERMS_AHEAD = 100_000
"""More than a cluster loses when etcd is restored; who knows of a newer term yet makes it up. Terms have 31 bits."""
RETRY_SECONDS = 2.0
"""Between attempts to renew or to take over."""
SAFETY_SECONDS = 4.0
"""The holder stops acting so long before others may begin: a request that is under way may still be carried out."""

JsonObject = dict[str, Any]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeaseRecord:
    """A Lease as the API server has it. ``transitions``: how often it changed hands.

    ``etcd_restored``: the version that agents remembered when it was found to be older; empty = all is well.
    """

    holder: str
    transitions: int
    renew_time: str
    resource_version: str
    etcd_restored: str = ""

    @property
    def term(self) -> int:
        """Of its holder."""
        return self.transitions + 1

    @property
    def version(self) -> int:
        """Kubernetes orders resource versions of a kind as integers (KEP-5504)."""
        return int(self.resource_version)


class Leadership:
    """This operator's part in the election.

    Args:
        api: the API server.
        namespace: the operator's own, where the Lease is.
        pod: name of the pod, empty outside of one. A container that starts again in the same pod need not wait: the
            one before it is dead.
        now: the API server's clock, for the times in the Lease, which people and readers of verdicts look at.
        monotonic: seconds that never go back.

    ``predecessor_version``: the Lease's resource version as the leader before this one left it; "" = there was none.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        pod: str,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._pod = pod
        self._now = now
        self._monotonic = monotonic
        self.identity = f"{pod or 'operator'}_{uuid4().hex[:8]}"
        self.term = 0
        self.predecessor_version = ""
        self.renewed_at: datetime | None = None
        self._valid_until = float("-inf")
        self._seen: tuple[LeaseRecord, float] | None = None
        self._heard_term = 0
        self._newest_version = 0
        self._found_version = 0
        self._remembered_version = 0
        self._mark: str | None = None
        self._is_accepted = False
        self._why_lost = ""
        self._wake = asyncio.Event()

    @property
    def is_leading(self) -> bool:
        """Whether this operator may act now."""
        return self.term > 0 and self._monotonic() < self._valid_until

    @property
    def is_standing_by(self) -> bool:
        """Whether another operator leads and this one can take over: it has seen the Lease renewed in time."""
        if self.term or self._why_lost or self._seen is None:
            return False
        return self._monotonic() - self._seen[1] < LEASE_DURATION_SECONDS

    @property
    def why_lost(self) -> str:
        """Why this operator must not go on with what it knows; empty while it may."""
        return self._why_lost

    def hear_term(self, term: int) -> None:
        """An agent knows of a newer term than ours: take a newer one yet, or find out that somebody else has it."""
        if term > self.term + MAX_TERMS_AHEAD:
            logger.error("an agent claims to know term %d; ours is %d: it is not believed; restart it", term, self.term)
        elif term >= self._heard_term and term > self.term:
            self._heard_term = term
            self._wake.set()

    def hear_lease(self, lease: SeenLease) -> None:
        """An agent remembers the Lease as another operator has seen it: newer than when this one took it over?"""
        is_newer = lease.holder != self.identity and lease.version > max(self._found_version, self._remembered_version)
        if self.term and is_newer and not self._is_accepted:
            if not self.etcd_restored:
                logger.error(
                    "the Lease had resourceVersion %d when this operator took it over, and an agent remembers %d: "
                    "etcd was restored from an older copy. Nothing is deleted until somebody runs `colocation adopt`",
                    self._found_version, lease.version,
                )  # fmt: skip
            self._remembered_version = lease.version
            self._wake.set()

    @property
    def etcd_restored(self) -> bool:
        """Whether the cluster's state went back, and no administrator has accepted what it is now."""
        return bool(self._mark) or self._has_to_mark

    @property
    def lease(self) -> SeenLease | None:
        """What agents are to remember; None as long as the mark depends on what they remember now."""
        if not self.term or self._has_to_mark:
            return None
        return SeenLease(holder=self.identity, version=self._newest_version)

    @property
    def _has_to_mark(self) -> bool:
        return self._remembered_version > 0 and not self._mark and not self._is_accepted

    async def run(self) -> None:
        """Take the Lease and keep it, until cancelled or lost."""
        while not self._why_lost:
            try:
                await self.step()
                is_up_to_date = self._heard_term <= self.term and not self._has_to_mark
                pause = LEASE_RENEW_SECONDS if self.is_leading and is_up_to_date else RETRY_SECONDS
            except ApiError as error:
                logger.warning("the Lease %s/%s: %s", self._namespace, LEASE_NAME, error)
                pause = RETRY_SECONDS
            self._wake.clear()
            await set_within(self._wake, pause)

    async def step(self) -> None:
        """Look at the Lease once, and create it, take it over, renew it, or wait.

        Raises:
            ApiError: the API server refused, or gave no answer; the Lease stands as it was known.
        """
        asked_at = self._monotonic()
        try:
            record = record_of(await self._api.get(LEASES, self._namespace, LEASE_NAME))
        except NotFound:
            await self._create(asked_at)
            return
        if self._went_back(record):
            return
        self._note_mark(record)
        if self.term and record.holder != self.identity:
            self._lose(f"the Lease is held by {record.holder or 'no operator'} now")
        elif record.holder == self.identity:  # ours, maybe by a request whose answer was lost
            await self._write(record, max(record.transitions, self._heard_term), asked_at)
        elif self._may_take(record):
            await self._write(record, max(record.transitions + 1, self._heard_term), asked_at)

    async def release(self) -> None:
        """Give the Lease up, so that a successor need not wait; an error is no harm."""
        if not self.is_leading:
            return
        self._valid_until = float("-inf")
        try:
            record = record_of(await self._api.get(LEASES, self._namespace, LEASE_NAME))
            if record.holder == self.identity:
                await self._api.patch(LEASES, self._namespace, LEASE_NAME, self._patch(record, {"holderIdentity": ""}))
        except ApiError as error:
            logger.info("the Lease was not given up: %s", error)

    def _went_back(self, record: LeaseRecord) -> bool:
        """Whether the cluster is older than what this operator knows of it; then it is lost."""
        if record.version < self._newest_version:
            self._lose(
                f"the Lease's resourceVersion went back from {self._newest_version} to {record.version}: etcd was "
                "restored from an older copy, and what this operator remembers never happened"
            )
            return True
        self._newest_version = record.version
        return False

    def _note_mark(self, record: LeaseRecord) -> None:
        """The mark as the Lease has it now. Anyone who takes it away accepts the state that this operator found."""
        if self._mark and not record.etcd_restored:
            logger.warning("the restored state of etcd is accepted: deletions go on")
            self._is_accepted = True
        self._mark = record.etcd_restored

    def _lose(self, why: str) -> None:
        logger.error("%s; this operator ends", why)
        self._why_lost, self.term = why, 0

    def _may_take(self, record: LeaseRecord) -> bool:
        if not record.holder or (self._pod and record.holder.rpartition("_")[0] == self._pod):
            return True
        now = self._monotonic()
        if self._seen is None or self._seen[0] != record:
            self._seen = record, now
            return False
        return now - self._seen[1] >= LEASE_DURATION_SECONDS

    async def _create(self, asked_at: float) -> None:
        """No operator holds it, or it was deleted under its holder, which goes on with its term."""
        transitions = max(self.term - 1, self._heard_term)
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE_NAME, "namespace": self._namespace},
            "spec": self._spec(transitions),
        }
        try:
            answer = await self._api.create(LEASES, self._namespace, body)
        except Conflict:
            return  # another one was quicker
        self._take(record_of(answer), asked_at)

    async def _write(self, record: LeaseRecord, transitions: int, asked_at: float) -> None:
        patch = self._patch(record, self._spec(transitions))
        if record.holder != self.identity:
            self.predecessor_version = record.resource_version
            self._found_version = record.version
        try:
            answer = await self._api.patch(LEASES, self._namespace, LEASE_NAME, patch)
        except Conflict:
            return  # another one was quicker; the next step finds out who
        self._take(record_of(answer), asked_at)

    def _take(self, record: LeaseRecord, asked_at: float) -> None:
        if self._went_back(record):
            return
        self._mark = record.etcd_restored
        self._found_version = self._found_version or record.version
        if record.term != self.term:
            logger.info("this operator leads, term %d", record.term)
        self.term = record.term
        self.renewed_at = self._now()
        self._valid_until = asked_at + LEASE_DURATION_SECONDS - SAFETY_SECONDS

    def _spec(self, transitions: int) -> JsonObject:
        now = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        acquired = {} if self.term and transitions == self.term - 1 else {"acquireTime": now}
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": LEASE_DURATION_SECONDS,
            "leaseTransitions": transitions,
            "renewTime": now,
            **acquired,
        }

    def _patch(self, record: LeaseRecord, spec: JsonObject) -> JsonObject:
        metadata: JsonObject = {"resourceVersion": record.resource_version}
        if self._has_to_mark:
            metadata["annotations"] = {ANNOTATION_ETCD_RESTORED: str(self._remembered_version)}
        return {"metadata": metadata, "spec": spec}


def record_of(body: JsonObject) -> LeaseRecord:
    """A Lease; what is missing or senseless in its spec counts as empty."""
    spec = body.get("spec") or {}
    transitions = spec.get("leaseTransitions")
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        transitions=transitions if isinstance(transitions, int) and transitions >= 0 else 0,
        renew_time=str(spec.get("renewTime") or ""),
        resource_version=str(body["metadata"]["resourceVersion"]),
        etcd_restored=str((body["metadata"].get("annotations") or {}).get(ANNOTATION_ETCD_RESTORED) or ""),
    )
