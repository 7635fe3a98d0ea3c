"""A ColocatedTable that is made or changed: would its group take it?"""

from ..model.conditions import Reason
from ..model.schema_check import schema_of
from ..state.parse import parse_table
from .known import Known
from .objects import as_stored
from .review import Review, Verdict

PASSING = frozenset({Reason.RECOVERING, Reason.PURGED, Reason.INVALID_STATUS})
"""Refusals that are states of a table, which its author did not ask for and cannot avoid."""


def judge_table(review: Review, known: Known) -> Verdict:
    """Refuse what the operator would refuse, with its reason and message (``Accepted=False``)."""
    if review.operation == "DELETE" or review.object is None or not review.changes_spec:
        return Verdict()
    table = parse_table(as_stored(review, review.object))
    membership = known.with_table(table).membership
    refusal = membership.refusals.get(table.identity.uid)
    if refusal is not None and refusal.reason not in PASSING:
        return Verdict.denied(refusal.reason, refusal.message)
    key = membership.wanted.get(table.identity.uid)
    orphans = membership.orphans.get(key, ()) if key else ()
    if key and orphans and not any(one.spec and schema_of(one.spec, one.status) for one in orphans):
        # No refusal: the group may be the next object in the same file.
        return Verdict(
            warnings=(f"group {'/'.join(key)} does not exist, and no table gives its buckets and replicas: "
                      "the table waits for buckets and replicas, or for the group",)
        )  # fmt: skip
    return Verdict()

