"""Keeps this node's certificate: loaded from the disk, requested from the signer if it is missing or expires soon.

Requests are CertificateSigningRequests, sent with the pod's own account.
"""

import asyncio
import base64
import binascii
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import aiohttp
from kubernetes.aio import client

from colocation.model.conditions import Reason, is_disk_usable
from colocation.model.credentials import MAX_CHAIN_BYTES, USAGES
from colocation.model.names import APP_NAME, LABEL_COMPONENT, LABEL_NAME
from colocation.model.wording import in_words
from colocation.storage.disk_health import DiskHealth, Fault
from colocation.storage.root import DataRoot

from .metrics import CERTIFICATE_REASONS, Metrics
from .node_certificate import (
    CERTIFICATE_FILE,
    CertificateRequest,
    OwnCertificate,
    UnusableCertificate,
    checked,
    joined,
    new_request,
    placeholder,
    read_certificate,
    write_certificate,
)

REQUEST_SECONDS = 10.0
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.25, 5.0
ANSWER_SECONDS = 300.0
"""A request without an answer for so long is reported; it remains, and is checked again."""
CONFLICT, NOT_FOUND = 409, 404

CHECK_SECONDS = 30.0
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 2.0, 300.0
RENEWAL_SHARES = (0.62, 0.7)
"""Shares of a certificate's life after which it is renewed; random, so that agents started together do not ask
together.
"""
MAX_REST_SECONDS = 3600.0
"""Pause after a renewal, whatever a wrong clock makes of the certificate's end."""
WARNING_SHARE = 5 / 6
"""A certificate past this share of its life is long overdue for renewal: 15 days before the end of 90."""

_log = logging.getLogger(__name__)


class NoCertificate(Exception):
    """No certificate was issued. ``is_final``: this request will never be answered; make one with another key."""

    def __init__(self, reason: Reason, message: str, is_final: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.is_final = is_final


class CertificateRequests(Protocol):
    """How an agent gets its certificate; tests have their own."""

    async def certificate(self, asked: CertificateRequest) -> bytes:
        """The chain (PEM) signed for the request; the call may be repeated.

        Raises:
            NoCertificate: none was issued.
        """


class KubernetesCertificateRequests:
    """The real ``CertificateRequests``.

    Args:
        api: with the pod's own account.
        signer: ``spec.signerName``.
        lifetime_seconds: the lifetime to request; the signer may grant less.
    """

    def __init__(self, api: client.ApiClient, signer: str, lifetime_seconds: int) -> None:
        self._api = client.CertificatesV1Api(api)
        self._signer = signer
        self._lifetime_seconds = lifetime_seconds

    async def certificate(self, asked: CertificateRequest) -> bytes:
        """See ``CertificateRequests``."""
        try:
            await self._create(asked)
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._answer(asked.name)
        except TimeoutError as error:
            message = f"signer {self._signer} has not answered request {asked.name} in {ANSWER_SECONDS:.0f} s"
            raise NoCertificate(Reason.CERTIFICATE_MISSING, f"{message}; is the operator running?") from error
        except (aiohttp.ClientError, OSError) as error:
            message = f"no answer from the API server: {in_words(error)}"
            raise NoCertificate(Reason.CERTIFICATE_MISSING, message) from error
        except client.ApiException as error:
            raise _no_certificate(asked.name, error) from error

    async def _create(self, asked: CertificateRequest) -> None:
        body = client.V1CertificateSigningRequest(
            metadata=client.V1ObjectMeta(name=asked.name, labels={LABEL_NAME: APP_NAME, LABEL_COMPONENT: "agent"}),
            spec=client.V1CertificateSigningRequestSpec(
                request=base64.b64encode(asked.request).decode(),
                signer_name=self._signer,
                usages=list(USAGES),
                expiration_seconds=self._lifetime_seconds,
            ),
        )
        try:
            await _in_time(self._api.create_certificate_signing_request(body))
        except client.ApiException as error:
            if error.status != CONFLICT:  # created earlier
                raise

    async def _answer(self, name: str) -> bytes:
        pause = FIRST_PAUSE_SECONDS
        while True:
            found = await _in_time(self._api.read_certificate_signing_request(name))
            for condition in found.status.conditions or () if found.status else ():
                if condition.type in ("Denied", "Failed"):
                    message = f"request {name}: {condition.type}: {condition.message}"
                    raise NoCertificate(Reason.CERTIFICATE_REFUSED, message, is_final=True)
            if found.status and found.status.certificate:
                return _decoded(name, found.status.certificate)
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)


async def _in_time(call: Awaitable[Any]) -> Any:
    async with asyncio.timeout(REQUEST_SECONDS):
        return await call


def _decoded(name: str, text: str) -> bytes:
    try:
        chain = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NoCertificate(Reason.CERTIFICATE_REFUSED, f"request {name}: no Base64: {error}", True) from error
    if len(chain) > MAX_CHAIN_BYTES:
        message = f"request {name}: the chain has {len(chain)} bytes; allowed: {MAX_CHAIN_BYTES}"
        raise NoCertificate(Reason.CERTIFICATE_REFUSED, message, True)
    return chain


