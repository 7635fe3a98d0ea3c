"""Which agent gets which certificate: the node of the pod that asks, and nothing else, whatever a request claims."""

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st

from colocation.agent.node_certificate import new_request
from colocation.model.credentials import ORGANIZATION, USAGES, certificate_names
from colocation.model.names import AGENT_SIGNER_NAME
from colocation.reconcile.certificates import CertificatePolicy, judge
from colocation.state.certificate_requests import (
    NODE_NAME,
    POD_NAME,
    POD_UID,
    CertificateRequest,
    parse_certificate_request,
)
from colocation.state.objects import ObservedAgent

ACCOUNT = "system:serviceaccount:colocation-system:colocation-agent"
POLICY = CertificatePolicy(AGENT_SIGNER_NAME, ACCOUNT, 7_776_000)
AGENTS = tuple(
    ObservedAgent("colocation-system", f"agent-{node}", f"uid-{node}", "1", node, "10.0.0.1", False)
    for node in ("node-1", "node-2")
)
KEY = ec.generate_private_key(ec.SECP256R1())
SUBJECT = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, ORGANIZATION)])
GOOD = CertificateRequest(
    name="colocation-agent-1",
    uid="1",
    resource_version="1",
    signer=AGENT_SIGNER_NAME,
    user=ACCOUNT,
    extra={POD_NAME: ("agent-node-1",), POD_UID: ("uid-node-1",), NODE_NAME: ("node-1",)},
    pem=new_request("node-1").request,
    usages=USAGES,
    lifetime_seconds=7_776_000,
    is_approved=False,
    is_closed=False,
)


def pem(
    *names: x509.GeneralName,
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey = KEY,
    subject: x509.Name = SUBJECT,
    more: Sequence[x509.ExtensionType] = (),
    attribute: bytes = b"",
    digest: hashes.SHA224 | hashes.SHA256 | None = None,
) -> bytes:
    """A request for these names; none = the right ones of node-1."""
    wanted = names or tuple(x509.DNSName(one) for one in certificate_names("node-1"))
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    builder = builder.add_extension(x509.SubjectAlternativeName(wanted), critical=False)
    for extension in more:
        builder = builder.add_extension(extension, critical=True)
    if attribute:
        builder = builder.add_attribute(x509.oid.AttributeOID.CHALLENGE_PASSWORD, attribute)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else digest or hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(serialization.Encoding.PEM)


def dns(*names: str) -> tuple[x509.GeneralName, ...]:
    return tuple(x509.DNSName(one) for one in names)


def forged() -> bytes:
    """A request whose content is another one than the key has signed."""
    request = x509.load_pem_x509_csr(pem())
    content = bytearray(request.public_bytes(serialization.Encoding.DER))
    content[-1] ^= 1
    return x509.load_der_x509_csr(bytes(content)).public_bytes(serialization.Encoding.PEM)


OWN, SHARED = certificate_names("node-1")

REFUSED_PEMS: dict[str, Callable[[], bytes]] = {
    "another node's name": lambda: new_request("node-2").request,
    "one name more": lambda: pem(*dns(OWN, SHARED, "node-2.colocation-agent")),
    "one name twice": lambda: pem(*dns(OWN, OWN, SHARED)),
    "one name less": lambda: pem(*dns(SHARED)),
    "a wildcard": lambda: pem(*dns("*.colocation-agent", SHARED)),
    "the bare node's name": lambda: pem(*dns("node-1", SHARED)),
    "upper case": lambda: pem(*dns(OWN.upper(), SHARED)),
    "a NUL": lambda: pem(*dns(f"{OWN}\0.evil", SHARED)),
    "an address": lambda: pem(*dns(OWN, SHARED), x509.IPAddress(ipaddress.ip_address("10.0.0.2"))),
    "the right name as an e-mail address": lambda: pem(x509.RFC822Name(OWN), *dns(SHARED)),
    "the right name as a URI": lambda: pem(x509.UniformResourceIdentifier(OWN), *dns(SHARED)),
    "a CA": lambda: pem(more=[x509.BasicConstraints(ca=True, path_length=None)]),
    "an end entity said so": lambda: pem(more=[x509.BasicConstraints(ca=False, path_length=None)]),
    "client authentication": lambda: pem(more=[x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH])]),
    "a common name": lambda: pem(subject=x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "system:masters")])),
    "no subject": lambda: pem(subject=x509.Name([])),
    "a password": lambda: pem(attribute=b"secret"),
    "a weak key": lambda: pem(key=ec.generate_private_key(ec.SECP224R1())),
    "another kind of key": lambda: pem(key=rsa.generate_private_key(65537, 2048)),
    "a key without a hash": lambda: pem(key=ed25519.Ed25519PrivateKey.generate()),
    "a weak digest": lambda: pem(digest=hashes.SHA224()),
    "a forged signature": forged,
    "two requests": lambda: pem() + new_request("node-2").request,
    "a key next to it": lambda: pem() + b"-----BEGIN EC PRIVATE KEY-----\n",
    "too long": lambda: pem() + b"\n" * (1 << 14),
    "nothing": lambda: b"",
    "no request": lambda: b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
}


