"""Keeps this node's certificate: from the disk at the start, from the signer when there is none, or it ends soon."""

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from colocation.model.conditions import Reason
from colocation.storage.agent_certificate import CERTIFICATE_FILE, read_certificate, write_certificate
from colocation.storage.disk_health import DiskHealth, Fault
from colocation.storage.root import DataRoot

from .certificate import Asked, OwnCertificate, UnusableCertificate, ask_for, checked, joined, placeholder
from .certificate_requests import CertificateRequests, NoCertificate
from .metrics import CERTIFICATE_REASONS, Metrics

CHECK_SECONDS = 30.0
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 2.0, 300.0
RENEWAL_SHARES = (0.62, 0.7)
"""Shares of a certificate's life after which it is renewed: agents that were started at once do not ask at once."""
MAX_REST_SECONDS = 3600.0
"""After a renewal nothing is asked for so long, whatever a wrong clock says of the certificate's end."""
WARNING_SHARE = 5 / 6
"""After this share of its life a certificate should have been renewed long ago: 15 days before the end of 90."""

_log = logging.getLogger(__name__)


class CertificateKeeper:
    """This node's certificate in a file for nginx, which is told when it changes.

    Args:
        node: the agent's.
        root: holds the certificate between restarts.
        health: of the root's disk: nothing is written to a sick or a wrong one.
        requests: how to get another one.
        authorities: PEM file of the CAs that clients trust.
        file: for nginx, in a folder of the agent's own.
        metrics: tell of it.
        now: the wall clock; only when to ask depends on it.

    ``fault`` is what is wrong; None = nothing.
    """

    def __init__(
        self,
        node: str,
        root: DataRoot,
        health: DiskHealth,
        requests: CertificateRequests,
        authorities: Path,
        file: Path,
        metrics: Metrics,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._node = node
        self._root = root
        self._health = health
        self._requests = requests
        self._authorities = authorities
        self._metrics = metrics
        self._now = now
        self._held: OwnCertificate | None = None
        self._asked: Asked | None = None
        self._is_saved = True
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._renewal_share = random.uniform(*RENEWAL_SHARES)
        self._not_before = 0.0
        self._was_expiring = False
        self.file = file
        self.fault: Fault | None = None

    @property
    def is_held(self) -> bool:
        """Whether there is a certificate with this node's name."""
        return self._held is not None

    def begin(self) -> None:
        """Take the certificate from the disk; where there is none that is this node's, one that nobody trusts."""
        try:
            stored = read_certificate(self._root.descriptor)
            if stored:
                self._held = checked(stored, self._node)
        except (OSError, UnusableCertificate) as error:
            file = self._root.path / CERTIFICATE_FILE
            _log.warning("%s is not used: %s; a new certificate is asked for", file, error)
        self._serve(self._held.pem if self._held else placeholder(self._node))
        if self._held is None:
            self._set_fault(Reason.CERTIFICATE_MISSING, "the signer has not answered yet")
        self._tell()

    async def run(self, renewed: Callable[[], None]) -> None:
        """Renew the certificate whenever it is due, for as long as the task runs, and call ``renewed`` each time."""
        while True:
            pause = await self.look(renewed)
            await asyncio.sleep(pause)

    async def look(self, renewed: Callable[[], None]) -> float:
        """Renew the certificate if it is due; in how many seconds to look again."""
        pause = CHECK_SECONDS
        if self.is_due():
            if await self.renew():
                renewed()
            else:
                pause = self._retry_seconds
                self._retry_seconds = min(2 * pause, MAX_RETRY_SECONDS)
        await asyncio.to_thread(self._save)
        self._tell()
        return pause

    def is_due(self) -> bool:
        """Whether to ask: there is none, its end comes near, or clients do not trust its CA (any more)."""
        held = self._held
        if held is None:
            return True
        if not self._is_trusted(held):
            return True
        return self._root.monotonic() >= self._not_before and self._now() >= held.at(self._renewal_share)

    async def renew(self) -> bool:
        """Ask once; whether there is another certificate. What went wrong is ``fault``, and in the log."""
        self._asked = self._asked or ask_for(self._node)
        try:
            chain = await self._requests.certificate(self._asked)
            held = self._checked(joined(self._asked.key, chain))
        except NoCertificate as error:
            if error.is_final:
                self._asked = None
            self._set_fault(error.reason, str(error))
            return False
        self._held, self._asked, self._is_saved = held, None, False
        self._not_before = self._root.monotonic() + min(MAX_REST_SECONDS, held.life_seconds / 10)
        self._renewal_share = random.uniform(*RENEWAL_SHARES)
        self._retry_seconds = FIRST_RETRY_SECONDS
        self.fault = None
        self._serve(held.pem)
        _log.info("this node's certificate was signed; it ends at %s", held.ends_at)
        return True

    def _checked(self, pem: bytes) -> OwnCertificate:
        """What was signed, if it is of any use.

        Raises:
            NoCertificate: it is not.
        """
        try:
            held = checked(pem, self._node)
        except UnusableCertificate as error:
            message = f"what was signed cannot be used: {error}"
            raise NoCertificate(Reason.CERTIFICATE_REFUSED, message, is_final=True) from error
        if not self._is_trusted(held):
            message = "what was signed is of none of the CAs that clients trust; give the signer's CA as agent.tls.ca"
            raise NoCertificate(Reason.CERTIFICATE_REFUSED, message, is_final=True)
        return held

    def _is_trusted(self, held: OwnCertificate) -> bool:
        """Where the CAs cannot be read, nothing is known against it."""
        try:
            return held.is_trusted(self._authorities.read_bytes())
        except (OSError, ValueError) as error:
            _log.warning("the CAs that clients trust cannot be read: %s", error)
            return True

    def _serve(self, pem: bytes) -> None:
        """Give it to nginx."""
        new = self.file.with_suffix(".new")
        new.touch(0o600)
        new.write_bytes(pem)
        new.replace(self.file)

    def _save(self) -> None:
        """Keep it on the disk, once that is well."""
        fault = self._health.fault
        if self._is_saved or self._held is None or (fault is not None and fault.reason != Reason.DISK_FULL):
            return
        try:
            write_certificate(self._root.descriptor, self._held.pem)
            self._is_saved = True
        except OSError as error:
            _log.warning("the certificate cannot be kept on the disk, and is lost at the next restart: %s", error)

    def _tell(self) -> None:
        """In metrics and log."""
        held, reasons = self._held, {self.fault.reason} if self.fault else set()
        if held is not None:
            self._metrics.certificate_end.set(held.ends_at.timestamp())
            is_expiring = self._now() >= held.at(WARNING_SHARE)
            if is_expiring:
                reasons.add(Reason.CERTIFICATE_EXPIRING)
            if is_expiring and not self._was_expiring:
                _log.warning("%s: the certificate ends at %s", Reason.CERTIFICATE_EXPIRING, held.ends_at)
            self._was_expiring = is_expiring
        for reason in CERTIFICATE_REASONS:
            self._metrics.certificate_fault.labels(reason).set(reason in reasons)

    def _set_fault(self, reason: Reason, message: str) -> None:
        if self.fault is None or (self.fault.reason, self.fault.message) != (reason, message):
            _log.warning("%s: %s", reason, message)
        self.fault = Fault(reason, message, self._root.monotonic())