def _no_certificate(name: str, error: client.ApiException) -> NoCertificate:
    if error.status == NOT_FOUND:
        return NoCertificate(Reason.CERTIFICATE_MISSING, f"request {name} is gone", is_final=True)
    message = f"the API server refuses request {name}: {error.status} {error.reason}; see the chart's rights"
    return NoCertificate(Reason.CERTIFICATE_REFUSED, message)


class CertificateKeeper:
    """This node's certificate, in a file for nginx, which reloads it when it changes.

    Args:
        node: the agent's.
        root: keeps the certificate between restarts.
        health: of the root's disk: nothing is written to a failing or wrong one.
        requests: how to get a certificate.
        authorities: PEM file of the CAs that clients trust.
        file: for nginx, in a folder of the agent's own.
        metrics: report its end and faults.
        now: the wall clock; it decides only when to renew.

    ``fault`` is the current fault; None = none.
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
        self._asked: CertificateRequest | None = None
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
        """Load the certificate from the disk; without one of this node, serve a placeholder that no client trusts."""
        try:
            stored = read_certificate(self._root.descriptor)
            if stored:
                self._held = checked(stored, self._node)
        except (OSError, UnusableCertificate) as error:
            file = self._root.path / CERTIFICATE_FILE
            _log.warning("%s is not used: %s; requesting a new certificate", file, error)
        self._serve(self._held.pem if self._held else placeholder(self._node))
        if self._held is None:
            self._set_fault(Reason.CERTIFICATE_MISSING, "the signer has not answered yet")
        self._report()

    async def run(self, renewed: Callable[[], None]) -> None:
        """Renew the certificate whenever it is due, until cancelled, and call ``renewed`` each time."""
        while True:
            pause = await self.look(renewed)
            await asyncio.sleep(pause)

    async def look(self, renewed: Callable[[], None]) -> float:
        """Renew the certificate if it is due; returns after how many seconds to check again."""
        pause = CHECK_SECONDS
        if self.is_due():
            if await self.renew():
                renewed()
            else:
                pause = self._retry_seconds
                self._retry_seconds = min(2 * pause, MAX_RETRY_SECONDS)
        await asyncio.to_thread(self._save)
        self._report()
        return pause

    def is_due(self) -> bool:
        """Whether to request one: there is none, it expires soon, or clients do not trust its CA."""
        held = self._held
        if held is None:
            return True
        if not self._is_trusted(held):
            return True
        return self._root.monotonic() >= self._not_before and self._now() >= held.at(self._renewal_share)

    async def renew(self) -> bool:
        """Request a certificate once; whether there is a new one. A failure sets ``fault`` and is logged."""
        self._asked = self._asked or new_request(self._node)
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
        _log.info("this node's certificate was signed; it expires at %s", held.ends_at)
        return True

    def _checked(self, pem: bytes) -> OwnCertificate:
        """The signed certificate, if it is usable.

        Raises:
            NoCertificate: it is not.
        """
        try:
            held = checked(pem, self._node)
        except UnusableCertificate as error:
            message = f"the signed certificate cannot be used: {error}"
            raise NoCertificate(Reason.CERTIFICATE_REFUSED, message, is_final=True) from error
        if not self._is_trusted(held):
            message = "the signed certificate is of no CA that clients trust; give the signer's CA as agent.tls.ca"
            raise NoCertificate(Reason.CERTIFICATE_REFUSED, message, is_final=True)
        return held

    def _is_trusted(self, held: OwnCertificate) -> bool:
        """Whether clients trust its CA; True if the CAs cannot be read."""
        try:
            return held.is_trusted(self._authorities.read_bytes())
        except (OSError, ValueError) as error:
            _log.warning("the CAs that clients trust cannot be read: %s", error)
            return True

    def _serve(self, pem: bytes) -> None:
        """Write the certificate for nginx."""
        new = self.file.with_suffix(".new")
        new.touch(0o600)
        new.write_bytes(pem)
        new.replace(self.file)

    def _save(self) -> None:
        """Write the certificate to the disk, once that is healthy."""
        fault = self._health.fault
        if self._is_saved or self._held is None or (fault and not is_disk_usable(fault.reason)):
            return
        try:
            write_certificate(self._root.descriptor, self._held.pem)
            self._is_saved = True
        except OSError as error:
            _log.warning("the certificate cannot be kept on the disk, and is lost at the next restart: %s", error)

    def _report(self) -> None:
        """Update metrics, and warn of a certificate that expires soon."""
        held, reasons = self._held, {self.fault.reason} if self.fault else set()
        if held is not None:
            self._metrics.certificate_end.set(held.ends_at.timestamp())
            is_expiring = self._now() >= held.at(WARNING_SHARE)
            if is_expiring:
                reasons.add(Reason.CERTIFICATE_EXPIRING)
            if is_expiring and not self._was_expiring:
                _log.warning("%s: the certificate expires at %s", Reason.CERTIFICATE_EXPIRING, held.ends_at)
            self._was_expiring = is_expiring
        for reason in CERTIFICATE_REASONS:
            self._metrics.certificate_fault.labels(reason).set(reason in reasons)

    def _set_fault(self, reason: Reason, message: str) -> None:
        if self.fault is None or (self.fault.reason, self.fault.message) != (reason, message):
            _log.warning("%s: %s", reason, message)
        self.fault = Fault(reason, message, self._root.monotonic())
