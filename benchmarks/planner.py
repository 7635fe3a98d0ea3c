"""Times the planner and measures its plans: `make bench-planner`, or `python benchmarks/planner.py [--quick]`.

For each size all groups are placed; then plans are made for a quiet pass, one node lost, one added, ten lost at once.
Writes build/bench/planner.json: the largest size's numbers, with those of all sizes under ``sizes``.

- ``*_seconds``: processor time of `plan` over all groups (one thread, no I/O), the best of three, each with nothing
  remembered from passes before; ``quiet_pass_seconds`` too.
- ``moves_over_optimum``: moves over the least possible, for groups planned alone after a node was added or lost. The
  least possible is computed here, by exact fractions: what nodes hold beyond their whole shares; what was lost.
- ``max_minus_min_weighted``: the worst group's replicas per weight, most minus least, after the node was added; where
  weights differ, whole replicas cannot come nearer than one replica per node (see ``beyond_one_replica``).
- ``beyond_one_replica``: nodes that hold one replica or more besides their exact share in any group, after that.
- ``load_spread``: over all groups, the greatest load over the least, per weight, after that.
"""

import argparse
import json
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from fractions import Fraction
from itertools import chain
from pathlib import Path
from random import Random

from colocation.model.agent import ReplicaState
from colocation.model.group import BucketSequence, ColocationGroupSpec
from colocation.model.plan import Plan
from colocation.model.snapshot import GroupState, Node, Snapshot
from colocation.planner import plan
from colocation.planner.balance import last_even_map
from colocation.planner.evenness.shares import remembered_shares

NOW = datetime(2026, 11, 21, tzinfo=UTC)
GIB = 1 << 30
SIZES = ((10, 100, 16, 3), (10, 1000, 128, 3), (100, 1000, 128, 3), (1000, 1000, 128, 3))
"""Nodes, groups, buckets, replicas."""
REPEATS = 3
GROUPS_PLANNED_ALONE = 3
TEN = 10
OUTPUT = Path("build/bench/planner.json")


def cluster_nodes(numbers: Iterable[int]) -> tuple[Node, ...]:
    """Every third node has double weight."""
    return tuple(
        Node(
            name=f"node-{number:04d}",
            weight=2 if number % 3 == 2 else 1,
            capacity_bytes=100_000 * GIB,
            free_bytes=90_000 * GIB,
        )
        for number in numbers
    )


