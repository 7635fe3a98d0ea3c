"""``doctor``: gathers facts about the installation, and prints what is wrong and what to do about it."""

from collections.abc import Callable
from datetime import datetime
from importlib.metadata import version
from typing import Any, NamedTuple

import click
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from ...common.server_clock import ServerClock
from ...model.names import (
    ANNOTATION_ETCD_RESTORED,
    API_GROUP,
    APP_NAME,
    GROUP_PLURAL,
    LABEL_COMPONENT,
    LABEL_NAME,
    LEASE_NAME,
    TABLE_PLURAL,
)
from ...schema.comparison import missing_fields
from ...schema.crds import group_crd, table_crd
from ..connection import Connection
from ..errors import FAILED, HTTP_NOT_FOUND, CommandFailed, is_forbidden, said_by
from ..port_forward import fetch_snapshot
from ..terminal.options import Target, cluster_options, operator_namespace_option, output_option
from ..terminal.output import Format, write
from .checks import Facts, Finding, Pod, Right, diagnose
from .webhooks import installed_webhooks

EDIT = "edit"
"""The cluster's own role, of which colocation-edit is a part."""
VIEW = "view"
"""The cluster's own role, of which colocation-view is a part."""
LABEL_VERSION = "app.kubernetes.io/version"
OURS = f"{LABEL_NAME}={APP_NAME}"


