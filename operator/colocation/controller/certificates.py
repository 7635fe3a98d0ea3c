"""Answers the agents' requests for certificates, while this operator leads.

The API server is the mailbox: agents put CertificateSigningRequests there, and find the answers, whether or not an
operator is there at the moment. What is decided, and from what, is in ``reconcile.certificates``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from ..common.logs import audit
from ..common.waiting import set_within
from ..kube.api import ApiError, Conflict, JsonObject, NotFound, Resource
from ..kube.certificate_requests import CertificateRequests
from ..kube.events import POD_KIND
from ..model.conditions import EventReason, Reason
from ..reconcile.actions import PostEvent
from ..reconcile.certificates import CertificatePolicy, Verdict, judge
from ..state.certificate_requests import CertificateRequest, parse_certificate_request
from ..state.objects import Identity, ObservedAgent
from .authority import Authority, AuthorityUnusable
from .metrics import Metrics

logger = logging.getLogger(__name__)
audit_logger = logging.getLogger("colocation.audit")

WAITING_SECONDS = 2.0
"""Between looks at requests whose pod was not seen yet."""
FAILURE_SECONDS = 15.0
"""After an answer that could not be given: the API server, or the CA, is not better a moment later."""
AUTHORITY_SECONDS = 600.0
"""Between looks at when the CA ends."""
UNKNOWN_POD_SECONDS = 60.0
"""A request whose pod is not known by then is denied: the watch of pods is never so late."""
MAX_OPEN = 10_000
"""Most requests that are remembered, as an account with the right could make any number. Agents ask again."""
AUTHORITY_WARNING = timedelta(days=180)


class CertificateSigner:
    """Approves or denies agents' requests, and signs them where the chart's CA is the signer.

    Args:
        requests: writes the answers.
        policy: what is asked of every request.
        authority: the CA; None = another controller signs what is approved.
        agents: the agents' pods as they are known now.
        leads: whether this operator may act.
        now: the clock.
        metrics: counts the answers.
        post: tells of a refusal at the agent's pod.
    """

    def __init__(
        self,
        requests: CertificateRequests,
        policy: CertificatePolicy,
        authority: Authority | None,
        agents: Callable[[], Sequence[ObservedAgent]],
        leads: Callable[[], bool],
        now: Callable[[], datetime],
        metrics: Metrics,
        post: Callable[[PostEvent], Awaitable[None]],
    ) -> None:
        self._requests = requests
        self._policy = policy
        self._authority = authority
        self._agents = agents
        self._leads = leads
        self._now = now
        self._metrics = metrics
        self._post = post
        self._open: dict[str, tuple[CertificateRequest, datetime]] = {}
        self._wake = asyncio.Event()
        self._looked_at: datetime | None = None

    def take(self, _resource: Resource, body: JsonObject, deleted: bool = False) -> None:
        """A request as a watch shows it."""
        request = parse_certificate_request(body)
        known = self._open.pop(request.name, None)
        if deleted or request.is_closed or request.signer != self._policy.signer or len(self._open) >= MAX_OPEN:
            return
        self._open[request.name] = request, known[1] if known and known[0].uid == request.uid else self._now()
        self._wake.set()

    async def run(self) -> None:
        """Answer what there is to answer, for ever."""
        while True:
            await set_within(self._wake, WAITING_SECONDS)
            self._wake.clear()
            if not await self.answer_all():
                await asyncio.sleep(FAILURE_SECONDS)

    async def answer_all(self) -> bool:
        """Answer each request that is open; whether that was possible. What goes wrong with one harms that one."""
        if not self._leads():
            return True
        self._look_at_authority()
        has_failed = False
        for name, (request, seen_at) in list(self._open.items()):
            try:
                if await self._answer(request, seen_at):
                    self._forget(name, request)
            except NotFound:
                self._forget(name, request)
            except Conflict:
                continue  # it has changed, which the watch tells
            except AuthorityUnusable as error:
                logger.warning("%s: no request is signed: %s", Reason.CERTIFICATE_MISSING, error)
                return False
            except ApiError as error:
                has_failed = True
                logger.warning("request %s is tried again: %s", name, error)
            except Exception:  # one request's fault must not keep others from their certificates
                logger.exception("request %s cannot be answered", name)
                self._open.pop(name, None)
        return not has_failed

    def _forget(self, name: str, request: CertificateRequest) -> None:
        """Unless the watch has reported a newer one meanwhile."""
        if name in self._open and self._open[name][0] == request:
            del self._open[name]

    async def _answer(self, request: CertificateRequest, seen_at: datetime) -> bool:
        """Whether nothing is left to do."""
        verdict = judge(request, self._agents(), self._policy)
        if verdict.decision == "wait":
            if (self._now() - seen_at).total_seconds() < UNKNOWN_POD_SECONDS:
                return False
            verdict = Verdict("deny", verdict.message)
        if verdict.decision == "deny":
            await self._deny(request, verdict)
            return True
        if not request.is_approved:
            request = await self._requests.approve(request, verdict.message)
            self._tell("CertificateApproved", request, verdict)
        if self._authority is not None:
            lifetime = request.lifetime_seconds or self._policy.lifetime_seconds
            certificate = self._authority.issue(request.pem, verdict.node, lifetime, self._now())
            await self._requests.sign(request, certificate)
            self._tell("CertificateSigned", request, verdict)
        return True

    async def _deny(self, request: CertificateRequest, verdict: Verdict) -> None:
        """A request that somebody else has approved can no longer be denied; we do not sign it, and report it."""
        if not request.is_approved:
            await self._requests.deny(request, verdict.message)
        self._tell(Reason.CERTIFICATE_REFUSED, request, verdict)
        pods = [one for one in self._agents() if one.node == verdict.node]
        for pod in pods:
            subject = Identity(pod.namespace, pod.name, pod.uid, pod.resource_version, 0, self._now())
            message = f"request {request.name}: {verdict.message}"
            await self._post(PostEvent(POD_KIND, subject, "Warning", EventReason.CERTIFICATE_REFUSED, message))

    def _tell(self, event: str, request: CertificateRequest, verdict: Verdict) -> None:
        self._metrics.certificate_answers.labels(event).inc()
        audit(
            audit_logger, event, request=request.name, user=request.user, node=verdict.node or None,
            reason=verdict.message, decided_from=request.resource_version,
        )  # fmt: skip

    def _look_at_authority(self) -> None:
        now = self._now()
        is_due = self._looked_at is None or (now - self._looked_at).total_seconds() >= AUTHORITY_SECONDS
        if self._authority is None or not is_due:
            return
        self._looked_at = now
        try:
            ends_at = self._authority.ends_at()
        except AuthorityUnusable as error:
            logger.warning("%s: %s", Reason.CERTIFICATE_MISSING, error)
            return
        self._metrics.authority_end.set(ends_at.timestamp())
        if ends_at - now < AUTHORITY_WARNING:
            logger.warning(
                "%s: the CA of the agents' certificates ends at %s; renew it, see docs/how-to/operate.md#certificates",
                Reason.CERTIFICATE_EXPIRING, ends_at,
            )  # fmt: skip
