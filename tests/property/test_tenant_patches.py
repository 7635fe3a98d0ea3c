"""Property: whatever a tenant writes into one table's status, the decision about everything else stays the same.

Tenants load tables, so they may write their status. The patches here look valid: what does not parse is a
``status_error`` before a decision sees it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.model.agent import TableReport
from colocation.model.conditions import Condition
from colocation.model.plan import GroupPlan
from colocation.model.table import ColocatedTableStatus, Column, TableSnapshot
from colocation.reconcile.actions import CollectGarbage, DropBucket, StartClone, WriteConfigMap, WriteGroupStatus
from colocation.reconcile.decide import Decision
from colocation.state.objects import ObservedGroup, ObservedTable
from colocation.state.observation import Observation
from tests.unit.reconcile.scenes import (
    NODES,
    actions_of,
    agent_view,
    decided,
    held_by,
    observe,
    settled_group,
    settled_table,
)
from tests.unit.state.objects import MANIFEST, NOW, seconds, table_report

from .worlds import examples

VICTIMS = ("lines", "parts")
TABLES = {name: settled_table(name) for name in ("orders", *VICTIMS)}
ORDERS = TABLES["orders"]
FOREIGN = ("c" * 64, "d" * 64)
TIMES = st.sampled_from(["1970-01-01T00:00:00Z", "2026-11-21T11:59:00Z", "2999-12-31T23:59:59+14:00"])
NUMBERS = st.sampled_from([0, 1, 7, 2**31, 2**53 - 1])
MANIFESTS = st.sampled_from([*FOREIGN, MANIFEST]).map(lambda digits: f"sha256:{digits}")


SNAPSHOTS = st.fixed_dictionaries(
    {"manifest": MANIFESTS, "committed_at": TIMES}
    | dict.fromkeys(("id", "partitions", "files", "rows", "bytes"), NUMBERS)
).map(TableSnapshot.model_validate)
PATCHES = st.fixed_dictionaries(
    {},
    optional={
        "observed_generation": st.none() | NUMBERS,
        "accepted": st.none() | st.booleans(),
        "group": st.sampled_from([None, "", "sales", "stock", "bank/vault", "no-such-group"]),
        "group_id": st.none() | st.just("12345678.9"),
        "buckets": st.none() | st.integers(1, 65536),
        "replicas": st.none() | st.integers(1, 7),
        "columns": st.just(()) | st.just((Column(name="k", type="string"),)),
        "snapshot": st.none() | SNAPSHOTS,
        "history": st.lists(SNAPSHOTS, max_size=3).map(tuple),
        "conditions": st.just(()) | st.just((Condition(type="Accepted", status="False", reason="Forged"),)),
    },
)
HEARD = st.sets(st.sampled_from(NODES))
"""Nodes that have been asked about what the patched status names, a second after the patch."""
AGES = st.sampled_from([1, 3600])
"""Seconds since the patch; after an hour all nodes have been asked."""
SURPLUS = {0: "complete", 1: "complete"}
AWAY = st.sampled_from([None, *NODES])


def cluster(status: ColocatedTableStatus, heard: set[str], away: str | None, age_seconds: int = 3600) -> Observation:
    """Three loaded tables in ``sales`` next to a group ``stock``; ``orders`` has this status, and its files lie there.

    Node 3 holds a replica too many of all of them, which is to go.
    """
    orders = replace(ORDERS, status=status)
    tables = (orders, *(TABLES[name] for name in VICTIMS))
    sales = settled_group(TABLES.values())
    views = {}
    for name in NODES:
        asked = tables if name in heard else tuple(TABLES.values())
        reports = [_reported(name, orders, name in heard), *(_held(name, TABLES[victim]) for victim in VICTIMS)]
        views[name] = agent_view(sales, asked, reports)
        if name == away:
            views[name] = replace(views[name], silent_since=NOW - seconds(3600))
    seen = {ORDERS.identity.uid: NOW - seconds(age_seconds)} if age_seconds < 60 else {}
    observation = observe(sales, tables, views, snapshots_seen_at=seen)
    sizes = {**observation.bucket_bytes, ("shop", ORDERS.directory, MANIFEST): {0: 50, 1: 50}}
    return replace(observation, groups=(sales, stock()), bucket_bytes=sizes)


def _held(node: str, of: ObservedTable) -> TableReport:
    return table_report(of, SURPLUS) if node == "node-3" else held_by(node, of)


def _reported(node: str, orders: ObservedTable, heard: bool) -> TableReport:
    """What the node's agent reports of the table when it is asked about what the status names."""
    wanted = orders.reference.manifest
    if not heard or wanted == MANIFEST:
        return _held(node, ORDERS)
    return replace(table_report(ORDERS, {}, wanted), manifest_present=False, surplus_bytes=100)


