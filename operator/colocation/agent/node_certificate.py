"""This node's key and certificate as PEM: made, requested, checked, and kept on the node's disk.

One file holds key and chain, so that they always match. With it an agent can restart while the operator is away. Only
the user of agents and clone Jobs can read it.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from colocation.model.credentials import MAX_CHAIN_BYTES, ORGANIZATION, certificate_names
from colocation.storage.errors import NotHeld, StorageError
from colocation.storage.folders import open_regular_file, replace_file

_SUBJECT = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, ORGANIZATION)])
_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\s*", re.DOTALL)

CERTIFICATE_FILE = ".agent-certificate.pem"
PRIVATE_MODE = 0o600


class UnusableCertificate(Exception):
    """The certificate is not this node's, or cannot be parsed; the message tells which."""


@dataclass(frozen=True)
class OwnCertificate:
    """``pem``: the key, the certificate, and the rest of its chain."""

    pem: bytes
    begins_at: datetime
    ends_at: datetime
    issuers: tuple[x509.Certificate, ...]
    """The chain, the agent's own certificate first."""

    @property
    def life_seconds(self) -> float:
        """From its begin to its end."""
        return (self.ends_at - self.begins_at).total_seconds()

    def at(self, share: float) -> datetime:
        """When this share of its life is over."""
        return self.begins_at + share * (self.ends_at - self.begins_at)

    def is_trusted(self, authorities: bytes) -> bool:
        """Whether one of these CAs (PEM) has signed the last certificate of the chain, or is in it."""
        last = self.issuers[-1]
        return any(one == last or _has_issued(one, last) for one in _certificates(authorities))


@dataclass(frozen=True)
class CertificateRequest:
    """A key, and the request for its certificate (PEM). ``name`` follows from the key, so a repeated request is the
    same.
    """

    key: ec.EllipticCurvePrivateKey
    request: bytes
    name: str


def new_request(node: str) -> CertificateRequest:
    """A new key and its request."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName(name) for name in certificate_names(node)]
    builder = x509.CertificateSigningRequestBuilder().subject_name(_SUBJECT)
    request = builder.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(key, hashes.SHA256())
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    name = f"colocation-agent-{hashlib.sha256(public).hexdigest()[:32]}"
    return CertificateRequest(key, request.public_bytes(serialization.Encoding.PEM), name)


def joined(key: ec.EllipticCurvePrivateKey, chain: bytes) -> bytes:
    """Key and chain in one PEM file, as nginx reads it."""
    return _private_bytes(key) + chain


def checked(pem: bytes, node: str) -> OwnCertificate:
    """The file's content, if it is this node's. The caller judges whether it has expired: clocks may be wrong.

    Raises:
        UnusableCertificate: it is not this node's, or cannot be parsed.
    """
    if len(pem) > MAX_CHAIN_BYTES:
        raise UnusableCertificate(f"it has more than {MAX_CHAIN_BYTES} bytes")
    try:
        key = serialization.load_pem_private_key(pem, None)
        chain = _certificates(pem)
        names = _names_of(chain[0])
    except (ValueError, TypeError, IndexError, UnsupportedAlgorithm, x509.ExtensionNotFound) as error:
        raise UnusableCertificate(f"it holds no key with its certificate: {error}") from error
    if key.public_key() != chain[0].public_key():
        raise UnusableCertificate("the key is not that of the certificate")
    if sorted(names) != sorted(certificate_names(node)):
        raise UnusableCertificate(f"it is for {', '.join(names)}, and not for node {node}")
    return OwnCertificate(pem, chain[0].not_valid_before_utc, chain[0].not_valid_after_utc, chain)


def placeholder(node: str) -> bytes:
    """A certificate that no client trusts, to answer probes until there is a trusted one."""
    asked, now = new_request(node), datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(_SUBJECT).issuer_name(_SUBJECT).public_key(asked.key.public_key())
    made = (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(asked.key, hashes.SHA256())
    )
    return joined(asked.key, made.public_bytes(serialization.Encoding.PEM))


def _private_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _certificates(pem: bytes) -> tuple[x509.Certificate, ...]:
    """The certificates among the blocks of a PEM file."""
    return tuple(x509.load_pem_x509_certificate(block) for block in _BLOCK.findall(pem))


def _names_of(certificate: x509.Certificate) -> list[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(one.value) for one in names]


def _has_issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def read_certificate(folder: int) -> bytes:
    """The file in an open data root (PEM: key, certificate, chain); empty if it is missing or too large.

    Raises:
        OSError: it cannot be read.
    """
    try:
        descriptor = open_regular_file(folder, CERTIFICATE_FILE)
    except (NotHeld, StorageError):
        return b""
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(MAX_CHAIN_BYTES + 1)
    return content if len(content) <= MAX_CHAIN_BYTES else b""


def write_certificate(folder: int, pem: bytes) -> None:
    """Replace the file durably.

    Raises:
        OSError: it cannot be written, and the old one remains; or it cannot be synced, and none remains.
    """
    replace_file(folder, CERTIFICATE_FILE, pem, PRIVATE_MODE)
