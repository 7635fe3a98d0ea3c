"""A CA for tests of agents' certificates, and a signer that answers at once."""

import datetime
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from colocation.agent.certificate_keeper import NoCertificate
from colocation.agent.node_certificate import CertificateRequest
from colocation.controller.authority import Authority


def make_authority(folder: Path, name: str = "test CA", days: float = 30) -> Path:
    """``tls.crt`` and ``tls.key`` of a new CA in the folder; the certificate's path."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=100))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))  # fmt: skip
    return folder / "tls.crt"


@dataclass
class Signer:
    """``CertificateRequests`` of an operator in the same process. ``node``: whose names it puts into certificates.

    ``refusal``: what it reports instead. ``asked``: the names of the requests so far.
    """

    folder: Path
    node: str = "node-1"
    lifetime_seconds: int = 3600
    refusal: NoCertificate | None = None

    def __post_init__(self) -> None:
        self.asked: list[str] = []

    async def certificate(self, asked: CertificateRequest) -> bytes:
        """See ``CertificateRequests``."""
        self.asked.append(asked.name)
        if self.refusal is not None:
            raise self.refusal
        now = datetime.datetime.now(datetime.UTC)
        return Authority(self.folder).issue(asked.request, self.node, self.lifetime_seconds, now)
