"""Answers to CertificateSigningRequests, as the API server takes them."""

import base64

from ..model.conditions import Reason
from ..state.certificate_requests import CertificateRequest, parse_certificate_request
from .api import Api, JsonObject, Resource

CERTIFICATE_REQUESTS = Resource("certificates.k8s.io", "v1", "certificatesigningrequests")
APPROVED = "AgentOfNode"
"""Reason of the condition ``Approved``."""
MAX_MESSAGE_LENGTH = 1024


class CertificateRequests:
    """Approves, denies and signs. Every write carries the resource version that it was decided from.

    All methods raise ``ApiError`` or one of its subclasses.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    async def approve(self, request: CertificateRequest, message: str) -> CertificateRequest:
        """The request as it is then."""
        return parse_certificate_request(await self._judge(request, "Approved", APPROVED, message))

    async def deny(self, request: CertificateRequest, message: str) -> None:
        """A denial is final: the agent has to make another request."""
        await self._judge(request, "Denied", Reason.CERTIFICATE_REFUSED, message)

    async def sign(self, request: CertificateRequest, certificate: bytes) -> None:
        """``certificate``: PEM, the agent's first."""
        status = {"certificate": base64.b64encode(certificate).decode()}
        await self._patch(request, {"status": status}, "status")

    async def _judge(self, request: CertificateRequest, kind: str, reason: str, message: str) -> JsonObject:
        condition = {"type": kind, "status": "True", "reason": reason, "message": message[:MAX_MESSAGE_LENGTH]}
        return await self._patch(request, {"status": {"conditions": [condition]}}, "approval")

    async def _patch(self, request: CertificateRequest, body: JsonObject, subresource: str) -> JsonObject:
        found = {"metadata": {"resourceVersion": request.resource_version, "uid": request.uid}, **body}
        return await self._api.patch(CERTIFICATE_REQUESTS, "", request.name, found, subresource)