def gather(connection: Connection, namespace: str, operator_namespace: str) -> Facts:
    """Everything that the checks look at. What cannot be asked is ``unknown`` or ``forbidden``, by the checks.

    Raises:
        HTTPError: the API server cannot be reached.
        ApiException: it does not accept the caller at all.
    """
    unknown: dict[str, str] = {}
    forbidden: list[str] = []

    def ask(checks: str, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except (CommandFailed, ApiException) as error:
            if is_forbidden(error):
                forbidden.extend(name for name in checks.split() if name not in forbidden)
            else:
                unknown.update(dict.fromkeys(checks.split(), said_by(error)))
        return None

    core = client.CoreV1Api(connection)
    namespace_exists = ask("", lambda: _exists(core, namespace))
    clock = ServerClock()
    lease = ask("operator", lambda: _lease(connection, operator_namespace, clock))
    return Facts(
        cli_version=version("colocation"),
        operator_namespace=operator_namespace,
        now=clock.now(),
        missing_namespaces=(namespace,) if namespace_exists is False else (),
        rights=gather_rights(connection, namespace, operator_namespace),
        missing_fields=ask("kinds", lambda: _missing_fields(connection)),
        operators=ask("operator versions", lambda: _pods(core, operator_namespace, "operator")),
        refused_operator=ask("", lambda: _refused_operator(connection, operator_namespace)) or "",
        agents=ask("agents versions", lambda: _pods(core, operator_namespace, "agent")),
        lease_renewed=lease.renewed if lease else None,
        etcd_restored=lease.etcd_restored if lease else False,
        snapshot=ask("reachability disks drains groups", lambda: fetch_snapshot(connection, operator_namespace)),
        webhooks=ask("webhooks", lambda: installed_webhooks(connection, namespace, OURS)),
        unknown=unknown,
        forbidden=tuple(forbidden),
    )


def _exists(core: "client.CoreV1Api", namespace: str) -> bool:
    try:
        core.read_namespace(namespace)
    except ApiException as error:
        if error.status != HTTP_NOT_FOUND:
            raise
        return False
    return True


def _missing_fields(connection: client.ApiClient) -> dict[str, tuple[str, ...] | None]:
    """By plural, fields that this release's kinds have and the cluster's lack; None = it does not know the kind."""
    definitions = client.ApiextensionsV1Api(connection)
    missing: dict[str, tuple[str, ...] | None] = {}
    for wanted in (group_crd(), table_crd()):
        plural = wanted["spec"]["names"]["plural"]
        try:
            found = definitions.read_custom_resource_definition(wanted["metadata"]["name"])
        except ApiException as error:
            if error.status != HTTP_NOT_FOUND:
                raise
            missing[plural] = None
            continue
        missing[plural] = missing_fields(wanted, connection.sanitize_for_serialization(found))
    return missing


class _RightsOfCaller:
    """Asks the API server whether the caller has a right."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reviews = client.AuthorizationV1Api(connection)

    def right(self, what: str, attributes: dict[str, str], used_by: str, role: str) -> Right:
        """The right with the API server's answer. ``attributes``: the review's ``resourceAttributes``."""
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes}}  # fmt: skip
        allowed = self._is_allowed(body) or self._is_allowed_once_ready(body)
        return Right(what=what, allowed=allowed, used_by=used_by, role=role)

    def _is_allowed_once_ready(self, body: dict[str, Any]) -> bool:
        """A server that is not ready may refuse because it has not read the role yet."""
        self._connection.wait_until_ready()
        return self._is_allowed(body)

    def _is_allowed(self, body: dict[str, Any]) -> bool:
        answer: Any = self._reviews.create_self_subject_access_review(body)  # type: ignore[arg-type]
        return bool(answer.status.allowed)


def gather_rights(connection: Connection, namespace: str, operator_namespace: str) -> tuple[Right, ...]:
    """The rights that the commands need, and whether the caller has them."""
    right = _RightsOfCaller(connection).right

    def of_kind(plural: str, verb: str = "list", group: str = API_GROUP, subresource: str = "") -> dict[str, str]:
        more = {"subresource": subresource} if subresource else {}
        return {"verb": verb, "group": group, "resource": plural, "namespace": namespace, **more}

    forward = {"verb": "create", "resource": "pods", "subresource": "portforward", "namespace": operator_namespace}
    return (
        right(f"list groups in {namespace}", of_kind(GROUP_PLURAL), "`colocation groups`", "colocation-view"),
        right(f"list tables in {namespace}", of_kind(TABLE_PLURAL), "`colocation tables`", "colocation-view"),
        right(
            f"mark tables in {namespace} for the operator", of_kind(TABLE_PLURAL, "update", subresource="operator"),
            "`colocation adopt`", "colocation-admin",
        ),
        right(f"patch groups in {namespace}", of_kind(GROUP_PLURAL, "patch"), "`colocation recover`, `approve`", EDIT),
        right(
            f"create jobs in {namespace}", of_kind("jobs", "create", "batch"),
            "`colocation submit --direct`, `load --direct`, `sql --direct`", EDIT,
        ),
        right(
            f"read pods' logs in {namespace}", of_kind("pods", "get", "", "log"),
            "`colocation submit`, `load`, `compact`", EDIT,
        ),
        right(f"list events in {namespace}", of_kind("events", group=""), "`colocation events`", VIEW),
        right(
            f"patch the operator's Lease in {operator_namespace}",
            {"verb": "patch", "group": "coordination.k8s.io", "resource": "leases", "name": LEASE_NAME,
             "namespace": operator_namespace},
            "`colocation adopt -A`", "colocation-adopt",
        ),
        right(f"forward ports in {operator_namespace}", forward, "`colocation plan`, `nodes`", "colocation-snapshot"),
        right("list nodes", {"verb": "list", "resource": "nodes"}, "`colocation advise`", "colocation-admin"),
        right("patch nodes", {"verb": "patch", "resource": "nodes"}, "`colocation drain`", "colocation-admin"),
        right(
            "list groups in all namespaces", {"verb": "list", "group": API_GROUP, "resource": GROUP_PLURAL},
            "`colocation drain --wait`", "colocation-admin",
        ),
    )


def _pods(core: "client.CoreV1Api", namespace: str, component: str) -> tuple[Pod, ...]:
    found: list[Any] = core.list_namespaced_pod(
        namespace, label_selector=f"{OURS},{LABEL_COMPONENT}={component}"
    ).items  # fmt: skip
    return tuple(
        Pod(
            name=pod.metadata.name, node=pod.spec.node_name or "", image=pod.spec.containers[0].image,
            ready=any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions or ()),
            version=(pod.metadata.labels or {}).get(LABEL_VERSION, ""), trouble=_trouble(pod),
        )
        for pod in found
    )  # fmt: skip


def _refused_operator(connection: client.ApiClient, namespace: str) -> str:
    """Why its Deployment can make no pod: its events tell it, too, and its pods do not."""
    try:
        found: Any = client.AppsV1Api(connection).read_namespaced_deployment(APP_NAME, namespace)
    except ApiException as error:
        if error.status != HTTP_NOT_FOUND:
            raise
        return ""
    failed = (one for one in found.status.conditions or () if one.type == "ReplicaFailure" and one.status == "True")
    return next((str(one.message) for one in failed), "")


def _trouble(pod: Any) -> str:
    """Why one of its containers waits, those that prepare it first, or what its conditions say."""
    for status in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
        waiting = status.state.waiting if status.state else None
        if waiting and waiting.reason:
            return f"{waiting.reason} {waiting.message or ''}".strip()
    return next((str(one.message) for one in pod.status.conditions or () if one.status == "False" and one.message), "")


class _Lease(NamedTuple):
    """The operator's. ``etcd_restored``: it is marked so."""

    renewed: datetime | None
    etcd_restored: bool


def _lease(connection: client.ApiClient, namespace: str, clock: ServerClock) -> _Lease | None:
    leases, lease = client.CoordinationV1Api(connection), None
    try:
        lease, _, headers = leases.read_namespaced_lease_with_http_info(LEASE_NAME, namespace)
        clock.hear(headers)
    except ApiException as error:
        if error.status != HTTP_NOT_FOUND:
            raise
        return None
    annotations = (lease.metadata.annotations if lease and lease.metadata else None) or {}
    return _Lease(lease.spec.renew_time if lease and lease.spec else None, ANNOTATION_ETCD_RESTORED in annotations)


MARKS = {"ok": "ok", "note": "note", "warning": "WARN", "error": "FAIL"}


@click.command()
@cluster_options
@operator_namespace_option
@output_option
@click.pass_context
def doctor(context: click.Context, target: Target, operator_namespace: str, output: Format) -> None:
    """Check the installation, and say what to do.

    The checks: kinds, your rights, operator, agents, versions, reachability, disks, drains, webhooks, groups. They
    change nothing. Exit code 1 if a check fails; warnings and notes alone give 0.
    """
    cluster = target.open()
    findings = diagnose(gather(cluster.connection, cluster.namespace, operator_namespace))
    write([finding.to_json_dict() for finding in findings], render(findings), output)
    if any(finding.level == "error" for finding in findings):
        context.exit(FAILED)


def render(findings: list[Finding]) -> str:
    """A line per finding, its advice below it."""
    lines = []
    for finding in findings:
        lines.append(f"{MARKS[finding.level]:<5} {finding.check:<13} {finding.message}".rstrip())
        if finding.advice:
            lines.append(f"{'':<20}{finding.advice}")
    return "\n".join(lines)
