"""The checks of a table against its group's schema, and of a change of its columns. Pure, one rule for all callers.

A group's schema (CGS): in Doris' order and words, with both values and the group's name. Source: Doris, "Principle" and
"Usage"; Doris' ``ColocateGroupSchema``: bucket count (here a table may have a multiple of it), number of bucket
columns, type per position, replica count. Names of columns are not compared; partitions may differ.

Columns: files are read by column name, and a column that a file lacks reads as NULL. So a nullable column can be added;
a column can be renamed, if only to another case, when its name in the files stays (``storedAs``), and its place in the
list does not matter. Everything else would change or hide existing rows.
"""

from collections.abc import Sequence
from typing import NamedTuple

from .base import Frozen
from .conditions import Reason
from .group import ColocationGroupSpec
from .table import ColocatedTableSpec, ColocatedTableStatus, Column


class Refusal(Frozen):
    """Why a group does not take a table."""

    reason: str
    message: str


def check_schema(group_name: str, group: ColocationGroupSpec, table: ColocatedTableSpec) -> Refusal | None:
    """The first difference between the table and the group's schema, or None when the table fits."""
    difference = _first_difference(group, table)
    return None if difference is None else _mismatch(group_name, difference)


def _mismatch(group_name: str, difference: str) -> Refusal:
    message = f"{difference}, as in group {group_name}; change the table or name another group in colocateWith"
    return Refusal(reason=Reason.SCHEMA_MISMATCH, message=message)


def check_member(
    group_name: str, group: ColocationGroupSpec, table: ColocatedTableSpec, status: ColocatedTableStatus
) -> Refusal | None:
    """As ``check_schema``, for a table that is in the group already.

    The replicas that it was accepted with stay right when the group's are raised or lowered; others are refused.
    """
    unchanged = table.replicas == status.replicas
    return check_schema(group_name, group, table.model_copy(update={"replicas": None}) if unchanged else table)


def check_newcomer(
    group_name: str, group: ColocationGroupSpec, table: ColocatedTableSpec, status: ColocatedTableStatus
) -> Refusal | None:
    """As ``check_schema``, for a table that comes from another group: its files are named for that group's buckets."""
    loaded = status.buckets if status.snapshot else None
    if loaded not in (None, group.buckets):
        return _mismatch(group_name, f"Colocate tables must have same bucket num: {loaded} should be {group.buckets}")
    return check_schema(group_name, group, table)


class Differences(NamedTuple):
    """What is wrong with a table. ``columns``: of its files; ``schema``: of its group."""

    columns: Refusal | None
    schema: Refusal | None


def check_table(
    group_name: str,
    group: ColocationGroupSpec | None,
    table: ColocatedTableSpec,
    status: ColocatedTableStatus,
    is_member: bool,
    accepted: Sequence[Column] | None,
) -> Differences:
    """All that is wrong with a table that is in a group or is to be in it.

    ``group``: None = not known. ``accepted``: the columns of its files; None = it has none, or they are not known.
    """
    columns = None if accepted is None else check_columns(accepted, table.columns)
    if group is None:
        return Differences(columns, None)
    if is_member:
        return Differences(columns, check_member(group_name, group, table, status))
    if status.group is not None:
        return Differences(columns, check_newcomer(group_name, group, table, status))
    return Differences(columns, check_schema(group_name, group, table))


def check_columns(accepted: Sequence[Column], wanted: Sequence[Column]) -> Refusal | None:
    """Whether files that fit the columns ``accepted`` fit ``wanted``, too; None when they do."""
    problems = None if accepted == wanted else refused_change(accepted, wanted)
    if problems is None:
        return None
    message = (
        f"columns cannot change like this while the table has files: {problems}; add nullable columns, or rename one "
        "and give its first name as storedAs"
    )
    return Refusal(reason=Reason.INVALID_SPEC, message=message)


def _as_loaded(table: ColocatedTableSpec, status: ColocatedTableStatus) -> ColocatedTableSpec:
    """The table with the bucket count of its files."""
    return table.model_copy(update={"buckets": status.buckets}) if status.snapshot and status.buckets else table


def _first_difference(group: ColocationGroupSpec, table: ColocatedTableSpec) -> str | None:
    if table.buckets is not None and table.buckets % group.buckets != 0:
        wanted = f"{group.buckets} or a multiple of it"
        return f"Colocate tables must have same bucket num: {table.buckets} should be {wanted}"
    types = table.bucket_key_types
    if len(types) != len(group.bucket_key):
        return f"Colocate tables distribution columns size must be same: {len(types)} should be {len(group.bucket_key)}"
    for column, given, wanted in zip(table.bucketed_by, types, group.bucket_key, strict=True):
        if given != wanted:
            return (
                f"Colocate tables distribution columns must have the same data type: {given} should be {wanted} "
                f"(column {column})"
            )
    if table.replicas not in (None, group.replicas):
        return f"Colocate tables must have same replication num: {table.replicas} should be {group.replicas}"
    return None


def schema_of(table: ColocatedTableSpec, status: ColocatedTableStatus) -> ColocationGroupSpec | None:
    """The group that a table makes when it names one that is missing; None when it does not say enough.

    What the spec leaves out is as it was in the group that the table was in before.
    Source: Doris, "Table creation": the parent table's data distribution determines the CGS.
    """
    buckets = _as_loaded(table, status).buckets or status.buckets
    replicas = table.replicas or status.replicas
    if buckets is None or replicas is None:
        return None
    return ColocationGroupSpec(bucket_key=table.bucket_key_types, buckets=buckets, replicas=replicas)


def refused_change(stored: Sequence[Column], wanted: Sequence[Column]) -> str | None:
    """Why files with the columns ``stored`` do not fit a table with the columns ``wanted``; None when they do.

    The text has both values; what to do depends on the caller, who adds it.
    """
    by_name = {column.stored_name.lower(): column for column in wanted}
    problems = []
    for column in stored:
        successor = by_name.pop(column.stored_name.lower(), None)
        if successor is None:
            problems.append(f"column {column.name} ({column.type}) exists and is no longer in the spec")
        elif successor.stored_type != column.stored_type:
            problems.append(f"column {successor.name} has type {column.type} and should be {successor.type}")
        elif successor.stored_name != column.stored_name:
            problems.append(
                f"column {successor.name} is called {column.stored_name} in its files, and storedAs should say so"
            )
        elif column.nullable and not successor.nullable:
            problems.append(f"column {successor.name} may hold NULL and should not")
    problems.extend(
        f"column {column.name} ({column.type}) is new and would have to be nullable"
        for column in by_name.values()
        if not column.nullable
    )
    return "; ".join(problems) or None
