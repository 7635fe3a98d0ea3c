"""An agent that runs on another disk than its node's gets nothing to keep, and proves nothing."""

from dataclasses import replace

from colocation.model.agent import DiskReport
from colocation.model.group import RememberedDisk
from colocation.reconcile.actions import WriteConfigMap
from colocation.state.observation import Observation

from .scenes import NODES, actions_of, decided, quiet_observation


def without_disks(*names: str) -> Observation:
    """Their agents tell of other disks than the group remembers there: nothing is mounted at the data root."""
    observation = quiet_observation("orders")
    [group] = observation.groups
    uids = {node.name: node.uid[:8] for node in observation.nodes}
    own = {name: f"{number:016x}" for number, name in enumerate(NODES, start=1)}
    remembered = tuple(RememberedDisk(node=name, node_uid=uids[name], disk=own[name]) for name in NODES)
    group = replace(group, status=group.status.model_copy(update={"disks": remembered}))
    views = dict(observation.agent_views)
    for name in NODES:
        report = views[name].report
        assert report is not None
        disk = DiskReport(id=own[name][::-1] if name in names else own[name])
        views[name] = replace(views[name], report=report.model_copy(update={"disk": disk}))
    return replace(observation, groups=(group,), agent_views=views)


def agents_for_loads(observation: Observation) -> set[str]:
    [written] = actions_of(decided(observation), WriteConfigMap)
    return set(written.content.agent_urls)


def test_no_load_goes_to_the_folder_below_a_mount_point() -> None:
    """Not even when no other node is left: its rows would be gone once the disks are back."""
    assert agents_for_loads(without_disks("node-1")) == {"node-2", "node-3"}
    assert agents_for_loads(without_disks(*NODES)) == set()
