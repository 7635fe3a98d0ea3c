"""`colocation plan --snapshot` on snapshots as they are in the field: incomplete, of another version, half broken."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from colocation.model.plan import Expectation, GroupPlan, NodeLoad
from colocation.model.snapshot import Clone, GroupState, Limits, Node, Snapshot

from ..conftest import Run

REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "plans.md"

NOW = "2026-11-21T00:00:00Z"
BUCKETS = 6
TB = 10**12


def node(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "ready": True, "capacityBytes": TB, "freeBytes": TB // 2, **fields}


def held(*rows: list[str]) -> dict[str, dict[str, str]]:
    """Every replica of the map complete."""
    found: dict[str, dict[str, str]] = {}
    for bucket, row in enumerate(rows):
        for name in row:
            found.setdefault(name, {})[str(bucket)] = "complete"
    return found


ROWS = [["node-1", "node-2"], ["node-2", "node-3"], ["node-3", "node-1"]] * 2


def group(name: str = "sales", rows: list[list[str]] | None = ROWS, spec: Any = None, **fields: Any) -> dict[str, Any]:
    """6 buckets x 2 replicas on node-1 to node-3, 100 bytes each, complete."""
    whole = {"bucketKey": ["bigint"], "buckets": BUCKETS, "replicas": 2, **(spec or {})}
    state = {"map": rows, "bucketBytes": [100] * BUCKETS, "held": held(*rows or [])}
    return {"namespace": "shop", "name": name, "spec": whole, **state, **fields}


THREE = [node("node-1"), node("node-2"), node("node-3")]
FOUR = [*THREE, node("node-4")]


def planned(run: Run, nodes: list[dict[str, Any]], *groups: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """The groups of the plan; every plan leads from the map to the target, by moves that it names."""
    snapshot = {"now": NOW, "nodes": nodes, "groups": list(groups), **fields}
    done = run("plan", "--snapshot", "-", "-o", "json", stdin=json.dumps(snapshot))
    assert done.exit_code == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["groups"]
    for before, after in zip(groups, found, strict=True):
        if after["targetMap"] is not None:
            assert applied(before["map"], after["moves"]) == [sorted(row) for row in after["targetMap"]]
    return found


def applied(rows: list[list[str]] | None, moves: list[dict[str, Any]]) -> list[list[str]]:
    result = [set(row) for row in rows or [[]] * BUCKETS]
    for move in moves:
        result[move["bucket"]] = (result[move["bucket"]] - {move["from"]}) | {move["to"]}
    return [sorted(row) for row in result]


def words(problems: list[dict[str, Any]]) -> set[str]:
    return {problem["reason"] for problem in problems}


def counts(rows: list[list[str]]) -> dict[str, int]:
    names = [name for row in rows for name in row]
    return {name: names.count(name) for name in sorted(set(names))}


def test_a_new_group_is_placed_with_one_move_per_replica(run: Run) -> None:
    """map null, and nothing said of files: 12 replicas to place, four on each node."""
    new = group(rows=None)
    for optional in ("bucketBytes", "held"):
        del new[optional]
    (plan,) = planned(run, THREE, new)
    assert counts(plan["targetMap"]) == {"node-1": 4, "node-2": 4, "node-3": 4}
    assert [(move["kind"], move["from"], move["bytes"]) for move in plan["moves"]] == [("place", None, 0)] * 12


def test_only_what_has_no_default_is_required(run: Run) -> None:
    """A node is a name; a group a name, a namespace and the schema."""
    bare = {"namespace": "shop", "name": "sales", "spec": {"bucketKey": ["bigint"], "buckets": 1, "replicas": 1}}
    done = run("plan", "--snapshot", "-", "-o", "json", stdin=json.dumps({"now": NOW, "nodes": [{"name": "n"}],
                                                                          "groups": [bare]}))  # fmt: skip
    assert json.loads(done.stdout)["groups"][0]["targetMap"] == [["n"]]


def test_unknown_fields_are_named_and_left_out(run: Run) -> None:
    """A snapshot of a newer version is planned; what this one does not know is said."""
    snapshot = {"now": NOW, "nodes": [node("node-1", rack=7)], "groups": [group(spec={"tiers": ["ssd"]})], "extra": {}}
    done = run("plan", "--snapshot", "-", "-o", "json", stdin=json.dumps(snapshot))
    assert done.exit_code == 0
    for field in ("nodes[0].rack", "groups[0].spec.tiers", "extra"):
        assert f"warning: the unknown field {field} is left out" in done.stderr


def test_times_without_a_zone_are_utc(run: Run) -> None:
    """Down for 40 minutes, longer than the tolerance of 30: the node's replicas are repaired."""
    down = node("node-3", ready=False, notReadySince="2026-11-20T23:20:00")
    (plan,) = planned(run, [*THREE[:2], down, node("node-4")], group(), now="2026-11-21T00:00:00")
    assert {(move["from"], move["to"], move["kind"]) for move in plan["moves"]} == {("node-3", "node-4", "repair")}


