"""``groups``, ``tables``, ``show``, ``events``: what the API server holds, without asking the operator."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import click
from kubernetes.client.exceptions import ApiException

from ...model.conditions import ConditionType, Reason
from ...model.group import (
    CloneCounts,
    ColocationGroupStatus,
    GroupMember,
    RecycledTable,
    UnstableBucket,
    awaiting_message,
)
from ...model.names import group_reference
from ...model.reader_rules import CURRENT, SIGN_OF_LIFE_KEY, Freshness
from ...model.salvage import salvage
from ...model.table import ColocatedTableStatus
from ...model.wording import counted, first_few
from ..cluster import Cluster
from ..errors import HTTP_FORBIDDEN
from ..terminal.live import View, show_once_or_watch, warn, watch_option
from ..terminal.options import Target, all_namespaces_option, cluster_options, complete_group, output_option
from ..terminal.output import Format, columns, size, write
from .moves import render_moves

ASKED_CONFIG_MAPS = 3
MAX_NAMES = 3
UNKNOWN = "unknown"

Json = dict[str, Any]
Status = TypeVar("Status", ColocationGroupStatus, ColocatedTableStatus)


@click.command()
@cluster_options
@all_namespaces_option
@watch_option
@output_option
def groups(target: Target, everywhere: bool, watch: bool, output: Format) -> None:
    """List groups, whether they are stable, and why not.

    If the operator gives no sign of life, STABLE is unknown and REASON is OperatorSilent. Below the list is what
    waits for somebody: groups that are stalled, and moves that await approval.
    """
    cluster = target.open()
    show_once_or_watch(lambda: _groups_view(cluster, everywhere), watch, output)


def _groups_view(cluster: Cluster, everywhere: bool) -> View:
    found = cluster.all_groups() if everywhere else cluster.groups()
    if not found:
        return _nothing(cluster, "groups", everywhere)
    freshness = verdict_freshness(cluster, found)
    header = ["NAME", "BUCKETS", "REPLICAS", "DISTCOLS", "TABLES", "STABLE", "REASON", "NODES", "CLONES"]
    matters = [] if freshness.is_current else [freshness.explanation]
    matters += [f"{_called(item, everywhere)}: {error}" for item in found if (error := _group_status(item)[1])]
    matters += _stalled_matters(found, everywhere)
    matters += [f"{_called(item, everywhere)}: {said}" for item in found if (said := _awaiting(item))]
    rows = [_group_row(item, freshness) for item in found]
    return View(found, _listing(found, header, rows, everywhere), tuple(matters))


def _nothing(cluster: Cluster, what: str, everywhere: bool) -> View:
    """An empty list.

    Raises:
        CommandFailed: the namespace does not exist.
    """
    if everywhere:
        return View([], f"no {what} in any namespace")
    cluster.check_namespace()
    return View([], f"no {what} in namespace {cluster.namespace}; -A lists those of all namespaces")


def _listing(items: Sequence[Json], header: Sequence[str], rows: Sequence[Sequence[object]], everywhere: bool) -> str:
    """Columns; those of all namespaces begin with the namespace."""
    if not everywhere:
        return columns(header, rows)
    return columns(
        ["NAMESPACE", *header],
        [[item["metadata"]["namespace"], *row] for item, row in zip(items, rows, strict=True)],
    )


def _called(item: Json, everywhere: bool) -> str:
    metadata = item["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if everywhere else str(metadata["name"])


def _stalled_matters(found: Sequence[Json], everywhere: bool) -> list[str]:
    """A line for each cause that keeps groups from what they should be, with the groups: many may have the same one."""
    groups: dict[str, list[str]] = {}
    for item in found:
        for one in _group_status(item)[0].conditions:
            if one.type == ConditionType.STALLED and one.status == "True":
                groups.setdefault(f"{one.reason}: {one.message}", []).append(_called(item, everywhere))
    return [
        f"{', '.join(first_few(names, MAX_NAMES, lambda more: counted(more, 'more group')))}: stalled: {said}"
        for said, names in groups.items()
    ]


def _awaiting(item: Json) -> str:
    """A line about balance moves of the group that await approval; empty when none do."""
    proposal = _group_status(item)[0].proposal
    if proposal is None or proposal.approved:
        return ""
    group = item["metadata"]["namespace"], item["metadata"]["name"]
    return f"{Reason.AWAITING_APPROVAL}: {awaiting_message(group, proposal)}"


def verdict_freshness(cluster: Cluster, groups: Sequence[Json]) -> Freshness:
    """Whether the operator's verdicts on the namespace's groups hold: one operator judges them all.

    By the ConfigMap of one of the first few: the newest may have none yet. Without rights on any, they are
    taken to hold.
    """
    for group in groups[:ASKED_CONFIG_MAPS]:
        try:
            namespace = group["metadata"]["namespace"]
            config_map = cluster.spark_config_map((namespace, group["metadata"]["name"]), namespace)
        except ApiException as error:
            if error.status != HTTP_FORBIDDEN:
                raise
            return CURRENT
        if config_map and SIGN_OF_LIFE_KEY in config_map["data"]:
            return cluster.freshness(config_map)
    return CURRENT


def _group_row(item: Json, freshness: Freshness) -> list[object]:
    # The spec is shown as it stands: one that is refused, or is of a newer version, has to be seen too.
    spec = item["spec"]
    status, error = _group_status(item)
    clones = status.clones
    active = _active(clones) if clones and clones.running + clones.pending else ""
    stable: bool | str | None = status.stable
    reason = status.reason
    if error:
        stable, reason = UNKNOWN, Reason.INVALID_STATUS
    elif not freshness.is_current:
        stable, reason = UNKNOWN, Reason.OPERATOR_SILENT
    return [
        item["metadata"]["name"], spec.get("buckets"), spec.get("replicas"), ",".join(spec.get("bucketKey") or ()),
        status.table_count or 0, stable, reason, len(status.nodes), active,
    ]


def _active(clones: CloneCounts) -> str:
    copied = f" ({size(clones.bytes_done)} of {size(clones.bytes_total)})" if clones.bytes_total else ""
    return f"{clones.running} running{copied}, {clones.pending} pending"


def _group_status(item: Json) -> tuple[ColocationGroupStatus, str]:
    """What can be read of the group's status, and why the rest cannot."""
    return _read(ColocationGroupStatus, item)


