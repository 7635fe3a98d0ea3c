"""The CA of the agents' certificates, as the chart renders it: its key is the operator's alone."""

import base64
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509

from colocation.agent.node_certificate import checked, joined, new_request
from colocation.controller.authority import Authority
from colocation.model.names import AGENT_SIGNER_NAME, LABEL_NODE_CERTIFICATES
from colocation.state.parse import parse_agent

from .conftest import Render, one, only_container, variables

SECRET = "colocation-agent-authority"
ELSEWHERE = {"agent.tls.signerName": "clusterissuers.cert-manager.io/ours", "agent.tls.ca": "PEM"}


def operator(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return one(objects, "Deployment", "colocation-operator")


def agent(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return one(objects, "DaemonSet", "colocation-agent")


def secrets_of(workload: dict[str, Any]) -> set[str]:
    """Secrets that its pods mount."""
    volumes = workload["spec"]["template"]["spec"]["volumes"]
    return {item["secret"]["secretName"] for item in volumes if "secret" in item}


def test_the_operator_signs_with_the_charts_authority(render: Render, tmp_path: Path) -> None:
    """The CA that clients get is the one that the operator's Secret holds; what it signs TLS libraries take."""
    objects = render()
    for key, value in one(objects, "Secret", SECRET)["data"].items():
        (tmp_path / key).write_bytes(base64.b64decode(value))
    asked = new_request("node-1")
    chain = Authority(tmp_path).issue(asked.request, "node-1", 86400, datetime.now(UTC))
    bundle = one(objects, "ConfigMap", "colocation-agent-ca")["data"]["ca.crt"].encode()
    assert checked(joined(asked.key, chain), "node-1").is_trusted(bundle)
    (tmp_path / "ca.crt").write_bytes(bundle)
    assert ssl.create_default_context(cafile=tmp_path / "ca.crt").get_ca_certs()
    authority = x509.load_pem_x509_certificate((tmp_path / "tls.crt").read_bytes())
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_the_authoritys_key_is_mounted_by_the_operator_alone(render: Render) -> None:
    """Agents have no Secret but that of the release before, and only while there is one."""
    objects = render()
    assert SECRET in secrets_of(operator(objects))
    assert secrets_of(agent(objects)) == {"colocation-agent-tls"}
    [shared] = [one for one in agent(objects)["spec"]["template"]["spec"]["volumes"] if one["name"] == "tls"]
    assert shared["secret"]["optional"] is True
    made = {item["metadata"]["name"] for item in objects if item["kind"] == "Secret"}
    assert "colocation-agent-tls" not in made


def test_operator_and_agents_mean_the_same_signer(render: Render) -> None:
    """And the same longest life."""
    objects = render(**{"agent.tls.certificateDays": 30})
    for name, value in (("COLOCATION_SIGNER_NAME", AGENT_SIGNER_NAME), ("COLOCATION_CERTIFICATE_DAYS", "30")):
        assert variables(operator(objects))[name] == variables(agent(objects))[name] == value
    mounts = {item["name"]: item["mountPath"] for item in only_container(operator(objects))["volumeMounts"]}
    assert variables(operator(objects))["COLOCATION_AUTHORITY_DIRECTORY"] == mounts["authority"]


def test_another_signer_needs_no_key_of_ours(render: Render) -> None:
    """The operator only approves; clients trust the given CA."""
    objects = render(**ELSEWHERE)
    assert SECRET not in secrets_of(operator(objects)) | {item["metadata"]["name"] for item in objects}
    assert variables(operator(objects))["COLOCATION_AUTHORITY_DIRECTORY"] == ""
    assert one(objects, "ConfigMap", "colocation-agent-ca")["data"]["ca.crt"] == "PEM\n"


def test_an_authority_of_ones_own(render: Render) -> None:
    """The chart makes none; where it cannot see the Secret, its certificate is given."""
    objects = render(**{"agent.tls.caSecret": "mine", "agent.tls.ca": "PEM"})
    assert "mine" in secrets_of(operator(objects))
    assert SECRET not in {item["metadata"]["name"] for item in objects}
    assert one(objects, "ConfigMap", "colocation-agent-ca")["data"]["ca.crt"] == "PEM\n"


def test_agents_are_known_to_have_certificates_of_their_own(render: Render) -> None:
    """By the label of their pods: the operator takes no shared certificate from them."""
    template = agent(render())["spec"]["template"]
    assert template["metadata"]["labels"][LABEL_NODE_CERTIFICATES] == "true"
    pod = {"metadata": template["metadata"], "spec": {**template["spec"], "nodeName": "node-1"}}
    found = parse_agent(pod)
    assert found is not None
    assert not found.shares_certificate
    del pod["metadata"]["labels"][LABEL_NODE_CERTIFICATES]
    found = parse_agent(pod)
    assert found is not None
    assert found.shares_certificate