def test_a_node_within_its_tolerance_keeps_what_it_has(run: Run) -> None:
    """Not stable, and nothing moves."""
    down = node("node-3", ready=False, notReadySince="2026-11-20T23:50:00Z")
    (plan,) = planned(run, [*THREE[:2], down, node("node-4")], group())
    assert not plan["stable"]
    assert plan["reason"] == "NodeNotReady"
    assert plan["moves"] == []
    assert words(plan["blocked"]) == {"WithinDownTolerance"}


def test_nodes_that_are_gone_are_repaired_from_the_others(run: Run) -> None:
    """A node that only the map and held name is gone for good."""
    (plan,) = planned(run, [*THREE[:2], node("node-4")], group())
    assert len(plan["moves"]) == 4
    assert {(move["from"], move["to"], move["kind"], move["reason"]) for move in plan["moves"]} == {
        ("node-3", "node-4", "repair", "NodeGone")
    }


@pytest.mark.parametrize(
    ("state", "reason"), [("partial", "ReplicaIncomplete"), ("corrupt", "ReplicaCorrupt"), (None, "ReplicaMissing")]
)
def test_damaged_replicas_are_made_whole_in_place(run: Run, state: str | None, reason: str) -> None:
    """The move goes from the node to itself."""
    files = held(*ROWS)
    if state:
        files["node-1"]["0"] = state
    else:
        del files["node-1"]["0"]
    (plan,) = planned(run, THREE, group(held=files))
    assert [(one["bucket"], one["reason"]) for one in plan["unstableBuckets"]] == [(0, reason)]
    (move,) = plan["moves"]
    assert (move["bucket"], move["from"], move["to"], move["kind"]) == (0, "node-1", "node-1", "repair")
    assert plan["startNow"] == [0]


def test_clones_in_flight_are_gone_on_with_and_not_started_twice(run: Run) -> None:
    """What balance has begun stays in the plan, and starts no second time."""
    clone = {"namespace": "shop", "group": "sales", "bucket": 1, "from": "node-2", "to": "node-4", "since": NOW}
    (plan,) = planned(run, FOUR, group(), clones=[clone])
    assert len(plan["moves"]) == 3
    begun = [index for index, move in enumerate(plan["moves"]) if (move["bucket"], move["to"]) == (1, "node-4")]
    assert len(begun) == 1
    assert begun[0] not in plan["startNow"]


def test_zones_by_the_well_known_key_and_by_a_label(run: Run) -> None:
    """The zone of the node counts as its topology.kubernetes.io/zone; other keys are labels."""
    for key, fields in (("topology.kubernetes.io/zone", "zone"), ("rack", "label")):
        nodes = [
            node(f"node-{n}", **({"zone": "ab"[n % 2]} if fields == "zone" else {"labels": {"rack": "ab"[n % 2]}}))
            for n in range(4)
        ]
        (plan,) = planned(run, nodes, group(rows=None, spec={"topologyKey": key}))
        assert all({int(name[-1]) % 2 for name in row} == {0, 1} for row in plan["targetMap"])


def test_weights_decide_shares(run: Run) -> None:
    """12 replicas over weights 1, 1 and 2, at most one of each bucket per node."""
    nodes = [node("node-1"), node("node-2"), node("node-3", weight=2)]
    (plan,) = planned(run, nodes, group())
    assert counts(plan["targetMap"]) == {"node-1": 3, "node-2": 3, "node-3": 6}
    assert len(plan["moves"]) == 2
    loads = {load["node"]: load for load in plan["expected"]["nodes"]}
    assert (loads["node-3"]["share"], loads["node-3"]["replicasBefore"], loads["node-3"]["bytesAfter"]) == (6, 4, 600)
    assert plan["expected"]["bytesToCopy"] == 200


