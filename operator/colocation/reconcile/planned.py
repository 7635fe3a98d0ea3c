"""The plan of a pass: what the planner makes of the snapshot, kept safe, and kept from what one group provokes."""

from ..model.plan import Plan
from ..model.snapshot import Snapshot
from ..planner import plan_contained, without_violations
from ..state.containment import Containment

CHECK_OF_PLANS = "check of plans"


def planned(snapshot: Snapshot, containment: Containment) -> Plan:
    """The plan of all groups; one that cannot be planned does nothing, and is remembered in ``containment``."""
    made, failures = plan_contained(snapshot)
    for (namespace, name), error in failures.items():
        containment.errors.setdefault(f"plan of group {namespace}/{name}", error)
    checked = containment.run(CHECK_OF_PLANS, lambda: without_violations(snapshot, made))
    return _idle(made) if checked is None else checked


def _idle(plan: Plan) -> Plan:
    """The verdicts alone: what could not be checked is not carried out."""
    nothing: dict[str, object] = {"start_now": (), "next_map": None, "drops": (), "cancel": ()}
    return Plan(groups=tuple(group.model_copy(update=nothing) for group in plan.groups))
