"""Asks the API server's mailbox (CertificateSigningRequest) for a certificate, with the pod's own account."""

import asyncio
import base64
import binascii
from collections.abc import Awaitable
from typing import Any, Protocol

import aiohttp
from kubernetes.aio import client

from colocation.model.certificates import MAX_CHAIN_BYTES, USAGES
from colocation.model.conditions import Reason
from colocation.model.names import APP_NAME, LABEL_COMPONENT, LABEL_NAME

from .certificate import Asked

REQUEST_SECONDS = 10.0
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.25, 5.0
ANSWER_SECONDS = 300.0
"""A request without an answer for so long is told of; it stays, and is looked at again."""
CONFLICT, NOT_FOUND = 409, 404


class NoCertificate(Exception):
    """None was given. ``is_final``: this request will not be answered any more; ask anew, with another key."""

    def __init__(self, reason: Reason, message: str, is_final: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.is_final = is_final


class CertificateRequests(Protocol):
    """How an agent gets its certificate; tests have their own."""

    async def certificate(self, asked: Asked) -> bytes:
        """The chain (PEM) that was signed for the request; it may be asked for again.

        Raises:
            NoCertificate: there is none.
        """


class KubernetesCertificateRequests:
    """The real ``CertificateRequests``.

    Args:
        api: of the pod's own account.
        signer: ``spec.signerName``.
        lifetime_seconds: as asked for; the signer may give less.
    """

    def __init__(self, api: client.ApiClient, signer: str, lifetime_seconds: int) -> None:
        self._api = client.CertificatesV1Api(api)
        self._signer = signer
        self._lifetime_seconds = lifetime_seconds

    async def certificate(self, asked: Asked) -> bytes:
        """See ``CertificateRequests``."""
        try:
            await self._create(asked)
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._answer(asked.name)
        except TimeoutError as error:
            message = f"signer {self._signer} has not answered request {asked.name} in {ANSWER_SECONDS:.0f} s"
            raise NoCertificate(Reason.CERTIFICATE_MISSING, f"{message}; is the operator running?") from error
        except (aiohttp.ClientError, OSError) as error:
            message = f"no answer from the API server: {error!r}"
            raise NoCertificate(Reason.CERTIFICATE_MISSING, message) from error
        except client.ApiException as error:
            raise _no_certificate(asked.name, error) from error

    async def _create(self, asked: Asked) -> None:
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
            if error.status != CONFLICT:  # it was made before
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
        return NoCertificate(Reason.CERTIFICATE_MISSING, f"request {name} has gone", is_final=True)
    message = f"the API server refuses request {name}: {error.status} {error.reason}; see the chart's rights"
    return NoCertificate(Reason.CERTIFICATE_REFUSED, message)