def test_drained_and_unselected_nodes_are_emptied(run: Run) -> None:
    """By drain moves, and by balance moves; the group stays stable meanwhile."""
    (plan,) = planned(run, [*FOUR[:2], node("node-3", drain=True), FOUR[3]], group())
    assert plan["stable"]
    assert {move["kind"] for move in plan["moves"]} == {"drain"}
    fast = [node(f"node-{n}", labels={"disk": "fast"} if n != 3 else {}) for n in (1, 2, 3, 4)]
    (plan,) = planned(run, fast, group(spec={"nodeSelector": {"disk": "fast"}}))
    assert plan["stable"]
    assert {(move["kind"], move["from"]) for move in plan["moves"]} == {("balance", "node-3")}


def test_a_bucket_sequence_set_by_hand(run: Run) -> None:
    """A valid one is the target; an invalid one is refused in Doris's words, and nothing moves for it."""
    wanted = [["node-4", row[1]] for row in ROWS]
    (plan,) = planned(run, FOUR, group(spec={"bucketSequence": wanted}))
    assert [sorted(row) for row in plan["targetMap"]] == [sorted(row) for row in wanted]
    for sequence, message in (
        (wanted[:2], "Invalid bucket num. expected: 6, actual: 2"),
        ([["node-1"]] * 6, "Invalid backend num per bucket. expected: 2, actual: 1"),
        ([["node-1", "node-9"]] * 6, "The backend node-9 does not exist or not available"),
    ):
        (plan,) = planned(run, THREE, group(spec={"bucketSequence": sequence}))
        assert (plan["stalled"]["reason"], plan["stalled"]["message"]) == (
            "InvalidBucketSequence",
            f"bucket 0: {message}",
        )
        assert plan["moves"] == []


@pytest.mark.parametrize(
    ("nodes", "spec", "limits", "reason"),
    [
        pytest.param(FOUR, {"balancing": {"enabled": False}}, {}, None, id="balancing-of-the-group"),
        pytest.param(FOUR, {}, {"disableColocateBalance": True}, None, id="balancing-of-all"),
        pytest.param(
            FOUR[1:], {"relocation": {"enabled": False}}, {}, "RelocationDisabled", id="relocation-of-the-group"
        ),
        pytest.param(FOUR[1:], {}, {"disableColocateRelocate": True}, "RelocationDisabled", id="relocation-of-all"),
    ],
)
def test_each_switch_alone(
    run: Run, nodes: list[dict[str, Any]], spec: dict[str, Any], limits: dict[str, Any], reason: str | None
) -> None:
    """Nothing moves; a lost replica that stays lost is named."""
    (plan,) = planned(run, nodes, group(spec=spec), limits=limits)
    assert plan["moves"] == []
    assert words(plan["blocked"]) == ({reason} if reason else set())


