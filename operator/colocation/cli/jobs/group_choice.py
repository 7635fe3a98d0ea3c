"""Beside which group a statement runs: that of the tables that it names. Pure.

Any group will do for a right answer: the choice decides which tables lie on the executors' own disks.
"""

import re
from collections.abc import Container, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ...model.names import LABEL_PRIVATE
from ...model.salvage import salvage
from ...model.table import ColocatedTableStatus
from ...submit import ManifestError
from .table_jobs import placed_by

Json = Mapping[str, Any]

_TEXT_OR_COMMENT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"`[^`]+`|\w+")
HOW_TO_MAKE_ONE = (
    "make one with its tables, as in docs/tutorial.md#5-a-group-and-two-tables (kubectl apply -f FILE -n {namespace})"
)


def choose_group(statement: str, namespace: str, groups: Sequence[Json], tables: Sequence[Json]) -> str:
    """The group of the tables that the statement names, else one that has tables, else any.

    Of several, the one with the most bytes of these tables. Groups that the operator made for one table in no group
    count only where there is no other.

    Args:
        statement: SQL.
        namespace: the namespace that the statement's tables are of, for the message.
        groups: its groups.
        tables: its tables, some of which may be in groups of other namespaces.

    Raises:
        ManifestError: there is no group.
    """
    own = {str(item["metadata"]["name"]): 0 for item in groups}
    private = {str(item["metadata"]["name"]) for item in groups if is_private(item)}
    names = names_in(statement)
    named = [table for table in tables if str(table["metadata"]["name"]).lower() in names]
    for weights in (_bytes_by_group(named, own), _bytes_by_group(tables, own), own):
        if weights:
            return min(weights, key=lambda name: (name in private, -weights[name], name))
    raise ManifestError(
        f"namespace {namespace!r} has no group to run beside: {HOW_TO_MAKE_ONE.format(namespace=namespace)}"
    )


def names_in(statement: str) -> frozenset[str]:
    """All names in a statement, in lower case: of tables, columns, functions and the language itself."""
    found = _NAME.findall(_TEXT_OR_COMMENT.sub(" ", statement))
    return frozenset(name.strip("`").lower() for name in found)


def _bytes_by_group(tables: Sequence[Json], own: Container[str]) -> dict[str, int]:
    """By group, among them those of other namespaces; a group of this one that is not there does not count."""
    weights: dict[str, int] = {}
    for table in tables:
        place = readable_place(table)
        if place in own or "/" in place:
            status, _ = salvage(ColocatedTableStatus, table.get("status"))
            loaded = status.snapshot.bytes if status.snapshot else 0
            weights[place] = weights.get(place, 0) + loaded
    return weights


def readable_place(table: Json) -> str:
    """The group that places a table; empty when its spec cannot be read, which hinders no statement on others."""
    try:
        return placed_by(dict(table))
    except ValidationError:
        return ""


def is_private(group: Json) -> bool:
    """Whether the operator made the group for one table that is in no group."""
    return (group["metadata"].get("labels") or {}).get(LABEL_PRIVATE) == "true"