def stock() -> ObservedGroup:
    made = settled_group(())
    return replace(made, identity=replace(made.identity, name="stock", uid="feedbeef-group"))


def verdict(plan: GroupPlan) -> tuple[object, ...]:
    unstable = tuple((one.bucket, one.reason) for one in plan.unstable_buckets)
    return plan.stable, plan.reason, plan.message, unstable


AT_ONCE = ("verdict", "plan of the other group", "collected", "tables", "errors")
"""What does not even wait while the agents have not answered about the patch; moves and deletions of its group may."""


def about_others(decision: Decision) -> dict[str, Any]:
    """All that is decided, but for what is about the patched table."""
    folder = ORDERS.directory
    sales, other = decision.plan.groups
    return {
        "verdict": verdict(sales),
        "next map": sales.next_map,
        "moves": [(one.bucket, one.source, one.to, one.kind) for one in sales.moves],
        "plan of the other group": other,
        "group status": [_masked(one.status) for one in actions_of(decision, WriteGroupStatus)],
        "clones": [_without_table(one) for one in actions_of(decision, StartClone)],
        "drops": [
            (one.node, one.bucket, tables)
            for one in actions_of(decision, DropBucket)
            if (tables := [table for table in one.tables if table.directory != folder])
        ],
        "collected": [one for one in actions_of(decision, CollectGarbage) if one.directory != folder],
        "tables": [scope for scope in decision.scopes if scope.name in {f"table shop/{name}" for name in VICTIMS}],
        "config maps": [one.content for one in actions_of(decision, WriteConfigMap)],
        "errors": decision.errors,
    }


def _masked(status: Mapping[str, object]) -> dict[str, object]:
    """Without what the group remembers of the table."""
    left = {key: value for key, value in status.items() if key not in {"members", "conditions", "clones"}}
    members = [one for one in status["members"] if one["name"] != "orders"]  # type: ignore[attr-defined, index]
    conditions = [(one["type"], one["status"], one["reason"]) for one in status["conditions"]]  # type: ignore[attr-defined, index]
    return {**left, "members": members, "conditions": conditions}


def _without_table(clone: StartClone) -> tuple[object, ...]:
    tables = [table for table in clone.spec.tables if table.directory != ORDERS.directory]
    return clone.name, clone.source, tables, clone.spec.sources


@settings(max_examples=examples(400), deadline=None)
@given(patch=PATCHES, heard=HEARD, away=AWAY, age_seconds=AGES)
def test_patch_of_one_tables_status_changes_nothing_else(
    patch: dict[str, object], heard: set[str], away: str | None, age_seconds: int
) -> None:
    """Neither another table, nor another group, nor the verdict of its own; nothing of anybody is deleted for it."""
    before = about_others(decided(cluster(ORDERS.status, set(NODES), away)))
    asked = heard if age_seconds < 60 else set(NODES)
    after = about_others(decided(cluster(ORDERS.status.model_copy(update=patch), asked, away, age_seconds)))
    if age_seconds < 60:
        assert after["drops"] in ([], before["drops"]), "deletions wait for the agents' word"
        after, before = ({key: found[key] for key in AT_ONCE} for found in (after, before))
    assert after == before


def test_scene_deletes_something() -> None:
    """Else the property proves little."""
    assert actions_of(decided(cluster(ORDERS.status, set(NODES), None)), DropBucket)
