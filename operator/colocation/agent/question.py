"""Pure: the operator's question as the agent remembers it, and how the next one follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from colocation.model.agent import AskedTable, InventoryRequest, TableReference


class UnknownQuestion(Exception):
    """A question is based on one that is not remembered; it has to be asked in full."""


@dataclass(frozen=True)
class Question:
    """What was asked last. ``tables`` by '<namespace>/<directory>'."""

    session: str
    number: int
    term: int
    tables: Mapping[str, AskedTable] = field(default_factory=dict)


def key_of(reference: TableReference) -> str:
    """A table as reports and questions name it."""
    return f"{reference.namespace}/{reference.directory}"


def next_question(before: Question | None, request: InventoryRequest) -> Question:
    """The question that a request asks, after the one that is remembered.

    A request may come twice (its answer was lost): the second time it changes nothing.

    Raises:
        UnknownQuestion: its base is not the question that is remembered, or it is older than that.
    """
    same_session = before is not None and before.session == request.session
    if before is not None and same_session and request.number < before.number:
        raise UnknownQuestion(f"question {request.number} is older than {before.number}, the newest; ask in full")
    if request.base is None:
        tables: Mapping[str, AskedTable] = {key_of(asked.reference): asked for asked in request.changed}
    else:
        if before is None or not same_session:
            raise UnknownQuestion(f"session {request.session!r} is not remembered; ask in full")
        tables = _changed(before.tables, request)
        if request.base != before.number and (request.number != before.number or tables != before.tables):
            raise UnknownQuestion(
                f"question {request.base} is not remembered, the newest is {before.number}; ask in full"
            )
    return Question(request.session, request.number, request.term, tables)


def tables_that_differ(before: Question | None, now: Question) -> frozenset[str]:
    """The tables about which two questions say something different, or which only one of them names."""
    known = before.tables if before is not None else {}
    if known is now.tables:
        return frozenset()
    return frozenset(key for key in known.keys() | now.tables.keys() if known.get(key) != now.tables.get(key))


def _changed(tables: Mapping[str, AskedTable], request: InventoryRequest) -> Mapping[str, AskedTable]:
    if not (request.changed or request.removed):
        return tables
    kept = {key: asked for key, asked in tables.items() if key not in request.removed}
    return kept | {key_of(asked.reference): asked for asked in request.changed}
