"""Certificates for the servers of tests."""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from colocation.model.names import agent_certificate_name

NODE_NAMES = tuple(agent_certificate_name(f"node-{number}") for number in range(1, 10))
"""For agents of several nodes that share a certificate, where it is not certificates that are tested."""


def self_signed(
    folder: Path, host: str, addresses: Sequence[str] = (), names: Sequence[str] = ()
) -> tuple[Path, Path]:
    """A self-signed certificate, as the chart makes one, and its key: ``tls.crt`` and ``tls.key`` in the folder.

    ``names``: DNS names next to ``host``.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    known = [
        *(x509.DNSName(one) for one in (host, *names)),
        *(x509.IPAddress(ipaddress.ip_address(one)) for one in addresses),
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(known), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate_path, key_path = folder / "tls.crt", folder / "tls.key"
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.touch(mode=0o600)
    key_path.write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))  # fmt: skip
    return certificate_path, key_path
