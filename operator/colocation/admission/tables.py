"""A ColocatedTable that is made or changed: would its group take it?"""

from typing import Any

from ..kube.observation import ObservedTable
from ..kube.parse import parse_table
from ..model.conditions import Reason
from ..model.schema_check import schema_of
from ..model.schema_evolution import refused_change
from .known import Known
from .objects import as_stored
from .review import Review, Verdict

PASSING = frozenset({Reason.RECOVERING, Reason.PURGED})
"""Refusals that are states of a table, which its author did not ask for and cannot avoid."""


def judge_table(review: Review, known: Known) -> Verdict:
    """Refuse what the operator would refuse, with its reason and message (``Accepted=False``)."""
    if review.operation == "DELETE" or review.object is None or not review.changes_spec:
        return Verdict()
    table = parse_table(as_stored(review, review.object))
    refused = _refused_columns(review.old_object, review, table)
    if refused:
        return Verdict.denied(Reason.INVALID_SPEC, refused)
    membership = known.with_table(table).membership
    refusal = membership.refusals.get(table.identity.uid)
    if refusal is not None and refusal.reason not in PASSING:
        return Verdict.denied(refusal.reason, refusal.message)
    key = membership.wanted.get(table.identity.uid)
    orphans = membership.orphans.get(key, ()) if key else ()
    if key and orphans and not any(one.spec and schema_of(one.spec, one.status) for one in orphans):
        # No refusal: the group may be the next object in the same file.
        return Verdict(
            warnings=(f"group {'/'.join(key)} does not exist, and no table says what it should be: the table waits for "
                      "buckets and replicas, or for the group",)
        )  # fmt: skip
    return Verdict()


def _refused_columns(old_object: dict[str, Any] | None, review: Review, table: ObservedTable) -> str:
    """Why files that are there would not fit the new columns; empty when they do, or there are none."""
    if old_object is None or table.spec is None:
        return ""
    before = parse_table(as_stored(review, old_object))
    if before.spec is None or before.status.snapshot is None:
        return ""
    problems = refused_change(before.spec.columns, table.spec.columns)
    if not problems:
        return ""
    return (
        f"columns cannot change like this while the table has files: {problems}; add nullable columns, or rename one "
        "and give its first name as storedAs"
    )
