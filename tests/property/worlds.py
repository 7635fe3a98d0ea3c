"""Random clusters and groups, and a world in which plans are carried out step by step."""

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random

from hypothesis import strategies as st

from colocation.model.agent import ReplicaState
from colocation.model.group import BucketSequence, ColocationGroupSpec
from colocation.model.plan import Plan
from colocation.model.snapshot import Clone, FailingTarget, GroupState, Limits, Node, Snapshot
from colocation.planner import plan
from colocation.planner.invariants import violations

NOW = datetime(2026, 11, 21, tzinfo=UTC)
GIB = 1 << 30


def examples(count: int) -> int:
    """How many examples a property gets: all of them with DEEP=1, otherwise a third."""
    return count if os.environ.get("DEEP") else count // 3


def make_node(name: str, **fields: object) -> Node:
    """A ready node with a disk of 1 TiB, 90 % free."""
    defaults: dict[str, object] = {"name": name, "capacity_bytes": 1024 * GIB, "free_bytes": 922 * GIB}
    return Node.model_validate(defaults | fields)


def make_group(
    buckets: int = 8, replicas: int = 3, bucket_map: BucketSequence | None = None, **fields: object
) -> GroupState:
    """A group of 1 GiB per bucket whose mapped replicas are all complete."""
    spec = ColocationGroupSpec.model_validate(
        {"bucketKey": ["bigint"], "buckets": buckets, "replicas": replicas} | fields.pop("spec", {})  # type: ignore[operator]
    )
    held: dict[str, dict[int, ReplicaState]] = {}
    for bucket, nodes in enumerate(bucket_map or ()):
        for node in nodes:
            held.setdefault(node, {})[bucket] = "complete"
    defaults: dict[str, object] = {"namespace": "shop", "name": "sales", "spec": spec, "map": bucket_map, "held": held}
    defaults["bucket_bytes"] = (GIB,) * buckets if bucket_map else ()
    return GroupState.model_validate(defaults | fields)


def make_snapshot(nodes: list[Node], *groups: GroupState, **fields: object) -> Snapshot:
    return Snapshot.model_validate({"now": NOW, "nodes": tuple(nodes), "groups": groups} | fields)


WEIGHTS = st.sampled_from([1.0, 1.0, 1.0, 2.0, 3.0, 0.5])


@st.composite
def node_lists(draw: st.DrawFn, least: int = 1, most: int = 9, zones: bool = False) -> list[Node]:
    """Ready nodes of few different weights, in up to four zones when asked for."""
    number = draw(st.integers(least, most))
    names = [f"node-{index}" for index in range(number)]
    zone = st.sampled_from("abcd") if zones else st.none()
    even = draw(st.booleans())
    return [make_node(name, weight=1.0 if even else draw(WEIGHTS), zone=draw(zone)) for name in names]


@st.composite
def maps(draw: st.DrawFn, names: list[str], buckets: int, replicas: int) -> BucketSequence:
    """Any map at all: distinct nodes per bucket, as uneven as it may be."""
    orders = [draw(st.permutations(names)) for _ in range(buckets)]
    return tuple(tuple(order[:replicas]) for order in orders)


@st.composite
def placed_groups(draw: st.DrawFn, names: list[str], most_buckets: int = 10, **fields: object) -> GroupState:
    """A group with any map over the nodes, complete everywhere, buckets of different sizes."""
    replicas = draw(st.integers(1, min(4, len(names))))
    buckets = draw(st.integers(1, most_buckets))
    sizes = draw(st.lists(st.integers(1, 5), min_size=buckets, max_size=buckets))
    bucket_map = draw(maps(names, buckets, replicas))
    return make_group(buckets, replicas, bucket_map, bucket_bytes=tuple(size * GIB for size in sizes), **fields)


FAILURES_OF_A_FAILING_TARGET = 3


