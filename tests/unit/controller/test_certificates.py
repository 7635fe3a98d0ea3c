"""The operator answers agents' requests: approves, denies, signs; only while it leads, and not beyond the CA's end."""

import base64
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from colocation.agent.node_certificate import new_request
from colocation.common import logs
from colocation.controller import certificates as module
from colocation.controller.authority import Authority, AuthorityUnusable
from colocation.controller.certificates import CertificateSigner
from colocation.controller.metrics import Metrics
from colocation.kube.api import Api, ApiError, Conflict, NotFound, Resource
from colocation.kube.certificate_requests import CERTIFICATE_REQUESTS, CertificateRequests
from colocation.model.credentials import USAGES, certificate_names
from colocation.model.names import AGENT_SIGNER_NAME
from colocation.reconcile.actions import PostEvent
from colocation.reconcile.certificates import CertificatePolicy
from colocation.state.certificate_requests import POD_NAME, POD_UID
from colocation.state.objects import ObservedAgent

from ...support.certificate_authority import make_authority

ACCOUNT = "system:serviceaccount:colocation-system:colocation-agent"
POLICY = CertificatePolicy(AGENT_SIGNER_NAME, ACCOUNT, 7 * 86400)
JsonObject = dict[str, object]


@dataclass
class Server:
    """The API server's side: requests by name; every patch counts. ``refuses``: what the next patch meets."""

    requests: dict[str, JsonObject] = field(default_factory=dict)
    patches: list[tuple[str, str]] = field(default_factory=list)
    refuses: ApiError | None = None

    def add(self, node: str, pod: str | None = None, user: str = ACCOUNT) -> str:
        """A request of a node's agent."""
        asked = new_request(node)
        pod = pod or f"agent-{node}"
        self.requests[asked.name] = {
            "metadata": {"name": asked.name, "uid": asked.name, "resourceVersion": "1"},
            "spec": {
                "signerName": AGENT_SIGNER_NAME, "username": user, "usages": list(USAGES), "expirationSeconds": 86400,
                "extra": {POD_NAME: [pod], POD_UID: [f"uid-{pod}"]},
                "request": base64.b64encode(asked.request).decode(),
            },
            "status": {},
        }  # fmt: skip
        return asked.name

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: JsonObject, subresource: str = ""
    ) -> JsonObject:
        """See ``Api``."""
        if self.refuses is not None:
            refusal, self.refuses = self.refuses, None
            raise refusal
        found = self.requests[name]
        if body["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:  # type: ignore[index]
            raise Conflict(409, "it has changed")
        self.patches.append((name, subresource))
        found["status"] |= body["status"]  # type: ignore[operator]
        found["metadata"]["resourceVersion"] += "1"  # type: ignore[index]
        return found

    def conditions(self, name: str) -> list[str]:
        return [one["type"] for one in self.requests[name]["status"].get("conditions", [])]  # type: ignore[attr-defined]

    def certificate(self, name: str) -> x509.Certificate:
        text = self.requests[name]["status"]["certificate"]  # type: ignore[index]
        return x509.load_pem_x509_certificate(base64.b64decode(text))


@dataclass
class Scene:
    """A signer with its server, its clock, and the agents' pods that it knows."""

    server: Server
    folder: Path
    signer: CertificateSigner
    metrics: Metrics
    agents: list[ObservedAgent]
    now: datetime
    leads: bool = True
    events: list[tuple[str, str, str]] = field(default_factory=list)

    async def post(self, event: PostEvent) -> None:
        self.events.append((event.kind, event.subject.name, event.reason))

    async def answer(self) -> None:
        """Show all requests, as a watch does, and answer."""
        for body in self.server.requests.values():
            self.signer.take(CERTIFICATE_REQUESTS, body)
        await self.signer.answer_all()

    def answers(self, word: str) -> float:
        return self.metrics.registry.get_sample_value("colocation_certificate_answers_total", {"answer": word}) or 0.0


def agent_of(node: str) -> ObservedAgent:
    return ObservedAgent("colocation-system", f"agent-{node}", f"uid-agent-{node}", "1", node, "10.0.0.1", False)


def scene_in(folder: Path, with_authority: bool = True) -> Scene:
    server, metrics = Server(), Metrics()
    api: Api = server  # type: ignore[assignment]
    made = Scene(server, folder, None, metrics, [agent_of("node-1"), agent_of("node-2")], datetime.now(UTC))  # type: ignore[arg-type]
    made.signer = CertificateSigner(
        CertificateRequests(api), POLICY, Authority(folder) if with_authority else None, lambda: made.agents,
        lambda: made.leads, lambda: made.now, metrics, made.post,
    )  # fmt: skip
    return made


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    make_authority(tmp_path / "ca")
    return scene_in(tmp_path / "ca")


async def test_an_agents_request_is_approved_and_signed(scene: Scene) -> None:
    """For server authentication under its node's names, as long as it asked for, by our CA."""
    name = scene.server.add("node-1")
    await scene.answer()
    certificate = scene.server.certificate(name)
    assert scene.server.conditions(name) == ["Approved"]
    assert certificate.not_valid_after_utc - scene.now <= timedelta(days=1)
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate((scene.folder / "tls.crt").read_bytes()))
    extensions = certificate.extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert sorted(names.get_values_for_type(x509.DNSName)) == sorted(certificate_names("node-1"))
    assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    usage = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.ExtendedKeyUsageOID.SERVER_AUTH]
    assert scene.answers("CertificateSigned") == 1


