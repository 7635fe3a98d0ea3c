"""The content of the page as JSON, made from the answers of the API server and the operator. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...model.conditions import ConditionType, Reason
from ...model.group import ColocationGroupStatus
from ...model.plan import GroupPlan, Plan
from ...model.reader_rules import CURRENT, Freshness
from ...model.salvage import salvage
from ...model.snapshot import Snapshot
from ...model.table import ColocatedTableStatus
from ...submit.group_view import GroupView, decide
from .matrix import Row, last_replicas, matrix_of, natural_order, node_state
from .queries import NO_QUERIES, SeenQueries, shown_queries

Json = dict[str, Any]
GroupKey = tuple[str, str]
MAX_LISTED_MOVES = 1000
MAX_LISTED_EVENTS = 200


@dataclass(frozen=True)
class Findings:
    """The answers of one round of questions.

    ``snapshot`` and ``plan`` are None where the user may not ask the operator. ``problems``: what could not be read,
    and why. ``freshness``: whether the operator's verdicts hold.
    """

    now: str
    groups: Sequence[Json]
    tables: Sequence[Json]
    events: Sequence[Json]
    snapshot: Snapshot | None = None
    plan: Plan | None = None
    freshness: Freshness = CURRENT
    queries: SeenQueries = NO_QUERIES
    problems: tuple[str, ...] = ()


def overview(findings: Findings) -> Json:
    """Groups, tables, nodes, and what happened last."""
    return {
        "now": findings.now,
        "problems": _problems(findings),
        "groups": [_group(item, findings) for item in findings.groups],
        "tables": [_table(item) for item in findings.tables],
        "nodes": list(_nodes(findings.snapshot)) if findings.snapshot else None,
        "queries": shown_queries(findings.queries.queries, datetime.fromisoformat(findings.now)),
        "queriesGap": findings.queries.gap,
        "events": [_event(item) for item in reversed(findings.events[-MAX_LISTED_EVENTS:])],
    }


def group_page(findings: Findings, key: GroupKey) -> Json | None:
    """One group (namespace, name) with its replicas, moves and clones; None when there is no such group."""
    item = next((one for one in findings.groups if _key(one) == key), None)
    if item is None:
        return None
    status = _status(item)
    planned = findings.plan.find_group(key) if findings.plan else None
    state = findings.snapshot.find_group(key) if findings.snapshot else None
    rows = matrix_of(status, findings.snapshot, state, planned)
    running = list(_clones(findings.snapshot, key))
    moves = list(_moves(planned, {(clone["bucket"], clone["to"]) for clone in running}))
    return {
        **_group(item, findings),
        "now": findings.now,
        "conditions": [one.to_json_dict() for one in status.conditions],
        "mapVersion": status.map_version,
        "tableNames": list(status.tables),
        "rows": [_row(one) for one in rows],
        "moves": moves[:MAX_LISTED_MOVES],
        "moveCount": len(moves),
        "moveBytes": sum(move["bytes"] for move in moves),
        "blocked": [one.to_json_dict() for one in planned.blocked[:MAX_LISTED_MOVES]] if planned else [],
        "running": running,
        "isPlanKnown": planned is not None,
    }


def _problems(findings: Findings) -> list[str]:
    stale = [] if findings.freshness.is_current else [findings.freshness.explanation]
    unread = [f"{'/'.join(_key(item))}: {error}" for item in findings.groups if (error := _salvaged(item)[1])]
    return [*stale, *findings.problems, *unread]


def _key(item: Json) -> GroupKey:
    return str(item["metadata"]["namespace"]), str(item["metadata"]["name"])


def _salvaged(item: Json) -> tuple[ColocationGroupStatus, str]:
    return salvage(ColocationGroupStatus, item.get("status"))


def _status(item: Json) -> ColocationGroupStatus:
    return _salvaged(item)[0]


def _joins(item: Json, findings: Findings) -> Json:
    """Whether a join of the group's tables that starts now shuffles, by the rule of ``submit``, and why.

    Where the operator cannot be asked which agents are ready, its last report on each replica counts.
    """
    status = _status(item)
    mapped = {node for row in status.backends_per_bucket_seq or () for node in row}
    ready = {node.name for node in findings.snapshot.nodes if node.ready} if findings.snapshot else mapped
    group = GroupView.from_status(
        _key(item), status, "", None, freshness=findings.freshness, spec=item.get("spec") or {}, ready=ready
    )
    decision = decide(group, {})
    return {"shuffle": not decision.colocated, "why": decision.reason or decision.note}


def _group(item: Json, findings: Findings) -> Json:
    """A row of the list of groups; a verdict that does not hold any more is unknown."""
    spec, status, freshness = item.get("spec") or {}, _status(item), findings.freshness
    conditions = {one.type: one for one in status.conditions}
    stable, stalled = conditions.get(ConditionType.STABLE), conditions.get(ConditionType.STALLED)
    reconciling = conditions.get(ConditionType.RECONCILING)
    known = freshness.is_current
    return {
        "namespace": item["metadata"]["namespace"],
        "name": item["metadata"]["name"],
        "stable": status.stable if known else None,
        "reason": status.reason if known else str(Reason.OPERATOR_SILENT),
        "message": (stable.message if stable else "") if known else freshness.message,
        "since": stable.last_transition_time if stable else None,
        "joins": _joins(item, findings),
        "stalled": f"{stalled.reason}: {stalled.message}" if stalled and stalled.status == "True" else "",
        "doing": f"{reconciling.reason}: {reconciling.message}" if reconciling else "",
        "tables": status.table_count or 0,
        "buckets": spec.get("buckets"),
        "replicas": spec.get("replicas"),
        "bucketKey": ", ".join(map(str, spec.get("bucketKey") or ())),
        "clones": status.clones.model_dump(mode="json", by_alias=True, exclude={"counted"}) if status.clones else None,
        "proposal": status.proposal.to_json_dict() if status.proposal else None,
    }


def _table(item: Json) -> Json:
    status, error = salvage(ColocatedTableStatus, item.get("status"))
    ready = next((one for one in status.conditions if one.type == ConditionType.READY), None)
    snapshots = [*([status.snapshot] if status.snapshot else []), *status.history]
    return {
        "namespace": item["metadata"]["namespace"],
        "name": item["metadata"]["name"],
        "group": (item.get("spec") or {}).get("colocateWith") or "",
        "accepted": status.accepted,
        "matter": error or (f"{ready.reason}: {ready.message}" if ready and ready.status != "True" else ""),
        "snapshots": [one.model_dump(mode="json", by_alias=True, exclude={"manifest"}) for one in snapshots],
    }


def _nodes(snapshot: Snapshot) -> Iterator[Json]:
    places = Counter(node for group in snapshot.groups for row in group.map or () for node in row)
    last = last_replicas(snapshot)
    for node in sorted(snapshot.nodes, key=lambda one: natural_order(one.name)):
        state, reason, since = node_state(node)
        yield {
            "name": node.name,
            "state": state,
            "reason": reason,
            "since": since,
            "zone": node.zone,
            "weight": node.weight,
            "replicas": places[node.name],
            "lastReplicas": last[node.name],
            "capacityBytes": node.capacity_bytes,
            "freeBytes": node.free_bytes,
            "disk": node.disk_id,
        }


def _moves(planned: GroupPlan | None, running: Set[tuple[int, str]]) -> Iterator[Json]:
    """The moves of the plan, those that await approval, too. ``running``: (bucket, to) of copies."""
    if planned is None:
        return
    starting = frozenset(planned.start_now)
    for number, move in enumerate(planned.moves):
        start = "under way" if (move.bucket, move.to) in running else "now" if number in starting else "later"
        yield {**move.to_json_dict(), "start": start}
    if planned.proposal and not planned.proposal.approved:
        reason = planned.proposal.reason
        for proposed in planned.proposal.moves:
            yield {**proposed.to_json_dict(), "kind": "balance", "reason": reason, "start": "once approved"}


def _clones(snapshot: Snapshot | None, key: GroupKey) -> Iterator[Json]:
    if snapshot is None:
        return
    group = snapshot.find_group(key)
    sizes = group.bucket_bytes if group else ()
    for clone in snapshot.clones:
        if (clone.namespace, clone.group) == key:
            total = sizes[clone.bucket] if clone.bucket < len(sizes) else clone.bytes_total
            yield {**clone.to_json_dict(), "bytesTotal": total}


def _row(row: Row) -> Json:
    cells = [[one.bucket, one.state, one.reason, one.since, one.percent] for one in row.cells]
    return {"node": row.node, "state": row.state, "cells": cells}


def _event(item: Json) -> Json:
    subject = item.get("involvedObject") or {}
    return {
        "time": item.get("lastTimestamp") or item.get("eventTime"),
        "type": item.get("type"),
        "reason": item.get("reason"),
        "message": item.get("message"),
        "namespace": subject.get("namespace"),
        "group": subject.get("name"),
    }
