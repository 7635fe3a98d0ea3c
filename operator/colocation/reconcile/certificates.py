"""Decides whether an agent gets the certificate that it asks for.

Invariant: whatever is approved names the node of the pod that asked, as the API server tells both, and nothing else. A
request that any check finds fault with is denied; one whose pod is not known (yet) waits.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..model.credentials import MAX_REQUEST_BYTES, ORGANIZATION, USAGES, certificate_names
from ..state.certificate_requests import NODE_NAME, POD_NAME, POD_UID, CertificateRequest
from ..state.objects import ObservedAgent

if TYPE_CHECKING:
    from cryptography import x509  # imported where it is needed: it is large, and most commands need none of it

CURVES = ("secp256r1", "secp384r1")
HASHES = ("sha256", "sha384", "sha512")
EXTENSION_REQUEST = "1.2.840.113549.1.9.14"
"""PKCS #9: the attribute of a request that holds the wanted extensions."""


@dataclass(frozen=True)
class CertificatePolicy:
    """What is asked of every request.

    ``signer``: the signer's name. ``account``: the agents' user name. ``lifetime_seconds``: the longest.
    """

    signer: str
    account: str
    lifetime_seconds: int


class Verdict(NamedTuple):
    """``message`` gives the reason; ``node`` is whose certificate it is, where that is known."""

    decision: Literal["approve", "deny", "wait"]
    message: str
    node: str = ""


def judge(request: CertificateRequest, agents: Iterable[ObservedAgent], policy: CertificatePolicy) -> Verdict:
    """Whether the request is approved.

    Args:
        request: of our signer.
        agents: the agents' pods, as the API server tells them.
        policy: of this installation.
    """
    problem = _problem_of_requester(request, policy)
    if problem:
        return Verdict("deny", problem)
    [pod_name], [pod_uid] = request.extra[POD_NAME], request.extra[POD_UID]
    agent = next((one for one in agents if (one.name, one.uid) == (pod_name, pod_uid)), None)
    if agent is None:
        return Verdict("wait", f"no agent's pod {pod_name} with uid {pod_uid} is known")
    named = request.extra.get(NODE_NAME, (agent.node,))
    if named != (agent.node,):
        message = f"the token was made for node {', '.join(named)}, and pod {pod_name} is on {agent.node}"
        return Verdict("deny", message, agent.node)
    problem = _problem_of_terms(request, policy) or problem_of_pem(request.pem, agent.node)
    if problem:
        return Verdict("deny", problem, agent.node)
    return Verdict("approve", f"pod {pod_name} runs the agent of node {agent.node}", agent.node)


def _problem_of_requester(request: CertificateRequest, policy: CertificatePolicy) -> str:
    if request.signer != policy.signer:
        return f"signer {request.signer!r} is not allowed; allowed: {policy.signer}"
    if request.user != policy.account:
        return f"{request.user!r} is not allowed; allowed: {policy.account}"
    if any(len(request.extra.get(key, ())) != 1 for key in (POD_NAME, POD_UID)):
        return "the requester's token is bound to no pod; use the one that the kubelet puts into the agent's pod"
    return ""


def _problem_of_terms(request: CertificateRequest, policy: CertificatePolicy) -> str:
    if sorted(request.usages) != sorted(USAGES):
        return f"usages {', '.join(request.usages)} are not allowed; allowed: exactly {', '.join(USAGES)}"
    lifetime = request.lifetime_seconds
    if lifetime is None or lifetime > policy.lifetime_seconds:
        return f"expirationSeconds {lifetime} is not allowed; allowed: at most {policy.lifetime_seconds}"
    return ""


def problem_of_pem(pem: bytes, node: str) -> str:
    """What is wrong with the request (PKCS #10) of this node's agent; empty = nothing."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    if len(pem) > MAX_REQUEST_BYTES or pem.count(b"-----BEGIN ") != 1:
        return f"request is not allowed; allowed: one PEM block of at most {MAX_REQUEST_BYTES} bytes"
    try:
        request = x509.load_pem_x509_csr(pem)
        return _problem_of_key(request) or _problem_of_content(request, node)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.DuplicateExtension) as error:
        return f"request cannot be understood: {error}"


def _problem_of_key(request: "x509.CertificateSigningRequest") -> str:
    from cryptography.hazmat.primitives.asymmetric import ec

    key, hash_algorithm = request.public_key(), request.signature_hash_algorithm
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in CURVES:
        return f"the key is not allowed; allowed: ECDSA on {' or '.join(CURVES)}"
    if hash_algorithm is None or hash_algorithm.name not in HASHES:
        return f"the signature is not allowed; allowed: with {', '.join(HASHES)}"
    return "" if request.is_signature_valid else "the signature is not that of the key"


def _problem_of_content(request: "x509.CertificateSigningRequest", node: str) -> str:
    from cryptography import x509

    subject = [(one.oid, one.value) for one in request.subject]
    if subject != [(x509.NameOID.ORGANIZATION_NAME, ORGANIZATION)]:
        return f"subject {request.subject.rfc4514_string()!r} is not allowed; allowed: O={ORGANIZATION}"
    if [one.oid.dotted_string for one in request.attributes] != [EXTENSION_REQUEST]:
        return "attributes are not allowed, but for the wanted extensions"
    if [type(one.value) for one in request.extensions] != [x509.SubjectAlternativeName]:
        return "extensions are not allowed, but for the subject alternative name"
    [extension] = request.extensions
    names, allowed = list(extension.value), certificate_names(node)
    if any(type(one) is not x509.DNSName for one in names) or sorted(one.value for one in names) != sorted(allowed):
        said = ", ".join(str(one.value) for one in names)
        return f"names {said!r} are not allowed; allowed: exactly {', '.join(allowed)}"
    return ""