def test_an_agent_gets_the_certificate_of_its_node() -> None:
    """What agents ask for is what the operator lets pass."""
    verdict = judge(GOOD, AGENTS, POLICY)
    assert (verdict.decision, verdict.node) == ("approve", "node-1")


def test_a_server_without_the_nodes_name_in_its_tokens_goes_by_the_pod() -> None:
    """The feature ServiceAccountTokenPodNodeInfo can be off."""
    extra = {key: value for key, value in GOOD.extra.items() if key != NODE_NAME}
    assert judge(replace(GOOD, extra=extra), AGENTS, POLICY).decision == "approve"


@pytest.mark.parametrize("made", REFUSED_PEMS.values(), ids=REFUSED_PEMS.keys())
def test_a_request_for_anything_else_is_denied(made: Callable[[], bytes]) -> None:
    """With what was given, and what is allowed."""
    verdict = judge(replace(GOOD, pem=made()), AGENTS, POLICY)
    assert verdict.decision == "deny", verdict
    assert verdict.message


@pytest.mark.parametrize(
    ("changed", "decision"),
    [
        pytest.param({"signer": "kubernetes.io/kubelet-serving"}, "deny", id="another signer"),
        pytest.param({"user": "system:serviceaccount:shop:colocation-agent"}, "deny", id="another namespace's account"),
        pytest.param({"user": "system:node:node-1"}, "deny", id="a kubelet"),
        pytest.param({"extra": {}}, "deny", id="a token without a pod"),
        pytest.param({"extra": {POD_NAME: ("agent-node-1",)}}, "deny", id="a pod without a uid"),
        pytest.param(
            {"extra": {**GOOD.extra, POD_UID: ("uid-node-1", "uid-node-2")}}, "deny", id="two uids"
        ),
        pytest.param({"extra": {**GOOD.extra, POD_UID: ("uid-gone",)}}, "wait", id="the pod is gone"),
        pytest.param({"extra": {**GOOD.extra, POD_NAME: ("clone-1",)}}, "wait", id="a pod that is no agent's"),
        pytest.param({"extra": {**GOOD.extra, NODE_NAME: ("node-2",)}}, "deny", id="a token of another node"),
        pytest.param({"extra": {**GOOD.extra, NODE_NAME: ()}}, "deny", id="a token of no node"),
        pytest.param(
            {"extra": {POD_NAME: ("agent-node-2",), POD_UID: ("uid-node-2",)}}, "deny", id="a pod of another node"
        ),
        pytest.param({"usages": (*USAGES, "client auth")}, "deny", id="a usage more"),
        pytest.param({"usages": USAGES[:1]}, "deny", id="a usage less"),
        pytest.param({"usages": (USAGES[0], *USAGES)}, "deny", id="a usage twice"),
        pytest.param({"lifetime_seconds": 7_776_001}, "deny", id="too long a life"),
        pytest.param({"lifetime_seconds": None}, "deny", id="any life"),
    ],
)
def test_a_request_of_anybody_else_is_not_approved(changed: dict[str, object], decision: str) -> None:
    """The requester is whom the API server has authenticated; its pod is as the API server tells it."""
    assert judge(replace(GOOD, **changed), AGENTS, POLICY).decision == decision  # type: ignore[arg-type]


names = st.one_of(
    st.sampled_from([*certificate_names("node-1"), *certificate_names("node-2"), "*.colocation-agent", "node-1"]),
    st.from_regex(r"[a-z0-9*.-]{1,40}", fullmatch=True),
)
nodes = st.sampled_from(("node-1", "node-2", "node-3"))


@given(st.lists(names, max_size=4), nodes, nodes, st.booleans())
def test_whatever_is_approved_names_the_node_of_the_pod(
    wanted: list[str], pod_node: str, token_node: str, has_node: bool
) -> None:
    """The safety of it all: approval implies exactly the names of the pod's own node."""
    extra = {POD_NAME: (f"agent-{pod_node}",), POD_UID: (f"uid-{pod_node}",)}
    request = replace(
        GOOD,
        pem=pem(*dns(*wanted)),
        extra={**extra, NODE_NAME: (token_node,)} if has_node else extra,
    )
    verdict = judge(request, AGENTS, POLICY)
    if verdict.decision != "approve":
        return
    asked = wanted or list(certificate_names("node-1"))
    assert sorted(asked) == sorted(certificate_names(pod_node))
    assert verdict.node == pod_node
    assert not has_node or token_node == pod_node


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["type", "signerName", "username", "extra", "request", "usages", "conditions", "name"]),
        inner,
        max_size=3,
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), json_values))
def test_no_object_breaks_parser_or_judge(body: dict[str, object]) -> None:
    """Anyone who may create requests writes what they like."""
    assert judge(parse_certificate_request(body), AGENTS, POLICY).decision != "approve"


@given(st.binary(max_size=600))
def test_no_bytes_break_the_judge(content: bytes) -> None:
    """Neither do they get anything."""
    block = b"-----BEGIN CERTIFICATE REQUEST-----\n" + content
    for given_pem in (content, block):
        assert judge(replace(GOOD, pem=given_pem), AGENTS, POLICY).decision == "deny"
