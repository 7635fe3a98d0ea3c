"""``groups``, ``tables``, ``show``, ``events``: what the API server holds, without asking the operator."""

from collections.abc import Iterator
from typing import Any

import click

from ..model.conditions import ConditionType
from ..model.group import ColocationGroupStatus, UnstableBucket
from ..model.members import RecycledTable
from ..model.names import group_reference
from ..model.table import ColocatedTableStatus
from .options import Target, cluster_options, output_option
from .output import Format, columns, size, write


@click.command()
@cluster_options
@output_option
def groups(target: Target, output: Format) -> None:
    """The groups: their schema, whether they are stable, and why not."""
    found = target.open().groups()
    header = ["NAME", "BUCKETS", "REPLICAS", "DISTCOLS", "TABLES", "STABLE", "REASON", "NODES", "CLONES"]
    write(found, columns(header, [_group_row(item) for item in found]), output)


def _group_row(item: dict[str, Any]) -> list[object]:
    # The spec is shown as it stands: one that is refused, or is of a newer version, has to be seen too.
    spec = item["spec"]
    status = ColocationGroupStatus.model_validate(item.get("status") or {})
    clones = status.clones
    active = f"{clones.running} running, {clones.pending} pending" if clones and clones.running + clones.pending else ""
    return [
        item["metadata"]["name"], spec.get("buckets"), spec.get("replicas"), ",".join(spec.get("bucketKey") or ()),
        status.table_count or 0, status.stable, status.reason, len(status.nodes), active,
    ]


@click.command()
@cluster_options
@output_option
def tables(target: Target, output: Format) -> None:
    """The tables: their group, whether it took them, and what is loaded; then why any is refused, moves or waits.

    Dropped ones that can come back have a *.
    """
    cluster = target.open()
    found = cluster.tables()
    rows = [_table_row(item) for item in found]
    if output == "text":
        dropped = recycled_in(cluster.namespace, cluster.groups_everywhere())
        rows += [_recycled_row(group, record) for group, record in dropped]
    key = ["NAME", "GROUP", "ACCEPTED", "BUCKETED BY", "PARTITIONED BY"]
    header = [*key, "SNAPSHOT", "PARTITIONS", "FILES", "ROWS", "SIZE"]
    matters = list(_open_matters(found))
    write(found, "\n".join([columns(header, rows), *([""] if matters else []), *matters]), output)


def _open_matters(tables: list[dict[str, Any]]) -> Iterator[str]:
    """A line in the operator's words for each table that is refused, moves, or waits."""
    for item in tables:
        status = ColocatedTableStatus.model_validate(item.get("status") or {})
        found = {condition.type: condition for condition in status.conditions}
        moving, ready = found.get(ConditionType.RECONCILING), found.get(ConditionType.READY)
        matter = moving or (ready if ready and ready.status == "False" else None)
        if matter:
            yield f"{item['metadata']['name']}: {matter.reason}: {matter.message}"


def recycled_in(namespace: str, groups: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], RecycledTable]]:
    """(group, dropped table) of every dropped table of a namespace, as the groups remember them."""
    for group in groups:
        for record in ColocationGroupStatus.model_validate(group.get("status") or {}).recycled:
            if record.namespace == namespace:
                yield group, record


def _recycled_row(group: dict[str, Any], record: RecycledTable) -> list[object]:
    loaded = record.snapshot
    counts: list[object] = [None] * 5
    if loaded:
        counts = [loaded.id, loaded.partitions, loaded.files, loaded.rows, size(loaded.bytes)]
    metadata = group["metadata"]
    reference = group_reference(record.namespace, (metadata["namespace"], metadata["name"]))
    return [f"{record.name}*", reference, None, None, None, *counts]


def _table_row(item: dict[str, Any]) -> list[object]:
    spec = item["spec"]
    status = ColocatedTableStatus.model_validate(item.get("status") or {})
    loaded = status.snapshot
    counts: list[object] = [None] * 5
    if loaded:
        counts = [loaded.id, loaded.partitions, loaded.files, loaded.rows, size(loaded.bytes)]
    return [
        item["metadata"]["name"], spec.get("colocateWith"), status.accepted, ",".join(spec.get("bucketedBy") or ()),
        ",".join(spec.get("partitionedBy") or ()), *counts,
    ]


@click.command()
@click.argument("group")
@cluster_options
@output_option
def show(group: str, target: Target, output: Format) -> None:
    """One group in full: its map, bucket by bucket, and what is wrong with which."""
    found = target.open().group(group)
    write(found, describe_group(found), output)


def describe_group(item: dict[str, Any]) -> str:
    """A group for people: facts, conditions, and the map with the unstable buckets marked."""
    status = ColocationGroupStatus.model_validate(item.get("status") or {})
    stable = "unknown: the operator has not reported yet" if status.stable is None else str(status.stable).lower()
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
    if status.recycled:
        waiting = [
            [f"{one.namespace}/{one.name}*", one.deleted_at, one.purge_at, one.snapshot.rows if one.snapshot else None]
            for one in status.recycled
        ]
        text += "\n\n" + columns(["RECYCLED", "DROPPED AT", "PURGED AT", "ROWS"], waiting)
    listed, total = len(problems), status.unstable_bucket_count or 0
    return text if total <= listed else f"{text}\n{total} buckets are not stable, {listed} of them are shown"


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
@click.argument("group")
@cluster_options
@output_option
def events(group: str, target: Target, output: Format) -> None:
    """What happened to a group, oldest first."""
    cluster = target.open()
    cluster.group(group)
    found = cluster.events(group)
    rows = [
        [item.get("lastTimestamp") or item.get("eventTime"), item.get("type"), item.get("reason"), item.get("message")]
        for item in found
    ]
    write(found, columns(["TIME", "TYPE", "REASON", "MESSAGE"], rows), output)