def placed(nodes: tuple[Node, ...], groups: int, buckets: int, replicas: int) -> Snapshot:
    """Groups with the maps that the planner gives them, all replicas complete, buckets of unequal sizes."""
    random = Random(groups)
    spec = ColocationGroupSpec(bucket_key=("bigint",), buckets=buckets, replicas=replicas)
    empty = tuple(GroupState(namespace="bench", name=f"group-{number}", spec=spec) for number in range(groups))
    planned = plan(Snapshot(now=NOW, nodes=nodes, groups=empty))
    full = []
    for group, first in zip(empty, planned.groups, strict=True):
        sizes = tuple(random.randrange(GIB // 2, 2 * GIB) for _ in range(buckets))
        complete = held(first.next_map)
        full.append(group.model_copy(update={"map": first.next_map, "bucket_bytes": sizes, "held": complete}))
    return Snapshot(now=NOW, nodes=nodes, groups=tuple(full))


def held(bucket_map: BucketSequence | None) -> dict[str, dict[int, ReplicaState]]:
    """Everything complete."""
    found: dict[str, dict[int, ReplicaState]] = {}
    for bucket, nodes in enumerate(bucket_map or ()):
        for node in nodes:
            found.setdefault(node, {})[bucket] = "complete"
    return found


def timed(work: Callable[[], Plan]) -> tuple[float, Plan]:
    """Processor seconds of the fastest of some repeats, and what it gave."""
    best = float("inf")
    for _ in range(REPEATS):
        last_even_map.cache_clear()
        remembered_shares.cache_clear()
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return round(best, 4), result


def shares(nodes: Iterable[Node], total: int) -> dict[str, Fraction]:
    """Exact shares by weight. No node of the benchmark is so heavy that its share exceeds the buckets."""
    weights = {node.name: Fraction(node.weight) for node in nodes}
    whole = sum(weights.values())
    return {name: total * weight / whole for name, weight in weights.items()}


def fewest_moves(nodes: tuple[Node, ...], bucket_map: BucketSequence) -> int:
    """Replicas on other nodes, and on these nodes beyond their whole shares by the largest remainder."""
    exact = shares(nodes, sum(map(len, bucket_map)))
    counts = Counter(chain.from_iterable(bucket_map))
    whole = {name: int(share) for name, share in exact.items()}
    one_more = sum(map(len, bucket_map)) - sum(whole.values())
    # Those with the greatest remainders get one more; among equal ones those that hold one more already.
    order = sorted(exact, key=lambda name: (whole[name] - exact[name], counts[name] <= whole[name]))
    for name in order[:one_more]:
        whole[name] += 1
    return sum(max(0, count - whole.get(name, 0)) for name, count in counts.items())


def moves_over_optimum(snapshot: Snapshot, more: tuple[Node, ...], fewer: tuple[Node, ...]) -> float:
    """For the first groups, planned alone; 1 when there is nothing to move."""
    moves = optimum = 0
    for group in snapshot.groups[:GROUPS_PLANNED_ALONE]:
        for nodes in (more, fewer):
            alone = snapshot.model_copy(update={"nodes": nodes, "groups": (group,)})
            moves += len(plan(alone).groups[0].moves)
        names, bucket_map = {node.name for node in fewer}, group.map or ()
        lost = sum(node not in names for node in chain.from_iterable(bucket_map))
        # Repairs come alone; a group that lost nothing may have to be evened out.
        optimum += fewest_moves(more, bucket_map) + (lost or fewest_moves(fewer, bucket_map))
    return moves / optimum if optimum else 1.0


def replicas_of_a_group(planned: Plan) -> int:
    """All groups of the benchmark are of one size."""
    return sum(map(len, planned.groups[0].target_map or ()))


def evenness(nodes: tuple[Node, ...], planned: Plan) -> dict[str, float]:
    """How even the target maps are."""
    totals: Counter[str] = Counter()
    beyond = 0
    exact = {name: float(share) for name, share in shares(nodes, replicas_of_a_group(planned)).items()}
    for group in planned.groups:
        counts = Counter(chain.from_iterable(group.target_map or ()))
        totals.update(counts)
        beyond += sum(abs(counts[name] - share) >= 1 for name, share in exact.items())
    loads = [totals[node.name] / node.weight for node in nodes]
    worst = max(group.evenness.after for group in planned.groups if group.evenness)
    return {
        "max_minus_min_weighted": round(worst, 3),
        "beyond_one_replica": beyond,
        "load_spread": round(max(loads) / min(loads), 3) if min(loads) else float("inf"),
    }


def measure(size: tuple[int, int, int, int]) -> dict[str, float | None]:
    nodes, groups, buckets, replicas = size
    all_nodes = cluster_nodes(range(nodes + 1))
    before, more, fewer = all_nodes[:-1], all_nodes, all_nodes[1:-1]
    snapshot = placed(before, groups, buckets, replicas)

    def timed_with(some: tuple[Node, ...]) -> tuple[float, Plan]:
        return timed(lambda: plan(snapshot.model_copy(update={"nodes": some})))

    quiet_seconds, quiet = timed_with(before)
    assert not any(group.moves for group in quiet.groups), "a placed cluster is not quiet"
    lost_seconds, _ = timed_with(fewer)
    added_seconds, added = timed_with(more)
    ten_seconds = timed_with(all_nodes[TEN:-1])[0] if nodes >= TEN + replicas else None
    return {
        "nodes": nodes,
        "groups": groups,
        "buckets": buckets,
        "replicas": replicas,
        "quiet_pass_seconds": quiet_seconds,
        "node_lost_seconds": lost_seconds,
        "node_added_seconds": added_seconds,
        "ten_lost_seconds": ten_seconds,
        "moves_over_optimum": moves_over_optimum(snapshot, more, fewer),
        **evenness(more, added),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smallest size only")
    sizes = SIZES[:1] if parser.parse_args().quick else SIZES
    measured = []
    for size in sizes:
        measured.append(measure(size))
        print(json.dumps(measured[-1]), flush=True)
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(measured[-1] | {"sizes": measured}, indent=2) + "\n")
    print(f"written to {OUTPUT}")


if __name__ == "__main__":
    main()
