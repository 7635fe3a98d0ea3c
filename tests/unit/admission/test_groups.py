"""Groups under review: their tables and their map are not taken from them."""

import pytest

from colocation.admission.groups import judge_group
from colocation.admission.review import Review
from colocation.model.base import MAX_MAP_BYTES
from colocation.model.conditions import Reason

from .reviews import JsonObject, creation, deletion, group, known, table, update


@pytest.mark.parametrize(("count", "words"), [(1, "1 table is in group sales"), (7, "7 tables are in group sales")])
def test_a_group_with_tables_may_not_be_deleted(count: int, words: str) -> None:
    """Its map would go, and all its buckets move. Any account may ask: the answer names no tables."""
    verdict = judge_group(deletion(group()), known(tables=[table(f"orders{number}") for number in range(count)]))
    assert (verdict.allowed, verdict.reason) == (False, Reason.GROUP_IN_USE)
    assert verdict.message == (
        f"{words} (kubectl get colocationgroup sales -n shop -o yaml: status.members); delete tables first, or move "
        "them by colocateWith"
    )


@pytest.mark.parametrize(
    "tables",
    [pytest.param([], id="empty"), pytest.param([table(colocateWith="other")], id="tables of another group"),
     pytest.param([table(namespace="elsewhere")], id="tables of another namespace")],
)  # fmt: skip
def test_a_group_without_tables_may_be_deleted(tables: list[JsonObject]) -> None:
    """No one needs its map."""
    assert judge_group(deletion(group()), known(tables=tables)).allowed


def test_dropped_tables_of_a_deleted_group_are_reported() -> None:
    """The group alone remembers what they were; anyone who deletes it may want just that."""
    dropped = {"namespace": "shop", "name": "orders", "uid": "1", "deletedAt": "2026-11-21T00:00:00Z",
               "purgeAt": "2026-11-22T00:00:00Z"}  # fmt: skip
    verdict = judge_group(deletion(group()), known(groups=[group(status={"recycled": [dropped]})], tables=[]))
    assert verdict.allowed
    assert verdict.warnings[0].startswith("group sales remembers 1 of the recycle bin's tables (kubectl get ")
    assert "orders" not in verdict.warnings[0]


def test_a_topology_key_that_no_node_has_is_warned_of() -> None:
    """It would spread nothing, silently."""
    for review in (creation(group("new", topologyKey="zoen")), update(group(), group(topologyKey="zoen"))):
        assert judge_group(review, known()).warnings == (
            "no node has the label zoen of spec.topologyKey, which so spreads no replicas; correct it, or label the "
            "nodes",
        )
    assert judge_group(creation(group("new")), known()).warnings == ()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"replicas": 5}, "5 replicas need as many nodes that may hold them; there are 3; ", id="replicas"),
        pytest.param(
            {"replicas": 2, "nodeSelector": {"disk": "fast"}},
            "2 replicas need as many nodes that may hold them; there are 0; nodeSelector disk=fast leaves out 3 nodes"
            "; ",
            id="selector",
        ),
    ],
)
def test_nodes_that_a_group_lacks_are_warned_of(spec: JsonObject, message: str) -> None:
    """Nodes may be added later; until then the group waits, and no command fails."""
    warned = (f"the group waits: {message}add nodes, or lower spec.replicas",)
    for review in (creation(group("new", **spec)), update(group(), group(**spec))):
        verdict = judge_group(review, known())
        assert (verdict.allowed, verdict.warnings) == (True, warned)


@pytest.mark.parametrize(
    ("sequence", "message"),
    [
        pytest.param([["node-1", "node-2"]], "Invalid bucket num. expected: 2, actual: 1", id="buckets"),
        pytest.param([["node-1", "node-2"], ["node-1"]], "Invalid backend num per bucket. expected: 2, actual: 1",
                     id="replicas"),
        pytest.param([["node-1", "node-2"], ["node-1", "node-9"]],
                     "bucket 1: The backend node-9 does not exist or not available", id="no such node"),
    ],
)  # fmt: skip
def test_a_map_set_by_hand_is_judged_by_the_planner(sequence: list[list[str]], message: str) -> None:
    """For a new group and for one that is there, in Doris' and StarRocks' words."""
    body = group(bucketSequence=sequence)
    for review in (creation(group("new", bucketSequence=sequence)), update(group(), body)):
        verdict = judge_group(review, known())
        assert (verdict.allowed, verdict.reason) == (False, Reason.INVALID_BUCKET_SEQUENCE)
        assert message in verdict.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(group(), group(bucketSequence=[["node-1", "node-3"], ["node-2", "node-3"]]), id="map of nodes"),
        pytest.param(group(), group(balancing={"enabled": False}), id="a switch"),
        pytest.param(group(), group(allowedNamespaces=["other"]), id="letting a namespace in"),
        pytest.param(group(buckets=0), {**group(buckets=0), "metadata": {**group()["metadata"], "labels": {"a": "b"}}},
                     id="metadata of a group that is wrong"),
    ],
)  # fmt: skip
def test_harmless_changes_pass(old: JsonObject, new: JsonObject) -> None:
    """Whatever does not take anything from the tables."""
    assert judge_group(update(old, new), known(groups=[old])).allowed


@pytest.mark.parametrize(
    "review",
    [
        pytest.param(creation(group("new", buckets=65536, replicas=3)), id="made"),
        pytest.param(update(group(buckets=40_000), group(buckets=40_000, replicas=3)), id="replicas raised"),
    ],
)
def test_a_map_that_no_object_can_hold_is_refused(review: Review) -> None:
    """Before it is tried; the message names how many bytes it takes and how many there are."""
    verdict = judge_group(review, known())
    assert (verdict.allowed, verdict.reason) == (False, Reason.INVALID_SPEC)
    assert "with 3 replicas each takes" in verdict.message and f"has room for {MAX_MAP_BYTES}" in verdict.message


def test_a_table_is_not_pushed_out_by_a_change() -> None:
    """A group that no longer lets a namespace in would leave that namespace's table without a group."""
    old, ours = group(allowedNamespaces=["other"]), table("theirs", "other", colocateWith="shop/sales")
    verdict = judge_group(update(old, group()), known(groups=[old], tables=[ours]))
    assert (verdict.allowed, verdict.reason) == (False, Reason.NAMESPACE_NOT_ALLOWED)
    assert verdict.message.startswith("a table that is in the group (kubectl get colocationgroup sales -n shop -o yaml")
    assert "would not fit: group shop/sales allows" in verdict.message and "theirs" not in verdict.message


def test_a_table_that_is_refused_already_holds_up_no_change() -> None:
    """Its status reports that the group took another key type before; the change takes nothing more from it."""
    wrong = table(columns=[{"name": "k", "type": "string"}], status={"group": "sales", "buckets": 2})
    member = {"namespace": "shop", "name": "orders", "uid": "uid-of-orders"}
    old = group(status={"members": [member]})
    there = known(groups=[old], tables=[wrong])
    assert there.membership.refusals and there.membership.members["shop", "sales"]
    assert judge_group(update(old, {**old, "spec": {**old["spec"], "balancing": {"enabled": False}}}), there).allowed


def test_a_spec_that_the_model_refuses_is_refused() -> None:
    """What CEL cannot see, in the operator's words."""
    verdict = judge_group(creation(group("new", bucketKey=["decimal(39,0)"])), known())
    assert (verdict.allowed, verdict.reason) == (False, Reason.INVALID_SPEC)
    assert "decimal" in verdict.message and verdict.message.endswith("; correct the spec")