def _table_status(item: Json) -> tuple[ColocatedTableStatus, str]:
    """What can be read of the table's status, and why the rest cannot."""
    return _read(ColocatedTableStatus, item)


def _read(kind: type[Status], item: Json) -> tuple[Status, str]:
    status, error = salvage(kind, item.get("status"))
    return status, f"{Reason.INVALID_STATUS}: {error}" if error else ""


@click.command()
@cluster_options
@all_namespaces_option
@watch_option
@output_option
def tables(target: Target, everywhere: bool, watch: bool, output: Format) -> None:
    """List tables, their groups, and what is loaded.

    Below the list the command shows why a table is refused, moves or waits. If a table is in a group of another
    namespace and you may not list groups there, it warns that tables dropped from them are not shown. A * marks a
    dropped table that `colocation recover` can bring back.
    """
    cluster = target.open()
    show_once_or_watch(lambda: _tables_view(cluster, everywhere, output), watch, output)


def _tables_view(cluster: Cluster, everywhere: bool, output: Format) -> View:
    found = cluster.all_tables() if everywhere else cluster.tables()
    rows, shown = [_table_row(item) for item in found], list(found)
    gap = ""
    if output == "text":
        groups, gap = cluster.groups_everywhere()
        if not any("/" in str(item["spec"].get("colocateWith")) for item in found):
            gap = ""  # nothing here has to do with groups of other namespaces
        for group, record in recycled_in(None if everywhere else cluster.namespace, groups):
            rows.append(_recycled_row(group, record))
            shown.append({"metadata": {"namespace": record.namespace, "name": record.name}})
    if not shown:
        empty = _nothing(cluster, "tables", everywhere)
        return View(empty.value, empty.text, [gap] if gap else ())
    key = ["NAME", "GROUP", "ACCEPTED", "BUCKETED BY", "PARTITIONED BY"]
    header = [*key, "SNAPSHOT", "PARTITIONS", "FILES", "ROWS", "SIZE"]
    # A program reads why from the objects' conditions.
    matters = (*_open_matters(found, everywhere), *([gap] if gap else [])) if output == "text" else ()
    return View(found, _listing(shown, header, rows, everywhere), matters)


def _open_matters(tables: list[Json], everywhere: bool) -> Iterator[str]:
    """A line in the operator's words for each table that is refused, moves, or waits."""
    for item in tables:
        status, error = _table_status(item)
        if error:
            yield f"{_called(item, everywhere)}: {error}"
        found = {condition.type: condition for condition in status.conditions}
        moving, ready = found.get(ConditionType.RECONCILING), found.get(ConditionType.READY)
        matter = moving or (ready if ready and ready.status == "False" else None)
        if matter:
            yield f"{_called(item, everywhere)}: {matter.reason}: {matter.message}"


def recycled_in(namespace: str | None, groups: list[Json]) -> Iterator[tuple[Json, RecycledTable]]:
    """(group, dropped table) of every dropped table of a namespace (None: of all), as the groups remember them."""
    for group in groups:
        for record in _group_status(group)[0].recycled:
            if namespace in (None, record.namespace):
                yield group, record


def members_in(namespace: str, groups: list[Json]) -> Iterator[GroupMember]:
    """Every table of a namespace that the groups count as theirs."""
    members = (member for group in groups for member in _group_status(group)[0].members)
    return (member for member in members if member.namespace == namespace)


