"""Folders without a table go into the bin: dropped ones at once, others later, and never too many of them."""

from dataclasses import replace

import pytest

from colocation.model.group import RecycledTable
from colocation.reconcile.actions import PostEvent, RecycleTable, WriteGroupStatus
from colocation.reconcile.decide import Decision, decide
from colocation.reconcile.evidence import BRAKE_WINDOW, Evidence
from colocation.reconcile.policy import Policy
from colocation.reconcile.recycling import Brake, Withheld
from colocation.state.agent_view import AgentView
from colocation.state.observation import Observation

from ..state.objects import NOW, seconds
from .scenes import (
    NODES,
    OWN,
    POLICY,
    STRANGE,
    actions_of,
    agent_view,
    held_by,
    observe,
    on_disk,
    settled_group,
    settled_table,
)
from .test_deletions import ORDERS, PURGE_AT, proof_of, recovering

LONG = seconds(POLICY.unknown_folder_seconds)
OVER = "2026-11-21T11:00:00Z"


def lying(
    folders: int, records: tuple[RecycledTable, ...] = (), tables: int = 1, first: int = 0
) -> Observation:
    """So many folders on each node that no table has, next to those of loaded tables."""
    known = tuple(settled_table(f"table{number}") for number in range(tables))
    group = settled_group(known, records)
    unknown = tuple(f"shop/lost{number}-{number:08x}" for number in range(first, first + folders))
    views = {name: agent_view(group, known, [held_by(name, one) for one in known], unknown) for name in NODES}
    return observe(group, known, views)


def seen(observation: Observation, evidence: Evidence | None = None) -> Evidence:
    """What an operator remembers that has seen this for as long as such folders wait."""
    return (evidence or Evidence()).after(replace(observation, now=NOW - LONG), ())


def recycled(observation: Observation, evidence: Evidence, policy: Policy = POLICY) -> list[RecycleTable]:
    return actions_of(decide(observation, evidence, policy, False), RecycleTable)


def dropped(recovers: bool, purge_at: str) -> Observation:
    """Node 1 was away when the table was dropped: its folder is there; ``recovers``: a table asks for it."""
    table, record = recovering(ORDERS)
    group = settled_group((), (record.model_copy(update={"purge_at": purge_at}),))
    tables = (table,) if recovers else ()
    views = {name: agent_view(group, tables, ()) for name in ("node-2", "node-3")}
    views["node-1"] = agent_view(group, tables, (), unknown=(f"shop/{ORDERS.directory}",))
    return observe(group, tables, views)


def test_folder_of_a_dropped_table_goes_at_once_with_a_proof() -> None:
    """Its group remembers that somebody dropped it, and how long it is to be kept."""
    [action] = recycled(dropped(recovers=False, purge_at=PURGE_AT), Evidence())
    assert (action.node, action.directory, action.keep_seconds) == ("node-1", ORDERS.directory, 12 * 3600)
    assert action.proof == proof_of(ORDERS).model_copy(update={"group_uid": None, "map_version": 0})
    assert action.is_explained
    assert action.size_bytes == 0, "its agent tells no bytes"


def test_folder_that_is_taken_over_is_not_recycled() -> None:
    """Its time in the bin is over: it would be purged at once, while the table waits for it."""
    observation = dropped(recovers=True, purge_at=OVER)
    assert not recycled(observation, seen(observation))


def test_folder_that_no_one_knows_waits() -> None:
    """It goes once this operator has seen it without a table for long enough."""
    observation = lying(1)
    evidence = Evidence().after(replace(observation, now=NOW - LONG + seconds(1)), ())
    waiting = decide(observation, evidence, POLICY, False)
    assert waiting.is_waiting and not actions_of(waiting, RecycleTable)
    found = recycled(replace(observation, now=NOW + seconds(1)), evidence)
    assert [one.node for one in found] == list(NODES)
    assert not any(one.is_explained for one in found)


