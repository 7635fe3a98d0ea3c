"""The CA of the agents' certificates: its key is in the operator alone."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.credentials import ORGANIZATION, certificate_names

if TYPE_CHECKING:
    from cryptography import x509  # imported where it is needed: it is large
    from cryptography.hazmat.primitives.asymmetric.types import (
        CertificateIssuerPrivateKeyTypes,
        CertificatePublicKeyTypes,
    )

MAX_CLOCK_LEEWAY = timedelta(hours=1)
"""Certificates are valid from so long ago on, or a tenth of their life: clients' clocks may be behind."""


class AuthorityUnusable(Exception):
    """The CA cannot sign; the message gives the reason and what to do."""


class Authority:
    """Signs with ``tls.key`` and ``tls.crt`` of a folder, read again for every certificate: the kubelet renews them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ends_at(self) -> datetime:
        """When the CA ends, and with it every certificate that it signs.

        Raises:
            AuthorityUnusable: it cannot be read.
        """
        return self._certificate().not_valid_after_utc

    def issue(self, request_pem: bytes, node: str, lifetime_seconds: int, now: datetime) -> bytes:
        """The agent's certificate, PEM: its names, server authentication, and nothing that was asked for but the key.

        It never outlives the CA.

        Raises:
            AuthorityUnusable: the CA cannot be read, or has ended.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization

        authority, key = self._certificate(), self._key()
        ends_at = min(now + timedelta(seconds=lifetime_seconds), authority.not_valid_after_utc)
        if ends_at <= now:
            raise AuthorityUnusable(f"the CA has ended at {ends_at}; renew it, see docs/how-to/operate.md#certificates")
        leeway = min(MAX_CLOCK_LEEWAY, (ends_at - now) / 10)
        public = x509.load_pem_x509_csr(request_pem).public_key()
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, ORGANIZATION)]))
            .issuer_name(authority.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - leeway)
            .not_valid_after(ends_at)
        )
        for extension, critical in _extensions(authority, public, node):
            builder = builder.add_extension(extension, critical)
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _certificate(self) -> "x509.Certificate":
        from cryptography import x509

        try:
            return x509.load_pem_x509_certificate((self._folder / "tls.crt").read_bytes())
        except (OSError, ValueError) as error:
            raise AuthorityUnusable(f"the CA cannot be read: {error}; mount its Secret as the chart does") from error

    def _key(self) -> "CertificateIssuerPrivateKeyTypes":
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        try:
            key = serialization.load_pem_private_key((self._folder / "tls.key").read_bytes(), None)
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise AuthorityUnusable(f"the CA's key cannot be read: {error}; mount its Secret") from error
        if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
            raise AuthorityUnusable("the CA's key is of a kind that is not allowed; allowed: RSA, ECDSA")
        if key.public_key() != self._certificate().public_key():
            raise AuthorityUnusable("the CA's key is not that of its certificate; the Secret must hold both of one CA")
        return key


def _extensions(
    authority: "x509.Certificate", public: "CertificatePublicKeyTypes", node: str
) -> Iterator["tuple[x509.ExtensionType, bool]"]:
    """Each extension, and whether it is critical."""
    from cryptography import x509

    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "key_cert_sign", "crl_sign",
         "encipher_only", "decipher_only"), False,
    )  # fmt: skip
    yield x509.SubjectAlternativeName([x509.DNSName(name) for name in certificate_names(node)]), False
    yield x509.BasicConstraints(ca=False, path_length=None), True
    yield x509.KeyUsage(digital_signature=True, **usage), True
    yield x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH]), False
    yield x509.SubjectKeyIdentifier.from_public_key(public), False
    try:
        identifier = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        yield x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), False
    except x509.ExtensionNotFound:
        return
