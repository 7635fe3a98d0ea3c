"""The checks of `colocation doctor`: facts in, findings out, each with what is wrong and what to do. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Literal

from ...model.base import Frozen
from ...model.conditions import APPLY_KINDS, Reason
from ...model.names import LEASE_DURATION_SECONDS
from ...model.snapshot import Snapshot
from ...model.wording import counted
from ...planner.cluster import unknown_topology
from ..inspect.nodes import EMPTY, remaining_on, stalled_groups

Level = Literal["ok", "note", "warning", "error"]
"""A note is no fault of the installation: something that you may not do, or may not see."""
Json = dict[str, Any]
LOW_DISK_SHARE = 0.10
LOW_DISK = (
    "free space, add nodes or disks, or drop tables; loads need space on every node. On a disk that is the kubelet's, "
    "too, the chart's agent.kubeletReserveFraction counts as used: docs/how-to/clouds.md"
)
RUN_AGAIN = "fix that first, then run `colocation doctor` again"
TRY_ELSEWHERE = "try it by `colocation doctor -n NAMESPACE`, in one where you may create groups"
ASK_ADMIN = "an administrator's `colocation doctor` checks them"
PAGE = "docs/how-to/troubleshoot.md"
IMAGE = "push it, or repeat helm upgrade --install with the right image.repository: docs/how-to/install.md#images"
IMAGE_TROUBLES = ("ErrImage", "ImagePull", "InvalidImageName")
SICK_DISKS = "docs/how-to/operate.md#sick-disks"
DOWN = (
    "its replicas are read from other nodes, and made again there; bring it back, or if it is gone for good: "
    "kubectl delete node {node}"
)
KEEP = "to keep the node: colocation undrain {node}, or kubectl uncordon {node} if its holder pod was evicted"
DRAINS = "watch it with colocation nodes --watch; if it stands still: docs/how-to/troubleshoot.md#a-drain-does-not-end"
INSTALL = "docs/how-to/install.md#install"
WEBHOOKS = "docs/how-to/troubleshoot.md#webhooks-do-not-answer"
RELEASE_OF_IMAGE = re.compile(r":v?(\d+\.\d+\.\d+[\w.-]*)$")
"""The release that an image's tag names; other tags and digests say nothing of it."""


class Finding(Frozen):
    """The verdict of one check. ``advice`` is empty where all is well."""

    check: str
    level: Level
    message: str
    advice: str = ""


class Right(Frozen):
    """Something that a command needs the right to; ``allowed`` is the API server's answer."""

    what: str
    allowed: bool
    used_by: str
    role: str


class Pod(Frozen):
    """A pod of ours. ``version``: of the chart that made it."""

    name: str
    node: str = ""
    ready: bool = False
    image: str = ""
    version: str = ""
    trouble: str = ""


class Webhook(Frozen):
    """A webhook configuration of ours. ``endpoints``: addresses that answer behind its Service; None = not known.

    ``failure``: why the API server goes without its answer. ``untried``: why that is not known.
    """

    name: str
    service: str
    has_ca: bool
    endpoints: int | None
    failure: str = ""
    untried: str = ""


class Facts(Frozen):
    """The gathered facts; None = could not be asked, and ``unknown`` has the reason, by check.

    ``forbidden``: the checks that need rights which the caller lacks. ``refused_operator``: why the API server refuses
    a new pod of the operator, as it does after an upgrade with wrong values.
    """

    cli_version: str
    operator_namespace: str
    now: datetime
    missing_fields: dict[str, tuple[str, ...] | None] | None = None
    missing_namespaces: tuple[str, ...] = ()
    rights: tuple[Right, ...] = ()
    operators: tuple[Pod, ...] | None = None
    refused_operator: str = ""
    agents: tuple[Pod, ...] | None = None
    lease_renewed: datetime | None = None
    etcd_restored: bool = False
    snapshot: Snapshot | None = None
    webhooks: tuple[Webhook, ...] | None = None
    unknown: dict[str, str] = {}
    forbidden: tuple[str, ...] = ()


def diagnose(facts: Facts) -> list[Finding]:
    """The findings of all checks, causes before effects; then the checks that could not be made, by reason."""
    skipped = {*facts.unknown, *facts.forbidden}
    found = [finding for name, check in CHECKS if name not in skipped for finding in _run(name, check, facts)]
    return [*found, *_not_checked(facts)]


def _not_checked(facts: Facts) -> Iterator[Finding]:
    for why in dict.fromkeys(facts.unknown.values()):
        names = ", ".join(name for name, reason in facts.unknown.items() if reason == why)
        yield Finding(check="not checked", level="warning", message=f"{names}: {why}", advice=RUN_AGAIN)
    if facts.forbidden:
        message = f"{', '.join(facts.forbidden)}: you may not see what they need"
        yield Finding(check="not checked", level="note", message=message, advice=ASK_ADMIN)


