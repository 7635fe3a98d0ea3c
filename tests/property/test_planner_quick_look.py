"""The quick look at groups that need nothing finds what the full look finds: it saves time, and costs no verdict."""

from datetime import timedelta
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colocation.model.conditions import Reason
from colocation.model.snapshot import Snapshot
from colocation.planner import plan, planning

from .test_planner_safety import several_groups
from .worlds import NOW, World, examples

DISK_REASONS = st.sampled_from([None, None, Reason.DISK_FAILING, Reason.DISK_READ_ONLY, Reason.DISK_FULL])


def with_disks(snapshot: Snapshot, data: st.DataObject) -> Snapshot:
    """With any disks sick, for any time."""
    nodes = []
    for node in snapshot.nodes:
        reason = data.draw(DISK_REASONS)
        since = NOW - timedelta(seconds=data.draw(st.integers(0, 4000)))
        sick = {"disk_reason": reason, "disk_since": since, "schedulable": False}
        nodes.append(node.model_copy(update=sick) if reason else node)
    return snapshot.model_copy(update={"nodes": tuple(nodes)})


@given(several_groups(least_nodes=2), st.data(), st.integers())
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_quick_look_finds_what_the_full_look_finds(
    monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot, data: st.DataObject, seed: int
) -> None:
    """Of settled groups, whatever then becomes of the disks."""
    world = World(snapshot, Random(seed))
    world.settle()
    found = with_disks(world.snapshot, data)
    quick = plan(found)
    with monkeypatch.context() as patch:
        patch.setattr(planning, "needs_nothing", lambda cluster, group: False)
        assert quick == plan(found)