def stalled(decision: Decision) -> tuple[str, str]:
    [write] = actions_of(decision, WriteGroupStatus)
    found = {one["type"]: one for one in write.status["conditions"]}  # type: ignore[attr-defined, index]
    return found["Stalled"]["reason"], found["Stalled"]["message"]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_small_cluster_that_lost_its_objects_loses_no_files(lost: int) -> None:
    """CRDs applied again: whatever is there is unexplained, however little it is."""
    observation = lying(lost, tables=0)
    decision = decide(observation, seen(observation), POLICY, False)
    assert actions_of(decision, RecycleTable) == []
    assert decision.withheld is not None and decision.withheld.allowed == 0


@pytest.mark.parametrize("tables", [0, 30], ids=["no table is left", "most tables are there"])
def test_more_than_a_small_share_does_not_go(tables: int) -> None:
    """4 folders on 3 nodes are more than 10, and than 5 % of all: the group reports it, and what to do."""
    observation = lying(4, tables=tables)
    decision = decide(observation, seen(observation), POLICY, False)
    assert actions_of(decision, RecycleTable) == []
    reason, message = stalled(decision)
    assert reason == "TooManyDeletions"
    assert f"12 of {12 + 3 * tables} table folders" in message
    assert "colocation adopt" in message and "colocation adopt --discard" in message
    assert "(4 tables of namespace shop: shop/lost0-00000000" in message
    assert decision.withheld is not None and decision.withheld.folders == 12
    assert "Stalled" in [one.reason for one in actions_of(decision, PostEvent)]


def test_a_group_is_silent_of_other_namespaces_tables() -> None:
    """Anyone who reads it may not read them; the operator's log names all."""
    observation = lying(4)
    withheld = decide(observation, seen(observation), POLICY, False).withheld
    assert withheld is not None
    mixed = replace(withheld, tables=("lake/secret-00000000", *withheld.tables))
    shown = mixed.within("shop")
    assert shown is not None and "lost0" in shown.message and "secret" not in shown.message
    assert shown.folders == mixed.folders
    assert mixed.within("no one") is None
    assert "secret" in mixed.message


def test_small_share_of_many_folders_goes() -> None:
    """12 of 312 are less than 5 %."""
    observation = lying(4, tables=100)
    assert len(recycled(observation, seen(observation))) == 12


def test_brake_can_be_released() -> None:
    """By the number of folders that the message tells."""
    observation = lying(4)
    assert len(recycled(observation, seen(observation), replace(POLICY, max_unexplained_folders=12))) == 12


def discarding(observation: Observation, *folders: str) -> Observation:
    """`colocation adopt --discard`: the nodes say of these folders that they may go."""
    nodes = tuple(replace(node, discarded_folders=frozenset(folders)) for node in observation.nodes)
    return replace(observation, nodes=nodes)


def test_folders_that_an_admin_discards_go_and_no_others() -> None:
    """By name, after the wait of all unexplained folders. Those that are left do not become few by it."""
    observation = discarding(lying(5), "shop/lost0-00000000", "shop/table0-00000000")
    assert not recycled(observation, Evidence())
    decision = decide(observation, seen(observation), POLICY, False)
    found = actions_of(decision, RecycleTable)
    assert [(one.node, one.directory) for one in found] == [(name, "lost0-00000000") for name in NODES]
    assert decision.withheld is not None and "lost0-" not in decision.withheld.message
    later = replace(lying(4, first=1), now=NOW + seconds(60))
    evidence = seen(observation).after(observation, found)
    assert recycled(later, evidence) == []
    assert decision.withheld.tables == decide(later, evidence, POLICY, False).withheld.tables  # type: ignore[union-attr]


def test_nothing_is_withheld_any_more_once_all_is_discarded() -> None:
    """The condition, the metric and the alert go at once."""
    observation = lying(5)
    observation = discarding(observation, *(f"shop/lost{number}-{number:08x}" for number in range(5)))
    decision = decide(observation, seen(observation), POLICY, False)
    assert (len(actions_of(decision, RecycleTable)), decision.withheld) == (15, None)


def test_a_discarded_folder_of_a_table_that_is_there_stays() -> None:
    """As after a restore of the objects: what the annotation names is no longer unknown."""
    observation = lying(0)
    [table] = observation.tables
    discarded = discarding(observation, f"shop/{table.directory}")
    assert not recycled(discarded, seen(discarded), replace(POLICY, max_unexplained_folders=99))