def _recycled_row(group: Json, record: RecycledTable) -> list[object]:
    loaded = record.snapshot
    counts: list[object] = [None] * 5
    if loaded:
        counts = [loaded.id, loaded.partitions, loaded.files, loaded.rows, size(loaded.bytes)]
    metadata = group["metadata"]
    reference = group_reference(record.namespace, (metadata["namespace"], metadata["name"]))
    return [f"{record.name}*", reference, None, None, None, *counts]


def _table_row(item: Json) -> list[object]:
    spec = item["spec"]
    status, error = _table_status(item)
    loaded = status.snapshot
    counts: list[object] = [None] * 5
    if loaded:
        counts = [loaded.id, loaded.partitions, loaded.files, loaded.rows, size(loaded.bytes)]
    return [
        item["metadata"]["name"], spec.get("colocateWith"), Reason.INVALID_STATUS if error else status.accepted,
        ",".join(spec.get("bucketedBy") or ()), ",".join(spec.get("partitionedBy") or ()), *counts,
    ]


@click.command()
@click.argument("group", shell_complete=complete_group)
@cluster_options
@output_option
def show(group: str, target: Target, output: Format) -> None:
    """Show GROUP in full: map, replicas, conditions."""
    cluster = target.open()
    found = cluster.group(group)
    freshness = verdict_freshness(cluster, [found])
    write(found, describe_group(found, freshness), output)
    if output != "text" and not freshness.is_current:
        warn([freshness.explanation])


def describe_group(item: Json, freshness: Freshness = CURRENT) -> str:
    """A group for people: facts, conditions, and the map with the unstable buckets marked.

    ``freshness``: whether the operator's verdict holds.
    """
    status, error = _group_status(item)
    stable = f"{UNKNOWN}: the operator has not reported yet" if status.stable is None else str(status.stable).lower()
    if error or not freshness.is_current:
        stable = f"{UNKNOWN}: {error or freshness.explanation}"
    facts: list[tuple[str, object]] = [
        ("group", f"{item['metadata']['namespace']}/{item['metadata']['name']}"),
        ("id", status.group_id),
        ("stable", stable),
        ("tables", ", ".join(status.tables) or "none"),
        ("map version", status.map_version),
    ]
    lines = [f"{name + ':':<13}{'-' if value is None else value}" for name, value in facts]
    lines += [
        f"{condition.type + ':':<13}{condition.status} {condition.reason} {condition.message}".rstrip()
        for condition in status.conditions
    ]
    problems = {problem.bucket: problem for problem in status.unstable_buckets}
    rows = [
        [bucket, ", ".join(_replica(node, problems.get(bucket)) for node in nodes), _problem(problems.get(bucket))]
        for bucket, nodes in enumerate(status.backends_per_bucket_seq or ())
    ]
    text = "\n".join(lines) + "\n\n" + columns(["BUCKET", "NODES", "STATE"], rows)
    if status.proposal:
        state = "approved" if status.proposal.approved else "awaits approval"
        text += f"\n\nproposal {status.proposal.id} of {status.proposal.made_at}, {state}:\n"
        text += render_moves(status.proposal)
    if status.recycled:
        waiting = [
            [f"{one.namespace}/{one.name}*", one.deleted_at, one.purge_at, one.snapshot.rows if one.snapshot else None]
            for one in status.recycled
        ]
        text += "\n\n" + columns(["RECYCLED", "DROPPED AT", "PURGED AT", "ROWS"], waiting)
    listed, total = len(problems), status.unstable_bucket_count or 0
    if total > listed:
        text += f"\n{counted(total, 'bucket is', 'buckets are')} not stable, {listed} of them shown"
    return text


def _replica(node: str, problem: UnstableBucket | None) -> str:
    """The node, with what is wrong with its replica, if anything is."""
    state = problem.replicas.get(node, "complete") if problem else "complete"
    return node if state == "complete" else f"{node} ({state})"


def _problem(problem: UnstableBucket | None) -> str:
    if problem is None:
        return "stable"
    since = f" (since {problem.since})" if problem.since else ""
    return f"{problem.reason}: {problem.message}{since}" if problem.message else f"{problem.reason}{since}"


@click.command()
@click.argument("group", shell_complete=complete_group)
@cluster_options
@output_option
def events(group: str, target: Target, output: Format) -> None:
    """List the events of GROUP, oldest first."""
    cluster = target.open()
    cluster.group(group)
    found = cluster.events(group)
    rows = [
        [item.get("lastTimestamp") or item.get("eventTime"), item.get("type"), item.get("reason"), item.get("message")]
        for item in found
    ]
    text = columns(["TIME", "TYPE", "REASON", "MESSAGE"], rows)
    write(found, text if rows else f"no events of group {cluster.namespace}/{group}; old ones are gone", output)
