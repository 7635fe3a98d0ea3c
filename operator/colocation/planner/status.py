"""Whether a group is stable, from the snapshot alone.

A bucket is stable when every node of its map is live and holds it complete, and the map names as many nodes as the
group has replicas. A group is stable when all its buckets are and it is not marked unstable. Stability goes with the
first pass that sees a loss: queries must not go to a replica that is away (StarRocks#71502).

A replica that was complete when its agent was last heard counts as complete for a short grace (`unconfirmed`).

The checks below run in order; the first that fails gives a replica's reason. The most severe reason of all gives the
group's (order of `colocation.model.conditions.Reason`). A mark by hand comes first: readers keep off a marked group,
whatever its replicas are like.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from colocation.model.conditions import Reason
from colocation.model.plan import BucketProblem
from colocation.model.snapshot import Node
from colocation.model.wording import counted, listed

from .cluster import LIVE_REPLICAS_TO_WAIT
from .view import GroupView

SEVERITY = {reason: rank for rank, reason in enumerate(Reason)}

SUBJECTS = {Reason.AGENT_NOT_READY: "the agent of ", Reason.DISK_MISSING: "the disk of "}
DISK_STATES = {Reason.DISK_FAILING: "failing", Reason.DISK_READ_ONLY: "read-only", Reason.DISK_FULL: "full"}

Finding = tuple[Reason, str]


@dataclass(frozen=True, slots=True)
class Status:
    """``problems``: one per unstable bucket, in bucket order; none when the group is only marked unstable."""

    stable: bool
    reason: Reason
    message: str
    problems: tuple[BucketProblem, ...] = ()


def check_node_known(view: GroupView, bucket: int, node: str) -> Finding | None:
    if node not in view.cluster.nodes:
        return Reason.NODE_GONE, f"node {node} no longer exists"
    return None


def check_node_ready(view: GroupView, bucket: int, node: str) -> Finding | None:
    state = view.cluster.nodes[node]
    if state.ready:
        return None
    reason = Reason.NODE_NOT_READY
    if state.not_ready_reason in (Reason.AGENT_NOT_READY, Reason.DISK_MISSING):
        reason = Reason(state.not_ready_reason)
    subject = f"{SUBJECTS.get(reason, '')}node {node}"
    since = f" since {timestamp(state.not_ready_since)}" if state.not_ready_since else ""
    detail = f": {state.not_ready_message}" if state.not_ready_message else ""
    return reason, f"{subject} is not ready{since}{detail}"


def check_disk(view: GroupView, bucket: int, node: str) -> Finding | None:
    """A disk that loses writes is not trusted with queries; one that is read-only or full serves what it has."""
    state = view.cluster.nodes[node]
    return disk_finding(state) if state.disk_reason == Reason.DISK_FAILING else None


def disk_finding(node: Node) -> Finding | None:
    """What is wrong with a node's disk."""
    if node.disk_reason not in DISK_STATES:
        return None
    since = f" since {timestamp(node.disk_since)}" if node.disk_since else ""
    subject = f"the disk of node {node.name} is {DISK_STATES[Reason(node.disk_reason)]}"
    return Reason(node.disk_reason), f"{subject}{since}: {node.disk_message}"


def failing_message(view: GroupView, nodes: Iterable[str]) -> str:
    """Why these nodes take no clones of the group now, and when they are tried again."""
    sentences = []
    for node in nodes:
        target = view.group.failing_targets[node]
        cause = f": {target.cause}" if target.cause else ""
        failures, again = counted(target.failures, "clone"), timestamp(target.retry_at)
        sentences.append(f"{failures} to node {node} failed{cause}; it is tried again at {again}")
    return "; ".join(sentences)


def waiting_message(view: GroupView, node: str) -> str:
    """Why the replicas of a node that is down stay where they are."""
    since = timestamp(view.cluster.nodes[node].not_ready_since or view.cluster.now)
    seconds, cause = view.cluster.down_tolerance_seconds(node, view.spec), view.cluster.wide_outage.get(node)
    text = f"node {node} is down since {since}; its replicas are made again on other nodes after {seconds} s"
    if cause is None:
        return text
    return f"{text}, as {cause}; buckets with fewer than {LIVE_REPLICAS_TO_WAIT} live replicas wait less"


def check_replica_whole(view: GroupView, bucket: int, node: str) -> Finding | None:
    if view.is_presumed_complete(bucket, node):
        return None
    if is_balancing(view, bucket):
        return Reason.BALANCING, f"node {node} is still receiving the bucket"
    match view.state(bucket, node):
        case "corrupt":
            return Reason.REPLICA_CORRUPT, f"files on node {node} are damaged"
        case "partial":
            return Reason.REPLICA_INCOMPLETE, f"node {node} lacks some of the files"
        case _:
            return Reason.REPLICA_MISSING, f"node {node} holds none of the files"


