"""Who the certificates speak for, and which hosts they prove."""

import ipaddress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from devcluster import network, pki
from devcluster.pki import Pair, Subject


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All certificates of a control plane and of one node."""
    folder = tmp_path_factory.mktemp("pki")
    pki.create_all(folder)
    pki.issue_node(folder, "node-1", "172.30.0.11")
    return folder


def read(folder: Path, name: str) -> x509.Certificate:
    """A certificate by its file's name."""
    return x509.load_pem_x509_certificate(Pair(folder, name).certificate.read_bytes())


def hosts(certificate: x509.Certificate) -> set[str]:
    """The names and addresses that a certificate proves."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    return addresses | set(names.get_values_for_type(x509.DNSName))


def subject(certificate: x509.Certificate) -> tuple[list[str], list[str]]:
    """(users, groups) as Kubernetes reads them."""
    name = certificate.subject
    users = [str(attribute.value) for attribute in name.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return users, [str(attribute.value) for attribute in name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def test_the_api_server_proves_every_way_to_reach_it(folder: Path) -> None:
    """From the host, from a node, and from a pod by the service's name and address."""
    assert hosts(read(folder, "apiserver")) >= {
        "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost",
        "127.0.0.1", network.HOST_ADDRESS, network.SERVICE_ADDRESS,
    }  # fmt: skip


def test_the_service_address_is_the_first_of_its_range() -> None:
    """Kubernetes gives its own service that one."""
    assert ipaddress.IPv4Address(network.SERVICE_ADDRESS) == ipaddress.IPv4Network(network.SERVICE_RANGE)[1]


def test_a_node_is_client_and_server(folder: Path) -> None:
    """The node authorizer wants this very user and group; logs and exec want its address."""
    certificate = read(folder, "node-1")
    assert subject(certificate) == (["system:node:node-1"], ["system:nodes"])
    assert hosts(certificate) == {"node-1", "172.30.0.11", "127.0.0.1"}
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH} == set(usages)


@pytest.mark.parametrize(
    ("name", "authority"),
    [
        pytest.param("admin", "ca", id="users"),
        pytest.param("apiserver-etcd", "etcd-ca", id="etcd's clients"),
        pytest.param("front-proxy", "front-proxy-ca", id="the aggregation layer"),
    ],
)
def test_each_door_has_its_own_authority(folder: Path, name: str, authority: str) -> None:
    """A certificate of one authority is worth nothing at the others' doors."""
    certificate = read(folder, name)
    certificate.verify_directly_issued_by(read(folder, authority))
    for other in {"ca", "etcd-ca", "front-proxy-ca"} - {authority}:
        with pytest.raises((ValueError, TypeError)):
            certificate.verify_directly_issued_by(read(folder, other))


def test_keys_are_for_the_owner_only(folder: Path) -> None:
    """They are as good as the cluster's admin."""
    assert {path.stat().st_mode & 0o777 for path in folder.glob("*.key")} == {0o600}


def test_a_client_without_hosts_is_no_server(folder: Path) -> None:
    """The admin's certificate cannot pose as the API server."""
    pki.issue(Pair(folder, "ca"), Pair(folder, "someone"), Subject("someone"))
    usages = read(folder, "someone").extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
