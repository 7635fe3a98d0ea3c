"""A ColocationGroup that is made, changed or deleted: what would become of its tables, and of its map?"""

from ..model.conditions import Reason
from ..model.snapshot import GroupState
from ..planner.cluster import Cluster
from ..planner.placement import sequence_problem, too_large
from ..planner.view import GroupView
from ..state.observation import ObservedGroup
from ..state.parse import parse_group
from .known import Known
from .objects import as_stored
from .review import Review, Verdict

LISTED_TABLES = 5


def judge_group(review: Review, known: Known) -> Verdict:
    """Refuse what the operator would refuse, with its reason and message, and what would take the map from tables."""
    if review.operation == "DELETE":
        return _judge_deletion(review, known)
    if review.object is None or not review.changes_spec:
        return Verdict()
    group = parse_group(as_stored(review, review.object))
    if group.spec is None:
        return Verdict.denied(Reason.INVALID_SPEC, f"{group.spec_error}; correct the spec")
    return _judge_members(group, known) or _judge_map(group, known) or Verdict()


def _judge_deletion(review: Review, known: Known) -> Verdict:
    name = review.name
    tables = known.membership.members.get((review.namespace, name), ())
    if tables:
        listed = _listed([f"{table.identity.namespace}/{table.identity.name}" for table in tables])
        message = f"tables are in group {name}: {listed}; delete them first, or move them by colocateWith"
        return Verdict.denied(Reason.GROUP_IN_USE, message)
    group = known.group(review.namespace, name)
    recycled = [f"{table.namespace}/{table.name}" for table in group.status.recycled] if group else []
    if recycled:
        lost = f"group {name} remembers tables of the recycle bin: {_listed(recycled)}; they will not be recoverable"
        return Verdict(warnings=(lost,))
    return Verdict()


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - LISTED_TABLES} more" if len(names) > LISTED_TABLES else ""
    return ", ".join(names[:LISTED_TABLES]) + more


def _judge_members(group: ObservedGroup, known: Known) -> Verdict | None:
    """Tables that the group takes today and would not take any more."""
    before, after = known.membership, known.with_group(group).membership
    for table in before.members.get(group.key, ()):
        refusal = after.refusals.get(table.identity.uid)
        if refusal is not None and table.identity.uid not in before.refusals:
            name = f"{table.identity.namespace}/{table.identity.name}"
            return Verdict.denied(refusal.reason, f"table {name} is in the group, and would not fit: {refusal.message}")
    return None


def _judge_map(group: ObservedGroup, known: Known) -> Verdict | None:
    """A map that would be too large, or that is set by hand, judged by the planner as its next pass will."""
    spec = group.spec
    if spec is None:
        return None
    namespace, name = group.key
    others = tuple(one for one in known.snapshot.groups if (one.namespace, one.name) != group.key)
    same = known.snapshot.find_group(group.key)
    changed = same.model_copy(update={"spec": spec}) if same else GroupState(namespace=namespace, name=name, spec=spec)
    view = GroupView(Cluster(known.snapshot.model_copy(update={"groups": (*others, changed)})), changed)
    if spec.bucket_sequence is not None:
        problem = sequence_problem(view, spec.bucket_sequence)
        return Verdict.denied(problem.reason, f"bucket {problem.bucket}: {problem.message}") if problem else None
    oversize = too_large(view)
    return Verdict.denied(Reason.INVALID_SPEC, oversize) if oversize else None
