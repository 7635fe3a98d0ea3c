"""An agent's last word is not trusted beyond what may have happened since."""

from dataclasses import replace

import pytest

from colocation.model.group import ColocationGroupStatus
from colocation.model.members import GroupMember
from colocation.model.snapshot import GroupState, Snapshot
from colocation.reconcile.actions import DropBucket
from colocation.reconcile.evidence import Evidence
from colocation.state.observation import AgentView, Observation

from ..state.objects import GROUP_UID, NOW, group, seconds, table, view

MAP = ColocationGroupStatus(backends_per_bucket_seq=(("node-1", "node-2"),), map_version=3)
GROUP = group(status=MAP, buckets=1)
SEEN = Evidence(maps_seen={GROUP_UID: ((3, ()), NOW)})
LATER = NOW + seconds(1)


def told(moment_seconds: float, silent: bool = False) -> AgentView:
    """A report that was asked for so long after NOW."""
    asked_at = NOW + seconds(moment_seconds)
    return AgentView(view().report, (), asked_at, asked_at if silent else None, asked_at)


@pytest.mark.parametrize(
    ("evidence", "first", "second", "allowed"),
    [
        pytest.param(SEEN, told(1), told(2), True, id="both were asked since the map is in place"),
        pytest.param(SEEN, told(1), told(0), False, id="one was asked in the same moment"),
        pytest.param(SEEN, told(1), told(-1), False, id="one was asked before"),
        pytest.param(SEEN, told(1), told(1, silent=True), False, id="one is silent now"),
        pytest.param(SEEN, told(1), AgentView(), False, id="one never answered"),
        pytest.param(Evidence(), told(1), told(1), False, id="an operator that has just started"),
        pytest.param(Evidence({GROUP_UID: ((2, ()), NOW)}), told(1), told(1), False, id="the map is newer"),
        pytest.param(
            Evidence({GROUP_UID: ((3, (("u", False),)), NOW)}), told(1), told(1), False, id="the members changed"
        ),
    ],
)
def test_replica_is_dropped_only_on_new_evidence(
    evidence: Evidence, first: AgentView, second: AgentView, allowed: bool
) -> None:
    """A report from before the map may tell of a replica that another drop took away since."""
    assert evidence.allows_drop(GROUP, (), 0, {"node-1": first, "node-2": second}) is allowed


def test_map_is_seen_once() -> None:
    """The time stands as long as the version does."""
    evidence = Evidence().after(Observation(NOW, groups=(GROUP,)), ())
    assert evidence.after(Observation(LATER, groups=(GROUP,)), ()) == evidence
    changed = replace(GROUP, status=MAP.model_copy(update={"map_version": 4}))
    assert evidence.after(Observation(LATER, groups=(changed,)), ()).maps_seen == {GROUP_UID: ((4, ()), LATER)}


def test_nothing_is_dropped_before_the_group_knows_its_tables() -> None:
    """One that came from another group is known to be whole only by reports since this group's status names it."""
    views = {"node-1": told(1), "node-2": told(1)}
    orders = table("orders")
    assert not SEEN.allows_drop(GROUP, (orders,), 0, views)
    known = GroupMember(namespace="shop", name="orders", uid=orders.identity.uid)
    told_group = replace(GROUP, status=MAP.model_copy(update={"members": (known,)}))
    assert not SEEN.allows_drop(told_group, (orders,), 0, views), "it was not seen before"
    seen = Evidence({GROUP_UID: ((3, ((orders.identity.uid, False),)), NOW)})
    assert seen.allows_drop(told_group, (orders,), 0, views)


def test_dropped_replica_counts_as_gone_until_its_agent_speaks() -> None:
    """Else a slow agent's last word would bring it into the map."""
    drop = DropBucket(GROUP.identity, 3, "node-3", "https://10.0.0.3:8440", 0, (), 60)
    state = GroupState(namespace="shop", name="sales", spec=GROUP.spec, held={"node-3": {0: "complete", 1: "complete"}})
    snapshot = Snapshot(now=NOW, groups=(state,))
    evidence = Evidence().after(Observation(NOW), (drop,))

    still = Observation(LATER, agent_views={"node-3": told(-1)})
    assert evidence.correct(snapshot, still).groups[0].held == {"node-3": {1: "complete"}}
    assert evidence.after(still, ()).dropped == evidence.dropped

    spoken = Observation(LATER, agent_views={"node-3": told(0.5)})
    assert evidence.correct(snapshot, spoken) == snapshot
    assert evidence.after(spoken, ()).dropped == {}
    assert evidence.after(Observation(LATER), ()).dropped == {}, "the node is gone"