async def test_what_is_answered_is_not_touched_again(scene: Scene) -> None:
    """Whatever a watch repeats."""
    scene.server.add("node-1")
    for _ in range(3):
        await scene.answer()
    assert len(scene.server.patches) == 2


async def test_another_signer_signs_what_is_approved(tmp_path: Path) -> None:
    """Without a CA of ours the request is approved only."""
    scene = scene_in(tmp_path, with_authority=False)
    name = scene.server.add("node-1")
    await scene.answer()
    await scene.answer()
    assert scene.server.patches == [(name, "approval")]
    assert scene.server.conditions(name) == ["Approved"]


async def test_a_request_for_another_node_is_denied_and_reported(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """With a word, who asked, and why; others' requests are answered all the same."""
    caplog.set_level("INFO", "colocation.audit")
    bad, good = scene.server.add("node-2", pod="agent-node-1"), scene.server.add("node-2")
    await scene.answer()
    assert (scene.server.conditions(bad), scene.server.conditions(good)) == (["Denied"], ["Approved"])
    assert "certificate" not in scene.server.requests[bad]["status"]  # type: ignore[operator]
    [line] = [one for one in caplog.records if one.getMessage() == "CertificateRefused"]
    fields = getattr(line, logs._FIELDS)
    assert (fields["request"], fields["node"]) == (bad, "node-1")
    assert scene.answers("CertificateRefused") == 1
    assert scene.events == [("Pod", "agent-node-1", "CertificateRefused")]


async def test_a_pod_that_is_not_known_yet_is_waited_for(scene: Scene) -> None:
    """The watch of pods may be behind; after a minute it is not."""
    agent = scene.agents.pop()
    late, gone = scene.server.add("node-2"), scene.server.add("node-1", pod="agent-gone")
    await scene.answer()
    assert scene.server.patches == []
    scene.agents.append(agent)
    scene.now += timedelta(seconds=module.UNKNOWN_POD_SECONDS)
    await scene.answer()
    assert (scene.server.conditions(late), scene.server.conditions(gone)) == (["Approved"], ["Denied"])


async def test_only_the_leader_answers(scene: Scene) -> None:
    """What it heard meanwhile it answers when it leads."""
    scene.leads = False
    name = scene.server.add("node-1")
    await scene.answer()
    assert scene.server.patches == []
    scene.leads = True
    await scene.signer.answer_all()
    assert scene.server.conditions(name) == ["Approved"]


async def test_what_others_approved_is_signed_only_if_we_would_approve_it(scene: Scene) -> None:
    """An approval by hand is no way around the checks."""
    bad, good = scene.server.add("node-2", pod="agent-node-1"), scene.server.add("node-1")
    for name in (bad, good):
        scene.server.requests[name]["status"] = {"conditions": [{"type": "Approved", "status": "True"}]}
    await scene.answer()
    assert "certificate" not in scene.server.requests[bad]["status"]  # type: ignore[operator]
    assert scene.server.patches == [(good, "status")]


@pytest.mark.parametrize("refusal", [ApiError(0, "no answer"), Conflict(409, "changed"), ApiError(500, "oops")])
async def test_a_failed_write_is_tried_again(scene: Scene, refusal: ApiError) -> None:
    """The next look finds the request open."""
    name = scene.server.add("node-1")
    scene.server.refuses = refusal
    await scene.answer()
    await scene.answer()
    assert scene.server.certificate(name)


async def test_nothing_outlives_the_authority(tmp_path: Path) -> None:
    """And the metric reports when it ends."""
    path = make_authority(tmp_path, days=0.5)
    ends_at = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    scene = scene_in(tmp_path)
    name = scene.server.add("node-1")
    await scene.answer()
    assert scene.server.certificate(name).not_valid_after_utc == ends_at
    found = scene.metrics.registry.get_sample_value("colocation_agent_authority_end_timestamp_seconds")
    assert found == ends_at.timestamp()
    scene.now = ends_at
    another = scene.server.add("node-2")
    await scene.answer()
    assert scene.server.conditions(another) == ["Approved"]
    assert "certificate" not in scene.server.requests[another]["status"]  # type: ignore[operator]


async def test_a_renewed_authority_signs_the_next_one(scene: Scene) -> None:
    """The kubelet renews the files; a key of another CA is no key."""
    renewed = make_authority(scene.folder, "renewed")
    name = scene.server.add("node-1")
    await scene.answer()
    scene.server.certificate(name).verify_directly_issued_by(x509.load_pem_x509_certificate(renewed.read_bytes()))
    make_authority(scene.folder / "other")
    (scene.folder / "tls.key").write_bytes((scene.folder / "other" / "tls.key").read_bytes())
    with pytest.raises(AuthorityUnusable, match="not that of its certificate"):
        Authority(scene.folder).issue(new_request("node-1").request, "node-1", 600, scene.now)


def test_a_certificate_is_never_an_authority(tmp_path: Path) -> None:
    """Whatever key asks: the extensions are ours."""
    make_authority(tmp_path)
    pem = Authority(tmp_path).issue(new_request("node-1").request, "node-1", 600, datetime.now(UTC))
    found = x509.load_pem_x509_certificate(pem)
    usage = found.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_cert_sign, usage.crl_sign) == (True, False, False)
    assert found.public_bytes(serialization.Encoding.PEM) == pem


async def test_request_that_was_deleted_unseen_is_forgotten(tmp_path: Path) -> None:
    """No watch tells of it any more: it would be answered every two seconds for ever."""
    scene = scene_in(tmp_path)
    scene.server.add("node-1")
    scene.server.refuses = NotFound(404, "gone")
    await scene.answer()
    assert await scene.signer.answer_all()
    assert not scene.server.patches
