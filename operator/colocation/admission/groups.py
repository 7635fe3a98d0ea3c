"""A ColocationGroup that is made, changed or deleted: what would become of its tables, and of its map?

Messages name no tables: anyone who reaches the port may ask about any group (``server``).
"""

from ..model.conditions import Reason
from ..model.group import ColocationGroupSpec
from ..model.snapshot import GroupState
from ..planner.cluster import Cluster, GroupKey, unknown_topology
from ..planner.placement import sequence_problem, too_large
from ..planner.transitions import nodes_lacked
from ..planner.view import GroupView
from ..state.objects import ObservedGroup
from ..state.parse import parse_group
from .known import Known
from .objects import as_stored
from .review import Review, Verdict


def judge_group(review: Review, known: Known) -> Verdict:
    """Refuse what the operator would refuse, with its reason and message, and what would take the map from tables."""
    if review.operation == "DELETE":
        return _judge_deletion(review, known)
    if review.object is None or not review.changes_spec:
        return Verdict()
    group = parse_group(as_stored(review, review.object))
    if group.spec is None:
        return Verdict.denied(Reason.INVALID_SPEC, f"{group.spec_error}; correct the spec")
    view = _view(group.key, group.spec, known)
    return _judge_members(group, known) or _judge_map(group.spec, view) or _warned(view, known)


def _view(key: GroupKey, spec: ColocationGroupSpec, known: Known) -> GroupView:
    """The group as the planner's next pass will see it."""
    namespace, name = key
    others = tuple(one for one in known.snapshot.groups if (one.namespace, one.name) != key)
    same = known.snapshot.find_group(key)
    changed = same.model_copy(update={"spec": spec}) if same else GroupState(namespace=namespace, name=name, spec=spec)
    return GroupView(Cluster(known.snapshot.model_copy(update={"groups": (*others, changed)})), changed)


def _warned(view: GroupView, known: Known) -> Verdict:
    """What the group would wait for, or do without, until somebody acts; later the operator reports it, too."""
    if not known.snapshot.nodes:
        return Verdict()
    unknown, lacked = unknown_topology(view.spec, known.snapshot.nodes), nodes_lacked(view)
    warnings = ((unknown and f"{unknown}; correct it, or label the nodes"), (lacked and f"the group waits: {lacked}"))
    return Verdict(warnings=tuple(filter(None, warnings)))


def _judge_deletion(review: Review, known: Known) -> Verdict:
    name = review.name
    tables = known.membership.members.get((review.namespace, name), ())
    if tables:
        message = (
            f"{_counted(len(tables))} in group {name} ({_where_listed(review.namespace, name, 'members')}); delete "
            "tables first, or move them by colocateWith"
        )
        return Verdict.denied(Reason.GROUP_IN_USE, message)
    group = known.group(review.namespace, name)
    if group and group.status.recycled:
        lost = (
            f"group {name} remembers {len(group.status.recycled)} of the recycle bin's tables "
            f"({_where_listed(review.namespace, name, 'recycled')}); they will not be recoverable"
        )
        return Verdict(warnings=(lost,))
    return Verdict()


def _counted(tables: int) -> str:
    return "1 table is" if tables == 1 else f"{tables} tables are"


def _where_listed(namespace: str, name: str, field: str) -> str:
    """How the author, with their own rights, sees which tables."""
    return f"kubectl get colocationgroup {name} -n {namespace} -o yaml: status.{field}"


def _judge_members(group: ObservedGroup, known: Known) -> Verdict | None:
    """Tables that the group takes today and would not take any more."""
    before, after = known.membership, known.with_group(group).membership
    for table in before.members.get(group.key, ()):
        refusal = after.refusals.get(table.identity.uid)
        if refusal is not None and table.identity.uid not in before.refusals:
            where = _where_listed(*group.key, "members")
            message = f"a table that is in the group ({where}) would not fit: {refusal.message}"
            return Verdict.denied(refusal.reason, message)
    return None


def _judge_map(spec: ColocationGroupSpec, view: GroupView) -> Verdict | None:
    """A map that would be too large, or that is set by hand, judged by the planner as its next pass will."""
    if spec.bucket_sequence is not None:
        problem = sequence_problem(view, spec.bucket_sequence)
        return Verdict.denied(problem.reason, f"bucket {problem.bucket}: {problem.message}") if problem else None
    oversize = too_large(view)
    return Verdict.denied(Reason.INVALID_SPEC, oversize) if oversize else None