def _run(name: str, check: "Check", facts: Facts) -> Iterable[Finding]:
    found = [Finding(check=name, level=level, message=message, advice=advice)
             for level, message, advice in check(facts)]  # fmt: skip
    return found or [Finding(check=name, level="ok", message="")]


Verdict = tuple[Level, str, str]
Check = Callable[[Facts], Iterator[Verdict]]


def check_kinds(facts: Facts) -> Iterator[Verdict]:
    """The kinds are installed, and know the fields that this command knows."""
    for plural, fields in (facts.missing_fields or {}).items():
        if fields is None:
            advice = f"install the operator: {INSTALL}; or {APPLY_KINDS}"
            yield "error", f"the cluster does not know {plural}.colocation.dev", advice
        elif fields:
            yield "warning", f"{plural} lack {', '.join(fields)}: the kind is of an older release", APPLY_KINDS


def check_rights(facts: Facts) -> Iterator[Verdict]:
    """You may do what the commands do. Roles differ on purpose, so what one lacks is no fault."""
    for namespace in facts.missing_namespaces:
        yield "error", f"there is no namespace {namespace}", f"choose one with -n, or: colocation init -n {namespace}"
    lacking = [right for right in facts.rights if not right.allowed]
    for role in dict.fromkeys(right.role for right in lacking):
        whats = "; ".join(f"{right.what} ({right.used_by})" for right in lacking if right.role == role)
        yield "note", f"you may not: {whats}", f"if you need it, ask for the role {role}"


def check_operator(facts: Facts) -> Iterator[Verdict]:
    """An operator runs, has renewed its Lease, and has not found the cluster's state restored."""
    where = f"kubectl get pods -n {facts.operator_namespace}"
    pods = facts.operators or ()
    if not any(pod.ready for pod in pods):
        troubles = "; ".join(f"{pod.name}: {pod.trouble or 'not ready'}" for pod in pods) or "it has no pod"
        first = where if pods else f"install the chart: {INSTALL}"
        if facts.agents and not pods:
            first = f"it may be scaled to 0: kubectl get deployments -n {facts.operator_namespace}; or {first}"
        advice = f"{first}; if it runs in another namespace: --operator-namespace"
        if any(pod.trouble.startswith(IMAGE_TROUBLES) for pod in pods):
            advice = IMAGE
        yield "error", f"no operator is ready in {facts.operator_namespace}: {troubles}", advice
    else:
        yield from _operator_rollout(facts)
    if facts.refused_operator:
        message = f"no new pod of it can be made: {facts.refused_operator}"
        yield "warning", message, "correct what it names, or repeat helm upgrade --install with the right values"
    if facts.lease_renewed is None:
        yield "error", "no operator leads: the Lease colocation-operator is missing", f"look at its log: {where}"
    elif (silence := (facts.now - facts.lease_renewed).total_seconds()) > LEASE_DURATION_SECONDS:
        advice = f"{where}; {PAGE}#everything-is-unknown"
        yield "error", f"the operator has given no sign of life for {silence:.0f} s: verdicts are unknown", advice
    if facts.etcd_restored:
        yield "error", "etcd was restored from an older copy: nothing is deleted from disks", "colocation adopt -A"


def _operator_rollout(facts: Facts) -> Iterator[Verdict]:
    """Pods that do not start while another one leads: an upgrade, for a moment, or one that stands still."""
    for pod in facts.operators or ():
        if not pod.ready:
            message = f"{pod.name} is not ready{_because(pod.trouble)}; the one that runs goes on"
            look = f"if it stays so: kubectl describe pod {pod.name} -n {facts.operator_namespace}"
            yield "warning", message, IMAGE if pod.trouble.startswith(IMAGE_TROUBLES) else look


def check_agents(facts: Facts) -> Iterator[Verdict]:
    """Every agent is ready."""
    if not facts.agents:
        select = "set the chart's agent.nodeSelector to labels that your nodes have"
        yield "error", "no agent runs", select if facts.operators else f"install the chart: {INSTALL}"
    down = _nodes_down(facts)
    for pod in facts.agents or ():
        if not pod.ready and pod.node not in down:
            look = f"kubectl describe pod {pod.name} -n {facts.operator_namespace}; {PAGE}#an-agent-is-not-ready"
            advice = IMAGE if pod.trouble.startswith(IMAGE_TROUBLES) else look
            yield "error", f"the agent of {pod.node or pod.name} is not ready{_because(pod.trouble)}", advice


def _nodes_down(facts: Facts) -> frozenset[str]:
    """The nodes that Kubernetes marks NotReady. Their agents cannot be ready either, which is no second fault."""
    nodes = facts.snapshot.nodes if facts.snapshot else ()
    return frozenset(node.name for node in nodes if node.not_ready_reason == Reason.NODE_NOT_READY)


def _because(trouble: str) -> str:
    return f": {trouble}" if trouble else ""


