"""The webhooks that are installed, and whether the API server gets their answers."""

from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from ...model.names import API_GROUP, API_VERSION, GROUP_API_VERSION, GROUP_KIND, GROUP_PLURAL
from ...submit.run import status_message
from ..errors import HTTP_FORBIDDEN, HTTP_NOT_FOUND
from .checks import Webhook

VALIDATION = "validation.colocation.dev"
PROBE_NAME = "colocation-doctor-probe"
PROBE = {
    "apiVersion": GROUP_API_VERSION,
    "kind": GROUP_KIND,
    "metadata": {"name": PROBE_NAME},
    "spec": {"bucketKey": ["bigint"], "buckets": 1, "replicas": 1, "bucketSequence": [[PROBE_NAME]]},
}
"""A group that only the webhook refuses: its map names a node that there is not. It is never stored (a dry run)."""
LABEL_NAMESPACE_NAME = "kubernetes.io/metadata.name"


def installed_webhooks(connection: client.ApiClient, namespace: str, selector: str) -> tuple[Webhook, ...]:
    """All of ours. ``namespace``: where the validation is tried, if the caller may make groups there."""
    hooks, slices = client.AdmissionregistrationV1Api(connection), client.DiscoveryV1Api(connection)
    found: list[Any] = [
        *hooks.list_validating_webhook_configuration(label_selector=selector).items,
        *hooks.list_mutating_webhook_configuration(label_selector=selector).items,
    ]

    def endpoints(service: Any) -> int:
        listed: list[Any] = slices.list_namespaced_endpoint_slice(
            service.namespace, label_selector=f"kubernetes.io/service-name={service.name}"
        ).items
        return sum(bool(one.conditions.ready) for item in listed for one in item.endpoints or ())

    return tuple(
        Webhook(
            name=hook.name, service=f"{hook.client_config.service.namespace}/{hook.client_config.service.name}",
            has_ca=bool(hook.client_config.ca_bundle), endpoints=endpoints(hook.client_config.service),
            **(_trial(connection, hook, namespace) if hook.name == VALIDATION else {}),
        )
        for item in found for hook in item.webhooks or ()
    )  # fmt: skip


def _trial(connection: client.ApiClient, hook: Any, namespace: str) -> dict[str, str]:
    """``Webhook.failure`` or ``untried``; empty where the API server gets the webhook's answer."""
    if namespace in _excluded(hook):
        return {"untried": f"the API server does not ask it in namespace {namespace}"}
    try:
        client.CustomObjectsApi(connection).create_namespaced_custom_object(
            API_GROUP, API_VERSION, namespace, GROUP_PLURAL, PROBE, dry_run="All"
        )
    except ApiException as error:
        said = status_message(error)
        if error.status == HTTP_FORBIDDEN and "admission webhook" not in said:
            return {"untried": f"you may not create {GROUP_PLURAL} in namespace {namespace}"}
        if error.status == HTTP_NOT_FOUND:
            return {"untried": said}  # no such namespace, or no such kind
        if "failed calling webhook" not in said:
            return {}  # its own refusal
        return {"failure": said.partition("failed to call webhook: ")[2] or said}
    ignored = "objects pass that it would refuse (its failurePolicy is Ignore); the API server's log has the reason"
    return {"failure": ignored}


def _excluded(hook: Any) -> set[str]:
    expressions: list[Any] = (hook.namespace_selector and hook.namespace_selector.match_expressions) or []
    return {name for one in expressions if one.key == LABEL_NAMESPACE_NAME for name in one.values or ()}