GIB = 1 << 30


@pytest.mark.parametrize(
    ("brake", "holds"),
    [
        pytest.param(Brake(3, 300, 0, 0), False, id="agents of the release before tell no bytes"),
        pytest.param(Brake(16, 300, 0, 0), True, id="more than 5 % of the folders"),
        pytest.param(Brake(3, 300, 5 * GIB, 100 * GIB), False, id="5 % of the bytes"),
        pytest.param(Brake(3, 300, 6 * GIB, 100 * GIB), True, id="more than 5 % of the bytes"),
        pytest.param(Brake(3, 300, 90 * GIB, 100 * GIB), True, id="one huge table among many small ones"),
        pytest.param(Brake(3, 300, GIB, 2 * GIB), False, id="few bytes, in few folders"),
        pytest.param(Brake(3, 300, GIB, 2 * GIB - 1), True, id="few bytes, and most of what there is"),
        pytest.param(Brake(16, 300, 16, 100 * GIB), True, id="many folders with next to nothing in them"),
        pytest.param(Brake(15, 300, 0, 0), False, id="5 % of the folders"),
        pytest.param(Brake(15, 300, 6 * GIB, 100 * GIB), True, id="5 % of the folders, with more of the bytes"),
        pytest.param(Brake(16, 300, 6 * GIB, 100 * GIB), True, id="too many folders, and too many bytes"),
    ],
)
def test_share_is_of_folders_and_of_bytes(brake: Brake, holds: bool) -> None:
    """Either is enough to withhold all; a number that somebody allows counts folders only."""
    assert brake.holds(POLICY) == holds
    assert brake.holds_by_bytes == (holds and brake.folders <= 15), "the message tells what is too much"
    assert not brake.holds(replace(POLICY, max_unexplained_folders=brake.folders))


def weighing(observation: Observation, sizes_bytes: dict[str, int]) -> Observation:
    """With agents that tell how much is in the folders."""
    views = {}
    for name, view in observation.agent_views.items():
        assert view.report is not None
        views[name] = replace(view, report=view.report.model_copy(update={"unknown_bytes": sizes_bytes}))
    return replace(observation, agent_views=views)


def test_one_huge_table_among_many_small_ones_does_not_go() -> None:
    """3 of 303 folders are few, and most of all bytes lie in them: the message reports it."""
    observation = weighing(lying(1, tables=100), {"shop/lost0-00000000": 40 * GIB})
    decision = decide(observation, seen(observation), POLICY, False)
    assert actions_of(decision, RecycleTable) == []
    reason, message = stalled(decision)
    assert reason == "TooManyDeletions"
    assert message.startswith("3 of 303 table folders on the nodes, with 99 % of all bytes, belong to no table")
    assert "at most 5 % of the bytes go at once" in message
    held = decide(observation, seen(observation), replace(POLICY, max_unexplained_folders=2), False).withheld
    assert held is not None and (held.by_bytes, held.allowed) == (False, 2), "a number counts whatever is in them"
    allowed = replace(POLICY, max_unexplained_folders=3)
    assert {one.size_bytes for one in recycled(observation, seen(observation), allowed)} == {40 * GIB}