class World:
    """What a cluster would be if it did exactly what plans say; `step` asserts the safety invariants each time.

    Clones to ``sick`` nodes always fail; a group on whose clones a node failed three times names it as failing, for
    a time that doubles. ``failures`` counts by group and node, until one succeeds; ``started`` counts clones.
    """

    def __init__(self, snapshot: Snapshot, random: Random, sick: frozenset[str] = frozenset()) -> None:
        self.snapshot = snapshot
        self.random = random
        self.sick = sick
        self.failures: Counter[tuple[str, str, str]] = Counter()
        self.started = 0

    def update(self, **fields: object) -> None:
        self.snapshot = self.snapshot.model_copy(update=fields)

    def step(self) -> Plan:
        """Plan once, carry the plan out, and let some of the running clones end."""
        decided = plan(self.snapshot)
        assert violations(self.snapshot, decided) == ()
        self._carry_out(decided)
        self._end_clones()
        self.update(now=self.snapshot.now + timedelta(seconds=30))
        return decided

    def settle(self, most_steps: int = 400) -> Plan:
        """Step until there is nothing more to do; fails when that does not come to an end."""
        for number in count():
            at_rest = not self.snapshot.clones
            decided = self.step()
            if at_rest and not any(is_active(group) for group in decided.groups):
                return decided
            assert number < most_steps, f"still busy after {most_steps} steps: {decided}"
        raise AssertionError("unreachable")

    def lose(self, name: str) -> None:
        """The node and all that it holds are gone."""
        self.update(nodes=tuple(node for node in self.snapshot.nodes if node.name != name))
        groups = tuple(self._without(group, name) for group in self.snapshot.groups)
        self.update(groups=groups, clones=tuple(clone for clone in self.snapshot.clones if clone.to != name))

    @staticmethod
    def _without(group: GroupState, name: str) -> GroupState:
        held = {node: states for node, states in group.held.items() if node != name}
        return group.model_copy(update={"held": held})

    def _carry_out(self, decided: Plan) -> None:
        clones = list(self.snapshot.clones)
        groups = []
        for group, planned in zip(self.snapshot.groups, decided.groups, strict=True):
            held = {node: dict(states) for node, states in group.held.items()}
            for drop in planned.drops:
                del held[drop.node][drop.bucket]
            cancelled = [self.snapshot.clones[index] for index in planned.cancel]
            clones = [clone for clone in clones if clone not in cancelled]
            for index in planned.start_now:
                move = planned.moves[index]
                clone = Clone(
                    namespace=group.namespace,
                    group=group.name,
                    bucket=move.bucket,
                    source=move.source,
                    to=move.to,
                    since=self.snapshot.now,
                )
                again = [one for one in clones if _target(one) == _target(clone)]
                clones = [one for one in clones if one not in again]
                clones.append(clone.model_copy(update={"failures": again[0].failures if again else 0}))
                self.started += 1
            following = planned.next_map if planned.next_map is not None else group.map
            groups.append(group.model_copy(update={"map": following, "held": held, "proposal": planned.proposal}))
        self.update(groups=tuple(groups), clones=tuple(clones))

    def _end_clones(self) -> None:
        running = [clone for clone in self.snapshot.clones if clone.retry_at is None]
        ended = [clone for clone in running if self.random.random() < 0.6]
        groups = {(group.namespace, group.name): group for group in self.snapshot.groups}
        clones = [clone for clone in self.snapshot.clones if clone not in ended]
        for clone in ended:
            group = groups[clone.namespace, clone.group]
            if clone.to in self.sick:
                clones.append(self._failed(clone))
            else:
                states = group.held.get(clone.to, {}) | {clone.bucket: "complete"}
                group = group.model_copy(update={"held": group.held | {clone.to: states}})
                self.failures.pop((clone.namespace, clone.group, clone.to), None)
            failing = self._failing_targets(group, clone.to)
            groups[clone.namespace, clone.group] = group.model_copy(update={"failing_targets": failing})
        self.update(groups=tuple(groups.values()), clones=tuple(clones))

    def _failed(self, clone: Clone) -> Clone:
        self.failures[clone.namespace, clone.group, clone.to] += 1
        again = {"failures": clone.failures + 1, "retry_at": self.snapshot.now + timedelta(seconds=30)}
        return clone.model_copy(update=again)

    def _failing_targets(self, group: GroupState, node: str) -> dict[str, FailingTarget]:
        """Those of the group after a clone to the node has ended."""
        failing = {name: target for name, target in group.failing_targets.items() if name != node}
        failures = self.failures[group.namespace, group.name, node]
        if failures >= FAILURES_OF_A_FAILING_TARGET:
            seconds = 60 * 2 ** (failures - FAILURES_OF_A_FAILING_TARGET)
            retry_at = self.snapshot.now + timedelta(seconds=seconds)
            failing[node] = FailingTarget(failures=failures, retry_at=retry_at, cause="the disk does not write")
        return failing


def _target(clone: Clone) -> tuple[str, str, int, str]:
    return clone.namespace, clone.group, clone.bucket, clone.to


def is_active(group: object) -> bool:
    """Whether a group's plan does anything now."""
    return bool(group.next_map or group.start_now or group.drops or group.cancel)  # type: ignore[attr-defined]


def carried_out(snapshot: Snapshot, decided: Plan) -> Snapshot:
    """The snapshot after all of the plan: the target map, complete everywhere, nothing else held."""
    groups = []
    for group, planned in zip(snapshot.groups, decided.groups, strict=True):
        held: dict[str, dict[int, ReplicaState]] = {}
        for bucket, nodes in enumerate(planned.target_map or ()):
            for node in nodes:
                held.setdefault(node, {})[bucket] = "complete"
        groups.append(group.model_copy(update={"map": planned.target_map, "held": held}))
    return snapshot.model_copy(update={"groups": tuple(groups), "clones": ()})


def with_limits(snapshot: Snapshot, **fields: object) -> Snapshot:
    return snapshot.model_copy(update={"limits": Limits.model_validate(fields)})
