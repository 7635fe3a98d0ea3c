"""Keeps what goes wrong with one object from all others: the last line of defence of a decision."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .objects import ObservedGroup, ObservedTable

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def group_scope(group: ObservedGroup) -> str:
    """The name of what is decided about a group, for logs and metrics."""
    return f"group {group.identity.namespace}/{group.identity.name}"


def table_scope(table: ObservedTable) -> str:
    """The name of what is decided about a table, for logs and metrics."""
    return f"table {table.identity.namespace}/{table.identity.name}"


class Containment:
    """What the parts of one decision raised, by the name of their scope."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}

    def run(
        self,
        scope: str,
        decide: Callable[Parameters, Result],
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result | None:
        """The part's result; None when it raised, which is remembered under its scope."""
        try:
            return decide(*arguments, **named)
        except Exception as error:  # noqa: BLE001 - whatever one object provokes must not reach the others
            self.errors.setdefault(scope, error)
            return None
