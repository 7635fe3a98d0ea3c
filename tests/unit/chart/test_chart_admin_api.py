"""The admin API as the chart renders it: HTTPS on the operator's Service."""

import base64
from typing import Any

import pytest
from cryptography import x509

from colocation.controller.settings import Settings

from .conftest import Render, one, only_container, variables

NAMES = ["colocation-operator" + suffix for suffix in ("", ".colocation-system", ".colocation-system.svc")]


def operator(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return one(objects, "Deployment", "colocation-operator")


def test_service_leads_to_the_port_that_the_operator_serves(render: Render) -> None:
    """Port 443 of the Service is the operator's admin port."""
    objects = render()
    [port] = one(objects, "Service", "colocation-operator")["spec"]["ports"]
    ports = {item["name"]: item["containerPort"] for item in only_container(operator(objects))["ports"]}
    assert (port["port"], ports[port["targetPort"]]) == (443, Settings.model_fields["admin_port"].default)


def test_certificate_names_the_service_and_is_signed_by_the_published_ca(render: Render) -> None:
    """curl --cacert with the ConfigMap's CA trusts https://colocation-operator.<namespace>.svc."""
    objects = render()
    secret = one(objects, "Secret", "colocation-operator-tls")["data"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(secret["tls.crt"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(NAMES) <= set(names.get_values_for_type(x509.DNSName))
    published = one(objects, "ConfigMap", "colocation-operator-ca")["data"]["ca.crt"]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(published.encode()))


def test_operator_reads_the_certificate_where_it_is_mounted(render: Render) -> None:
    """Key and certificate alone: the CA's Secret entry stays out of the pod."""
    workload = operator(render(**{"adminApi.tls.existingSecret": "mine"}))
    mounts = {item["name"]: item["mountPath"] for item in only_container(workload)["volumeMounts"]}
    assert variables(workload)["COLOCATION_ADMIN_TLS_DIRECTORY"] == mounts["admin-tls"]
    [volume] = [item for item in workload["spec"]["template"]["spec"]["volumes"] if item["name"] == "admin-tls"]
    assert volume["secret"]["secretName"] == "mine"
    assert [item["key"] for item in volume["secret"]["items"]] == ["tls.crt", "tls.key"]


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_secret_of_ones_own_replaces_the_charts(render: Render, kind: str) -> None:
    """Nothing is made then."""
    objects = render(**{"adminApi.tls.existingSecret": "mine"})
    made = {item["metadata"]["name"] for item in objects if item["kind"] == kind}
    assert not made & {"colocation-operator-tls", "colocation-operator-ca", "mine"}


def test_admin_api_can_be_left_out(render: Render) -> None:
    """No port, no Service, no certificate, and the operator is configured for it."""
    objects = render(**{"adminApi.enabled": "false"})
    assert variables(operator(objects))["COLOCATION_ADMIN_API"] == "false"
    assert [port["name"] for port in only_container(operator(objects))["ports"]] == ["health"]
    assert not [item for item in objects if item["metadata"]["name"].startswith("colocation-operator-")]