def test_bytes_do_not_go_in_small_steps_either() -> None:
    """What went within an hour counts too."""
    ghosts = {"shop/lost0-00000000": GIB // 3, "shop/lost1-00000001": GIB // 3, "shop/large-00000002": 2 * GIB}
    first = weighing(lying(1, tables=5), ghosts)
    evidence = seen(first)
    gone = recycled(first, evidence)
    assert len(gone) == 3
    evidence = evidence.after(first, gone)
    second = replace(weighing(lying(1, tables=5, first=1), ghosts), now=NOW + LONG)
    later = replace(lying(0, tables=5), now=NOW + seconds(1))
    withheld = decide(second, seen(second, evidence.after(later, ())), POLICY, False).withheld
    assert withheld is not None and withheld.brake.size_bytes == 2 * GIB - 2


def test_brake_is_not_passed_in_small_steps() -> None:
    """What went within an hour counts too: nodes that come back one by one lose nothing more."""
    first = lying(3, tables=5)
    evidence = seen(first)
    gone = recycled(first, evidence)
    assert len(gone) == 9
    evidence = evidence.after(first, gone)
    second = replace(lying(2, tables=5, first=3), now=NOW + LONG)
    later = replace(lying(0, tables=5), now=NOW + seconds(1))
    evidence = seen(second, evidence.after(later, ()))
    assert decide(second, evidence, POLICY, False).withheld is not None
    after_window = replace(second, now=NOW + BRAKE_WINDOW + LONG)
    assert len(recycled(after_window, evidence)) == 6


def test_dropped_tables_are_not_braked() -> None:
    """Users may drop as many as they like; the unexplained ones among them still wait."""
    records = tuple(
        RecycledTable(
            namespace="shop", name=f"lost{number}", uid=f"{number:08x}", deleted_at=PURGE_AT, purge_at=PURGE_AT
        )
        for number in range(4)
    )
    observation = lying(8, records)
    decision = decide(observation, seen(observation), POLICY, False)
    assert len(actions_of(decision, RecycleTable)) == 12
    assert all(one.is_explained for one in actions_of(decision, RecycleTable))
    assert decision.withheld is not None and decision.withheld.folders == 12


def test_silent_agent_is_ordered_nothing() -> None:
    """Its last word may be of long ago."""
    observation = lying(1)
    views = {name: replace(view, silent_since=NOW) for name, view in observation.agent_views.items()}
    assert not recycled(replace(observation, agent_views=views), seen(observation))


@pytest.mark.parametrize(
    ("knows", "nodes"),
    [
        pytest.param("the operator", (), id="the table was made after the agents were asked"),
        pytest.param("the agents", (), id="it is missing from a list that is not complete"),
        pytest.param("no one", NODES, id="no one knows it"),
    ],
)
def test_folder_of_a_table_that_anybody_knows_stays(knows: str, nodes: tuple[str, ...]) -> None:
    """However many unexplained folders may go."""
    table = settled_table("orders")
    group = settled_group(())
    tables = (table,) if knows == "the operator" else ()
    asked = (table,) if knows == "the agents" else ()
    views = {name: agent_view(group, asked, (), (f"shop/{table.directory}",)) for name in NODES}
    observation = observe(group, tables, views)
    found = recycled(observation, seen(observation), replace(POLICY, max_unexplained_folders=len(NODES)))
    assert tuple(action.node for action in found) == nodes


DROPPED_AT = "2026-11-21T11:55:00Z"


def dropped_lately(tables: int, left: int = 0, **record: object) -> Observation:
    """So many tables were dropped minutes ago, each with a folder on each node; ``left`` others are there."""
    fields: dict[str, object] = {"namespace": "shop", "deleted_at": DROPPED_AT, "purge_at": PURGE_AT, **record}
    records = [{**fields, "name": f"lost{number}", "uid": f"{number:08x}"} for number in range(tables)]
    return lying(tables, tuple(map(RecycledTable.model_validate, records)), left)


@pytest.mark.parametrize(
    ("observation", "goes"),
    [
        pytest.param(dropped_lately(10), True, id="all of a small group"),
        pytest.param(dropped_lately(11), False, id="all, and they are many"),
        pytest.param(dropped_lately(11, left=100), False, id="more than a small share"),
        pytest.param(dropped_lately(11, left=220), True, id="a small share of many"),
        pytest.param(dropped_lately(11, deleted_at="2026-11-21T11:50:00Z"), True, id="their groups are still there"),
        pytest.param(dropped_lately(11, deleted_at="2026-11-21T12:00:01Z"), True, id="by a clock that is ahead"),
        pytest.param(dropped_lately(11, purge_at="2026-11-21T12:14:00Z"), True, id="they are kept for moments only"),
        pytest.param(dropped_lately(11, purge_at="2026-11-21T12:15:00Z"), False, id="they are kept for 20 minutes"),
        pytest.param(dropped_lately(11, deleted_at="2026-11-21T12:00:00Z"), False, id="at this moment"),
        pytest.param(dropped_lately(11, recovery_uids=("99999999-new",)), True, id="they were adopted"),
    ],
)
def test_many_tables_that_are_dropped_at_once_wait(observation: Observation, goes: bool) -> None:
    """`kubectl delete -f crds/`: the tables go first, and the groups that remember them a moment later."""
    decision = decide(observation, seen(observation), POLICY, False)
    assert bool(actions_of(decision, RecycleTable)) == goes
    assert decision.is_waiting != goes
    assert decision.withheld is None


def test_tables_that_wait_are_held_once_their_groups_are_gone() -> None:
    """No one remembers them then: the brake decides."""
    observation = replace(dropped_lately(11), groups=())
    decision = decide(observation, seen(observation), POLICY, False)
    assert actions_of(decision, RecycleTable) == []
    assert decision.withheld is not None and decision.withheld.folders == 33


def test_of_many_dropped_tables_those_that_are_asked_back_go_at_once() -> None:
    """They come back from the bins only."""
    observation = dropped_lately(11)
    [group] = observation.groups
    asked = replace(observation, groups=(replace(group, recover_requests=frozenset({"00000003"})),))
    assert {one.directory for one in recycled(asked, seen(asked))} == {"lost3-00000003"}


@pytest.mark.parametrize(("disk", "goes"), [(OWN, True), (STRANGE, False)], ids=["its own", "no one accepted it"])
@pytest.mark.parametrize("is_dropped", [True, False])
def test_folders_on_a_disk_that_no_one_accepted_stay(disk: str, goes: bool, is_dropped: bool) -> None:
    """It may be another node's, put in by mistake; once somebody accepts it, they go as any other."""
    observation = dropped_lately(1, left=5) if is_dropped else lying(1, tables=5)
    observation = on_disk(observation, "node-1", disk)
    found = {one.node for one in recycled(observation, seen(observation))}
    assert found == ({*NODES} if goes else {"node-2", "node-3"})


def test_folders_on_a_strange_disk_do_not_make_others_few() -> None:
    """12 of 24 are withheld, whatever else is on a disk that no one accepted."""
    observation = lying(4, tables=4)
    view = observation.agent_views["node-3"]
    assert view.report is not None
    strange = view.report.model_copy(update={"unknown_directories": tuple(f"x/y-{n:08x}" for n in range(1000))})
    views = {**observation.agent_views, "node-3": replace(view, report=strange)}
    found = on_disk(replace(observation, agent_views=views), "node-3", STRANGE)
    withheld = decide(found, seen(found), replace(POLICY, max_unexplained_folders=0), False).withheld
    assert withheld is not None and (withheld.brake.folders, withheld.brake.known) == (8, 16)
    assert (withheld.allowed, withheld.by_bytes) == (0, False)
    assert withheld.tables == tuple(sorted(withheld.tables))


def test_an_agent_that_never_answered_makes_no_folder_few() -> None:
    """Nothing is known of it."""
    observation = weighing(lying(4), {"shop/lost0-00000000": 7})
    views = {**observation.agent_views, "node-3": AgentView()}
    heard = replace(observation, agent_views=views)
    withheld = decide(heard, seen(heard), POLICY, False).withheld
    assert withheld is not None
    assert withheld.brake == Brake(folders=8, known=10, size_bytes=14, known_bytes=14 + 150)


@pytest.mark.parametrize(("tables", "more"), [(5, ""), (6, ", …")])
@pytest.mark.parametrize(("namespace", "place"), [("", ""), ("shop", " of namespace shop")])
def test_what_is_withheld_is_listed_in_short(tables: int, more: str, namespace: str, place: str) -> None:
    """In the order of names."""
    names = tuple(f"shop/lost{number}-0" for number in range(tables))
    message = Withheld(Brake(12, 24, 0, 0), 1, names, namespace=namespace).message
    assert "12 of 24 table folders on the nodes belong to no table" in message
    assert f"({tables} tables{place}: {', '.join(names[:5])}{more}); at most 1 go at once" in message
