"""The cluster's certificates: three authorities, so that a node's or user's certificate opens neither etcd nor the
aggregation layer's front door."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from devcluster import network

LIFETIME = datetime.timedelta(days=365)
CLOCK_SKEW = datetime.timedelta(hours=1)
CLUSTER_ADMINS = "system:masters"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    folder: Path
    name: str

    @property
    def certificate(self) -> Path:
        """The certificate's file."""
        return self.folder / f"{self.name}.crt"

    @property
    def key(self) -> Path:
        """The private key's file."""
        return self.folder / f"{self.name}.key"


@dataclass(frozen=True)
class Subject:
    """Who a certificate speaks for: Kubernetes reads the user from the common name and the groups from `group`."""

    user: str
    group: str = ""
    hosts: tuple[str, ...] = ()


def control_plane_subjects() -> dict[str, tuple[str, Subject]]:
    """File name -> (authority, subject) of every certificate outside the nodes."""
    api_hosts = (
        "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
        "localhost", "127.0.0.1", network.HOST_ADDRESS, network.SERVICE_ADDRESS,
    )  # fmt: skip
    return {
        "etcd": ("etcd-ca", Subject("etcd", hosts=("localhost", "127.0.0.1"))),
        "apiserver-etcd": ("etcd-ca", Subject("kube-apiserver")),
        "front-proxy": ("front-proxy-ca", Subject("front-proxy-client")),
        "apiserver": ("ca", Subject("kube-apiserver", hosts=api_hosts)),
        "apiserver-kubelet": ("ca", Subject("kube-apiserver-kubelet", CLUSTER_ADMINS)),
        "admin": ("ca", Subject("admin", CLUSTER_ADMINS)),
        "controller-manager": ("ca", Subject("system:kube-controller-manager")),
        "scheduler": ("ca", Subject("system:kube-scheduler")),
        "kube-proxy": ("ca", Subject("system:kube-proxy")),
        "coredns": ("ca", Subject("system:coredns")),
    }


def create_all(folder: Path) -> None:
    """Make the authorities, the control plane's certificates and the key that signs service accounts' tokens."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in ("ca", "etcd-ca", "front-proxy-ca"):
        create_authority(Pair(folder, name))
    for name, (authority, subject) in control_plane_subjects().items():
        issue(Pair(folder, authority), Pair(folder, name), subject)
    signer = ec.generate_private_key(ec.SECP256R1())
    _write_key(folder / "service-account.key", signer)
    (folder / "service-account.pub").write_bytes(
        signer.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def issue_node(folder: Path, node: str, address: str) -> Pair:
    """One certificate serves a kubelet both ways: as a client of the API and as the server of logs and exec."""
    pair = Pair(folder, node)
    subject = Subject(f"system:node:{node}", "system:nodes", (node, address, "127.0.0.1"))
    issue(Pair(folder, "ca"), pair, subject)
    return pair


def create_authority(pair: Pair) -> None:
    """Make a self-signed authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(Subject(f"colocation-devcluster {pair.name}"))
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(pair, certificate, key)


def issue(authority: Pair, pair: Pair, subject: Subject) -> None:
    """Make a certificate for a client, and for a server where hosts are given."""
    issuer = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    issuer_key = serialization.load_pem_private_key(authority.key.read_bytes(), password=None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{authority.key} holds no elliptic curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(issuer.subject, _name(subject), key.public_key())
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
    )
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if subject.hosts:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
        names = x509.SubjectAlternativeName([_general_name(host) for host in subject.hosts])
        builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    _write(pair, builder.sign(issuer_key, hashes.SHA256()), key)


def _builder(issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _name(subject: Subject) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, subject.group)] if subject.group else []
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, subject.user)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(pair: Pair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_key(pair.key, key)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
