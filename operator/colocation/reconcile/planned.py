"""The plan of a pass: what the planner makes of the snapshot, kept safe, and kept from what one group provokes."""

from functools import partial

from ..model.conditions import Reason
from ..model.plan import BucketProblem, GroupPlan, Plan
from ..model.snapshot import GroupState, Snapshot
from ..planner import plan, without_violations
from ..state.containment import Containment


def planned(snapshot: Snapshot, containment: Containment) -> Plan:
    """The plan of all groups; one that cannot be planned does nothing, and is remembered in ``containment``."""
    made = containment.run("plan", lambda: without_violations(snapshot, plan(snapshot)))
    if made is not None:
        return made
    sound = tuple(
        group
        for group in snapshot.groups
        if containment.run(f"group {group.namespace}/{group.name}", partial(_alone, snapshot, group))
    )
    rest = snapshot.model_copy(update={"groups": sound})
    by_key = {(one.namespace, one.name): one for one in without_violations(rest, plan(rest)).groups}
    return Plan(
        groups=tuple(by_key.get((group.namespace, group.name)) or _nothing(group) for group in snapshot.groups)
    )


def _alone(snapshot: Snapshot, group: GroupState) -> Plan:
    only = snapshot.model_copy(update={"groups": (group,)})
    return without_violations(only, plan(only))


def _nothing(group: GroupState) -> GroupPlan:
    problem = BucketProblem(bucket=0, reason=Reason.INTERNAL_ERROR, message="the group cannot be planned")
    return GroupPlan(
        namespace=group.namespace, name=group.name, stable=False, reason=Reason.INTERNAL_ERROR, stalled=problem
    )
