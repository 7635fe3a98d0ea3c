"""``python -m colocation.controller.create_ca``: create the CA of the agents' certificates, unless it is there.

The chart's Job runs it where charts are rendered without a cluster (``agent.tls.caFrom: job``): a key in a rendered
manifest would be everybody's. The operator's and agents' pods wait for what it creates.
"""

import os
import secrets
import sys
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from ..model.credentials import ORGANIZATION

CONFIG_MAP = "colocation-agent-ca"
CERTIFICATE, KEY = "tls.crt", "tls.key"
_APPLY = "application/apply-patch+yaml"
_LABELS = {"app.kubernetes.io/name": "colocation-operator", "app.kubernetes.io/managed-by": "colocation-ca"}


def main() -> int:
    """Exit code 0: Secret and ConfigMap are there; 1: the API server refused, or an existing Secret has no CA."""
    namespace, secret = os.environ["COLOCATION_NAMESPACE"], os.environ["COLOCATION_CA_SECRET"]
    lifetime = timedelta(days=int(os.environ["COLOCATION_CA_DAYS"]))
    config.load_config()
    core = client.CoreV1Api()
    try:
        certificate = _existing(core, namespace, secret) or _create(core, namespace, secret, lifetime)
        _publish(core, namespace, certificate + os.environ.get("COLOCATION_TRUSTED_CA", ""))
    except (ApiException, ValueError) as error:
        print(f"the CA of the agents' certificates could not be created: {error}", file=sys.stderr)
        return 1
    return 0


def new_authority(lifetime: timedelta, now: datetime) -> tuple[str, str]:
    """A self-signed CA: its certificate and its key, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(x509.NameOID.COMMON_NAME, f"colocation-agent-authority-{secrets.token_hex(4)}"),
        ]
    )
    usage = dict.fromkeys(
        ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
         "encipher_only", "decipher_only"), False,
    )  # fmt: skip
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), pem.decode()


def _existing(core: client.CoreV1Api, namespace: str, name: str) -> str | None:
    """The certificate of the Secret, PEM; None: there is no Secret.

    Raises:
        ValueError: the Secret holds no CA.
    """
    try:
        data = core.read_namespaced_secret(name, namespace).data or {}
    except ApiException as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    if not data.get(CERTIFICATE) or not data.get(KEY):
        raise ValueError(f"Secret {name} has no {CERTIFICATE} and {KEY}: delete it, and a new CA is created")
    return b64decode(data[CERTIFICATE]).decode()


def _create(core: client.CoreV1Api, namespace: str, name: str, lifetime: timedelta) -> str:
    """The certificate of the CA that is stored: ours, or that of a Job which was quicker."""
    certificate, key = new_authority(lifetime, datetime.now(UTC))
    content: Any = {
        "metadata": {"name": name, "labels": _LABELS},
        "type": "kubernetes.io/tls",
        "data": {CERTIFICATE: b64encode(certificate.encode()).decode(), KEY: b64encode(key.encode()).decode()},
    }
    try:
        core.create_namespaced_secret(namespace, content)
    except ApiException as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        return _existing(core, namespace, name) or _create(core, namespace, name, lifetime)
    return certificate


def _publish(core: client.CoreV1Api, namespace: str, pem: str) -> None:
    """Store the CAs that clients trust."""
    content: Any = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "labels": _LABELS},
        "data": {"ca.crt": pem},
    }
    core.patch_namespaced_config_map(
        CONFIG_MAP, namespace, content, field_manager="colocation-ca", force=True, _content_type=_APPLY
    )


if __name__ == "__main__":
    sys.exit(main())