def check_versions(facts: Facts) -> Iterator[Verdict]:
    """Command, chart, operator and agents are of one release."""
    pods = [*(facts.operators or ()), *(facts.agents or ())]
    for release, image in sorted({(pod.version, pod.image) for pod in pods if _is_of_another_release(pod)}):
        advice = "give the image of the chart's release, image.tag: docs/how-to/upgrade.md#steps"
        yield "warning", f"the chart is {release}, but it runs the image {image}", advice
    if len(images := sorted({pod.image for pod in pods})) > 1:
        rollout = f"kubectl rollout status daemonset/colocation-agent -n {facts.operator_namespace}"
        advice = f"wait for the rollout: {rollout}"
        yield "warning", f"operator and agents run different images: {', '.join(images)}", advice
    others = sorted({pod.version for pod in pods if pod.version} - {facts.cli_version})
    if others:
        advice = "install the command of the operator's release: docs/tutorial.md#1-install-the-command"
        yield "warning", f"this command is {facts.cli_version}, the operator {', '.join(others)}", advice


def _is_of_another_release(pod: Pod) -> bool:
    """Whether the image's tag names another release than the chart's, as after an upgrade that kept a tag."""
    tagged = RELEASE_OF_IMAGE.search(pod.image)
    return bool(tagged and pod.version and tagged[1] != pod.version)


def check_reachability(facts: Facts) -> Iterator[Verdict]:
    """The operator answers through a port-forward, and every agent answers the operator."""
    if facts.snapshot is None:
        return
    down = _nodes_down(facts)
    for node in facts.snapshot.nodes:
        if node.name in down:
            message = f"node {node.name} is down: {node.not_ready_message or 'Kubernetes marks it NotReady'}"
            yield "error", message, DOWN.format(node=node.name)
        elif not node.ready:
            reason = f"{node.not_ready_reason}: {node.not_ready_message}" if node.not_ready_reason else "not ready"
            yield "error", f"the operator does not reach {node.name}: {reason}", f"kubectl describe node {node.name}"


def check_disks(facts: Facts) -> Iterator[Verdict]:
    """Disks are well and have room for repairs."""
    for node in facts.snapshot.nodes if facts.snapshot else ():
        if node.disk_reason:
            yield "error", f"{node.name}: {node.disk_reason}: {node.disk_message}", SICK_DISKS
        elif node.capacity_bytes and node.free_bytes < LOW_DISK_SHARE * node.capacity_bytes:
            share = node.free_bytes / node.capacity_bytes
            message = f"{node.name}: {share:.0%} of its disk is free, not counting what the kubelet keeps"
            yield "warning", message, LOW_DISK


def check_drains(facts: Facts) -> Iterator[Verdict]:
    """No node is being drained; kubectl drain and upgrades wait until its replicas are elsewhere."""
    if facts.snapshot is None:
        return
    stalled = stalled_groups(facts.snapshot)
    for node in facts.snapshot.nodes:
        if node.drain:
            left = remaining_on(facts.snapshot, node.name, stalled=stalled)
            replicas = f"{counted(left.replicas, 'replica')} left to move{left.obstacles}"
            message = f"node {node.name} is drained ({node.drain_message or 'why is not known'}): {replicas}"
            yield "note", message, f"{DRAINS if left.replicas else EMPTY}; {KEEP.format(node=node.name)}"


def check_webhooks(facts: Facts) -> Iterator[Verdict]:
    """Webhooks that are installed can be reached by the API server."""
    for hook in facts.webhooks or ():
        if not hook.has_ca:
            yield "error", f"webhook {hook.name} has no CA", "helm upgrade, or wait for cert-manager's injector"
        if hook.endpoints == 0:
            message = f"webhook {hook.name}: nothing answers behind the Service {hook.service}"
            ready = f"check that the operator is ready: kubectl get pods -n {facts.operator_namespace}"
            yield "error", message, f"an operator that has just started answers within a minute; otherwise {ready}"
        elif hook.has_ca and hook.failure:
            yield "error", f"webhook {hook.name} is asked in vain: {hook.failure}", WEBHOOKS
        elif hook.untried:
            yield "note", f"webhook {hook.name} was not tried: {hook.untried}", TRY_ELSEWHERE


def check_groups(facts: Facts) -> Iterator[Verdict]:
    """Every group that the operator knows has a map, and a topology key that nodes have."""
    if facts.snapshot is None:
        return
    for group in facts.snapshot.groups:
        name = f"{group.namespace}/{group.name}"
        if unknown := unknown_topology(group.spec, facts.snapshot.nodes):
            yield "warning", f"group {name}: {unknown}", "correct spec.topologyKey, or label the nodes"
        if group.map is None:
            yield "warning", f"group {name} has no map yet", f"colocation show {group.name} -n {group.namespace}"


CHECKS: tuple[tuple[str, Check], ...] = (
    ("kinds", check_kinds), ("rights", check_rights), ("operator", check_operator), ("agents", check_agents),
    ("versions", check_versions), ("reachability", check_reachability), ("disks", check_disks),
    ("drains", check_drains), ("webhooks", check_webhooks), ("groups", check_groups),
)  # fmt: skip