def test_what_cannot_be_done_names_the_shortage(run: Run) -> None:
    """Too few nodes, too few bytes: nothing starts, and the message has how many are missing."""
    (plan,) = planned(run, THREE[:1], group())
    assert plan["startNow"] == []
    assert plan["stalled"]["reason"] == "InsufficientNodes"
    assert "2 replicas need as many nodes that may hold them; there are 1" in plan["stalled"]["message"]
    full = [node(name, freeBytes=TB // 10 + 30) for name in ("node-1", "node-2", "node-4")]
    (plan,) = planned(run, full, group())
    assert plan["startNow"] == []
    assert plan["stalled"]["reason"] == "InsufficientSpace"
    assert "70 bytes short" in plan["stalled"]["message"]


def test_several_groups_are_each_planned(run: Run) -> None:
    """In the order of the file; a new one starts where the others are light."""
    plans = planned(run, FOUR, group(), group("stock", rows=None))
    assert [plan["name"] for plan in plans] == ["sales", "stock"]
    totals = counts([*plans[0]["targetMap"], *plans[1]["targetMap"]])
    assert max(totals.values()) - min(totals.values()) <= 1


def snapshot_text(**fields: Any) -> str:
    return json.dumps({"now": NOW, "nodes": [], "groups": [], **fields})


NO_SNAPSHOT = "name a file that `colocation snapshot > FILE` wrote: a JSON object with now, nodes and groups"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        pytest.param("", ["standard input is not JSON", NO_SNAPSHOT], id="empty"),
        pytest.param("groups: []", ["standard input is not JSON", NO_SNAPSHOT], id="yaml"),
        pytest.param("[" * 100_000, ["nested too deeply", NO_SNAPSHOT], id="too-deep"),
        pytest.param("1" * 5000, ["is not JSON: Exceeds the limit", NO_SNAPSHOT], id="a-huge-number"),
        pytest.param("[]", ["holds no snapshot: it is a list", NO_SNAPSHOT], id="a-list"),
        pytest.param('"x"', ["holds no snapshot: it is a text", NO_SNAPSHOT], id="a-text"),
        pytest.param("null", ["holds no snapshot: it is null", NO_SNAPSHOT], id="null"),
        pytest.param("NaN", ["holds no snapshot: it is a number", NO_SNAPSHOT], id="nan"),
        pytest.param("{}", ["it lacks now, nodes, groups (its first fields: none)", NO_SNAPSHOT], id="an-empty-object"),
        pytest.param('{"apiVersion": "v1", "kind": "Pod", "metadata": {}}',
                     ["it lacks now, nodes, groups (its first fields: apiVersion, kind, metadata)"], id="a-pod"),
        pytest.param(json.dumps({"now": NOW, "name": "an npm package"}),
                     ["it lacks nodes, groups (its first fields: now, name)", NO_SNAPSHOT], id="nothing-but-a-clock"),
        pytest.param(snapshot_text(now="yesterday"), ["now: Input should be a valid datetime"], id="no-time"),
        pytest.param(snapshot_text(nodes="x"), ["nodes: Input should be a valid tuple (given 'x')"], id="no-nodes"),
        pytest.param(snapshot_text(nodes=[{}] * 30), ["nodes[19].name: Field required", "and 10 more"], id="no-names"),
        pytest.param(snapshot_text(groups=[group(held={"a": {"0": "half"}})]),
                     ["groups[0].held.a.0: Input should be 'complete', 'partial' or 'corrupt'"], id="unknown-state"),
        pytest.param(snapshot_text(groups=[group(spec={"buckets": 0})]),
                     ["groups[0].spec.buckets: Input should be greater than or equal to 1 (given 0)"], id="no-buckets"),
        pytest.param(snapshot_text(nodes=[node("a"), node("a")]), ["more than one entry of node a"], id="a-node-twice"),
    ],
)  # fmt: skip
def test_files_that_hold_no_snapshot_are_refused(run: Run, text: str, messages: list[str]) -> None:
    """Wrong usage, exit code 2: the message has what the file holds, what is expected, and what writes it."""
    done = run("plan", "--snapshot", "-", stdin=text)
    assert done.exit_code == 2
    assert done.stdout == ""
    for message in messages:
        assert message in done.stderr


def test_the_plan_for_people_shows_each_node(run: Run) -> None:
    """Weight, share, and what it holds before and after; the shortage of what cannot be done."""
    snapshot = {"now": NOW, "nodes": FOUR, "groups": [group()]}
    text = run("plan", "--snapshot", "-", stdin=json.dumps(snapshot)).stdout
    assert "3 replicas to make, 300 B, " in text
    assert "node-4   1        3.00    0 -> 3     0 B -> 300 B" in text
    assert "replicas per weight, most minus least: 4 -> 0" in text


def test_the_example_of_the_reference_is_planned_by_the_fewest_bytes(run: Run) -> None:
    """Two replicas of three to the third node: the two smaller buckets that leave each node one replica less."""
    (example,) = re.findall(r"```json\n(.*?)```", REFERENCE.read_text(), re.DOTALL)
    done = run("plan", "--snapshot", "-", "-o", "json", stdin=example)
    (plan,) = json.loads(done.stdout)["groups"]
    assert [(move["bucket"], move["to"], move["bytes"]) for move in plan["moves"]] == [
        (0, "node-3", 1000), (1, "node-3", 800),
    ]  # fmt: skip


def test_the_reference_names_every_field() -> None:
    """Of snapshots and plans, as they stand in the files."""
    text = REFERENCE.read_text()
    for model in (Snapshot, Limits, Node, GroupState, Clone, GroupPlan, Expectation, NodeLoad):
        for name, field in model.model_fields.items():
            assert (field.alias or name) in text, f"{model.__name__}.{name} is missing in {REFERENCE.name}"