REPLICA_CHECKS: tuple[Callable[[GroupView, int, str], Finding | None], ...] = (
    check_node_known,
    check_node_ready,
    check_disk,
    check_replica_whole,
)


def is_balancing(view: GroupView, bucket: int) -> bool:
    """Whether the bucket's map changed ahead of its data, as strict balancing does (Doris' order).

    The mark of it: as many complete live replicas as the group wants exist, some of them still outside the map.
    """
    if not view.spec.balancing.strict:
        return False
    return len(view.sources.get(bucket, ())) >= view.spec.replicas


def check_bucket(view: GroupView, bucket: int) -> Finding | None:
    """The most severe problem of the bucket's replicas.

    Judged by the map: while replicas are added after `spec.replicas` was raised, those of before serve.
    """
    findings: list[Finding] = []
    if bucket in view.whole and not view.cluster.sick_disks:
        return None
    for node in view.map[bucket]:
        for check in REPLICA_CHECKS:
            finding = check(view, bucket, node)
            if finding is not None:
                findings.append(finding)
                break
    if not view.map[bucket]:
        findings.append((Reason.REPLICA_MISSING, "the map names no node"))
    return min(findings, key=lambda finding: SEVERITY[finding[0]], default=None)


def group_status(view: GroupView) -> Status:
    """Stable or not, why, and which buckets."""
    if view.group.map is None:
        return Status(False, Reason.NO_MAP, "the group has no map yet")
    findings = {bucket: finding for bucket in range(len(view.map)) if (finding := check_bucket(view, bucket))}
    if findings:
        problems = tuple(_problem(view, bucket, finding) for bucket, finding in findings.items())
        reason = min((finding[0] for finding in findings.values()), key=SEVERITY.__getitem__)
        message = _message(view, findings, reason)
        if view.group.marked_unstable is not None:
            return Status(False, Reason.MARKED_UNSTABLE, f"{mark_message(view)}; also {reason}: {message}", problems)
        return Status(False, reason, message, problems)
    if view.group.marked_unstable is not None:
        return Status(False, Reason.MARKED_UNSTABLE, mark_message(view))
    return Status(True, Reason.ALL_REPLICAS_COMPLETE, stable_message(len(view.map), sum(map(len, view.map))))


def mark_message(view: GroupView) -> str:
    return f"marked unstable by hand: {view.group.marked_unstable or 'the mark does not say by whom'}"


def stable_message(buckets: int, replicas: int) -> str:
    """``replicas``: of all buckets together."""
    return f"all {counted(replicas, 'replica')} of {counted(buckets, 'bucket')} are complete"


def _problem(view: GroupView, bucket: int, finding: Finding) -> BucketProblem:
    since = view.group.unstable_since.get(bucket, view.cluster.now)
    return BucketProblem(bucket=bucket, reason=finding[0], message=finding[1], since=timestamp(since))


def _message(view: GroupView, findings: dict[int, Finding], reason: Reason) -> str:
    """Buckets by cause, for the most severe reason: ``buckets 0, 3 (2 of 8): node node-2 is not ready since ...``."""
    causes: dict[str, list[int]] = defaultdict(list)
    for bucket, finding in findings.items():
        if finding[0] == reason:
            causes[finding[1]].append(bucket)
    texts = [f"{buckets_of(buckets, len(view.map))}: {cause}" for cause, buckets in causes.items()]
    others = len(findings) - sum(len(buckets) for buckets in causes.values())
    return "; ".join(texts) + (f"; {counted(others, 'bucket')} more for lesser reasons" if others else "")


def first_cause(problems: list[BucketProblem], total: int) -> BucketProblem | None:
    """The first problem; its message names all buckets that have a problem for the same reason."""
    if not problems:
        return None
    first = problems[0]
    buckets = sorted({one.bucket for one in problems if one.reason == first.reason})
    others = len({one.bucket for one in problems}.difference(buckets))
    where = buckets_of(buckets, total) if len(buckets) > 1 else f"bucket {first.bucket}"
    more = f"; {counted(others, 'bucket')} more for other reasons" if others else ""
    return first.model_copy(update={"message": f"{where}: {first.message}{more}"})


def buckets_of(buckets: list[int], total: int) -> str:
    """``bucket 3 (1 of 8)`` or ``buckets 0, 3, 5 (3 of 8)``."""
    noun = "bucket" if len(buckets) == 1 else "buckets"
    return f"{noun} {listed(buckets)} ({len(buckets)} of {total})"


def timestamp(moment: datetime) -> str:
    """RFC 3339 with seconds; UTC as ``Z``."""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
