"""Scopes of actions, and what deciding about an object raised: the last line of defence of a decision."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from .actions import Action

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Scope:
    """Actions that are performed in order, up to the first that fails. ``name`` is for logs and metrics."""

    name: str
    actions: tuple[Action, ...]


def each(name: str, actions: Iterable[Action]) -> Iterator[Scope]:
    """Actions that do not build on each other, each in a scope of its own."""
    return (Scope(name, (action,)) for action in actions)


class Containment:
    """Keeps what goes wrong with one object from all others. ``errors``: scope -> what deciding about it raised."""

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
