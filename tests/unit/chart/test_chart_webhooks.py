"""The admission webhooks as the chart renders them: absent unless asked for, pointing at what the operator serves."""

import base64
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from colocation.admission.server import SPARK_APPLICATIONS_PATH, VALIDATE_PATH
from colocation.controller.settings import Settings
from colocation.model.names import API_GROUP, API_VERSION, GROUP_PLURAL, LABEL_GROUP, TABLE_PLURAL
from colocation.submit.manifest import KINDS

from .cluster_with import rendered_with, secret
from .conftest import ChartRefused, Render, one, only_container, variables

ON = {"webhooks.enabled": "true"}
BY_CERT_MANAGER = {**ON, "webhooks.certificate.certManager.enabled": "true"}
CONFIGURATIONS = [
    ("MutatingWebhookConfiguration", "colocation-spark-applications", "sparkApplications", SPARK_APPLICATIONS_PATH),
    ("ValidatingWebhookConfiguration", "colocation-validation", "validation", VALIDATE_PATH),
]


def operator(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return one(objects, "Deployment", "colocation-operator")


def only_webhook(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    [webhook] = one(objects, kind, name)["webhooks"]
    found: dict[str, Any] = webhook
    return found


def served(webhook: dict[str, Any]) -> set[tuple[str, str, str]]:
    """(group, version, resource) of every rule."""
    return {
        (group, version, resource)
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for resource in rule["resources"]
    }


def test_webhooks_are_opt_in(render: Render) -> None:
    """Nothing of them is installed by default, and the operator serves none."""
    objects = render()
    assert not [item for item in objects if "Webhook" in item["kind"] or "webhooks" in item["metadata"]["name"]]
    assert variables(operator(objects))["COLOCATION_WEBHOOK_TLS_DIRECTORY"] == ""
    assert "webhooks" not in [port["name"] for port in only_container(operator(objects))["ports"]]


def test_the_service_leads_to_the_port_that_the_operator_serves(render: Render) -> None:
    """Port 443 of the Service is the operator's webhook port, and its certificate is where the operator looks."""
    objects = render(**ON)
    [port] = one(objects, "Service", "colocation-webhooks")["spec"]["ports"]
    container = only_container(operator(objects))
    ports = {item["name"]: item["containerPort"] for item in container["ports"]}
    assert (port["port"], ports[port["targetPort"]]) == (443, Settings.model_fields["webhook_port"].default)
    mounts = {item["name"]: item["mountPath"] for item in container["volumeMounts"]}
    assert variables(operator(objects))["COLOCATION_WEBHOOK_TLS_DIRECTORY"] == mounts["webhooks-tls"]


@pytest.mark.parametrize(("kind", "name", "value", "path"), CONFIGURATIONS)
def test_the_api_server_asks_the_operator(render: Render, kind: str, name: str, value: str, path: str) -> None:
    """By the Service, at the path that the operator serves, for a short time, and goes on without an answer."""
    objects = render(**ON)
    webhook = only_webhook(objects, kind, name)
    secret = one(objects, "Secret", "colocation-webhooks-tls")["data"]
    assert webhook["clientConfig"] == {
        "service": {"name": "colocation-webhooks", "namespace": "colocation-system", "path": path},
        "caBundle": secret["ca.crt"],
    }
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["sideEffects"]) == ("Ignore", 5, "None")


@pytest.mark.parametrize(("kind", "name", "value", "path"), CONFIGURATIONS)
def test_each_webhook_can_be_left_out_or_made_strict(
    render: Render, kind: str, name: str, value: str, path: str
) -> None:
    """The two are separate; a strict one stops creations while the operator is away."""
    assert not [item for item in render(**ON, **{f"webhooks.{value}.enabled": "false"}) if item["kind"] == kind]
    strict = render(**ON, **{f"webhooks.{value}.failurePolicy": "Fail"})
    assert only_webhook(strict, kind, name)["failurePolicy"] == "Fail"


@pytest.mark.parametrize(("kind", "name", "value", "path"), CONFIGURATIONS)
def test_system_namespaces_are_left_alone(render: Render, kind: str, name: str, value: str, path: str) -> None:
    """kube-system, the operator's own, and those that the installer names."""
    objects = render(**ON, **{"webhooks.excludedNamespaces[0]": "sandbox"})
    [expression] = only_webhook(objects, kind, name)["namespaceSelector"]["matchExpressions"]
    assert (expression["key"], expression["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
    assert expression["values"] == ["kube-system", "colocation-system", "sandbox"]


def test_only_labelled_applications_are_sent(render: Render) -> None:
    """Of every kind that can be submitted, and no other object."""
    webhook = only_webhook(render(**ON), *CONFIGURATIONS[0][:2])
    assert webhook["objectSelector"] == {"matchExpressions": [{"key": LABEL_GROUP, "operator": "Exists"}]}
    assert served(webhook) == {(kind.group, kind.version, kind.plural) for kind in KINDS}


def test_groups_and_tables_are_judged_but_not_the_operators_own(render: Render) -> None:
    """The operator makes and deletes groups by the same checks: it does not ask itself."""
    webhook = only_webhook(render(**ON), *CONFIGURATIONS[1][:2])
    assert served(webhook) == {(API_GROUP, API_VERSION, GROUP_PLURAL), (API_GROUP, API_VERSION, TABLE_PLURAL)}
    [condition] = webhook["matchConditions"]
    assert "system:serviceaccount:colocation-system:colocation-operator" in condition["expression"]


def test_the_certificate_is_the_services(render: Render) -> None:
    """The API server dials <service>.<namespace>.svc and verifies that name."""
    secret = one(render(**ON), "Secret", "colocation-webhooks-tls")["data"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(secret["tls.crt"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "colocation-webhooks.colocation-system.svc" in names.get_values_for_type(x509.DNSName)
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(base64.b64decode(secret["ca.crt"])))


def test_cert_manager_makes_the_certificate(render: Render) -> None:
    """Then the chart makes no key; cert-manager puts the CA into both configurations."""
    objects = render(**BY_CERT_MANAGER)
    assert "colocation-webhooks-tls" not in [item["metadata"]["name"] for item in objects if item["kind"] == "Secret"]
    spec = one(objects, "Certificate", "colocation-webhooks")["spec"]
    assert spec["secretName"] == "colocation-webhooks-tls"
    assert "colocation-webhooks.colocation-system.svc" in spec["dnsNames"]
    assert one(objects, "Issuer", spec["issuerRef"]["name"])["spec"] == {"selfSigned": {}}
    for kind, name, _, _ in CONFIGURATIONS:
        annotations = one(objects, kind, name)["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": "colocation-system/colocation-webhooks"}
        assert "caBundle" not in only_webhook(objects, kind, name)["clientConfig"]


SHARED, OWN = "colocation-webhooks-tls", "colocation-webhooks-own-tls"
KEPT = {"tls.crt": "a2VwdA==", "tls.key": "a2V5", "ca.crt": "Y2E="}
FOREIGN = secret(SHARED, None, **dict.fromkeys(KEPT, "Zm9yZWlnbg=="))


@pytest.mark.parametrize(
    ("there", "name", "is_kept"),
    [
        pytest.param([], SHARED, False, id="first install"),
        pytest.param([secret(SHARED, "colocation", **KEPT)], SHARED, True, id="the chart's of before"),
        pytest.param([FOREIGN], OWN, False, id="cert-manager's, just switched off"),
        pytest.param([FOREIGN, secret(OWN, "colocation", **KEPT)], OWN, True, id="cert-manager's, long switched off"),
        pytest.param([secret(OWN, "colocation", **KEPT)], OWN, True, id="cert-manager's was deleted since"),
        pytest.param([secret(SHARED, "other", **KEPT)], OWN, False, id="another release's"),
    ],
)
def test_a_secret_of_somebody_else_is_left_alone(
    helm: Path, tmp_path: Path, there: list[dict[str, Any]], name: str, is_kept: bool
) -> None:
    """Helm takes over none that it has not made: the upgrade would fail. All that names the certificate agrees."""
    objects = rendered_with(helm, tmp_path, there, "webhooks.enabled=true")
    [made] = [item for item in objects if item["kind"] == "Secret" and "webhooks" in item["metadata"]["name"]]
    assert (made["metadata"]["name"], made["data"] == KEPT) == (name, is_kept)
    volumes = operator(objects)["spec"]["template"]["spec"]["volumes"]
    assert [one["secret"]["secretName"] for one in volumes if one["name"] == "webhooks-tls"] == [name]
    for kind, configuration, _, _ in CONFIGURATIONS:
        assert only_webhook(objects, kind, configuration)["clientConfig"]["caBundle"] == made["data"]["ca.crt"]


def test_cert_manager_keeps_its_secret(helm: Path, tmp_path: Path) -> None:
    """Whatever the chart made once: the operator mounts the one that the Certificate names."""
    settings = [f"{name}={value}" for name, value in BY_CERT_MANAGER.items()]
    objects = rendered_with(helm, tmp_path, [FOREIGN, secret(OWN, "colocation", **KEPT)], *settings)
    assert one(objects, "Certificate", "colocation-webhooks")["spec"]["secretName"] == SHARED
    assert {"secretName": SHARED} in [
        {"secretName": volume["secret"]["secretName"]}
        for volume in operator(objects)["spec"]["template"]["spec"]["volumes"]
        if "secret" in volume
    ]


def test_an_issuer_of_ones_own(render: Render) -> None:
    """It is named by kind and name, and the chart makes none."""
    reference = "webhooks.certificate.certManager.issuerRef"
    objects = render(**BY_CERT_MANAGER, **{f"{reference}.kind": "ClusterIssuer", f"{reference}.name": "internal"})
    assert one(objects, "Certificate", "colocation-webhooks")["spec"]["issuerRef"] == {
        "group": "cert-manager.io", "kind": "ClusterIssuer", "name": "internal",
    }  # fmt: skip
    assert not [item for item in objects if item["kind"] == "Issuer"]


@pytest.mark.parametrize(
    ("value", "given"),
    [("webhooks.validation.failurePolicy", "Never"), ("webhooks.timeoutSeconds", "31"), ("webhooks.port", "1")],
)
def test_wrong_values_are_refused(render: Render, value: str, given: str) -> None:
    """The schema names the value."""
    with pytest.raises(ChartRefused, match=value.rpartition(".")[2]):
        render(**{value: given})
