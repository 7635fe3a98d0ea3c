"""Judges rows: no committed row is lost, every answer is the model's for the snapshot that the session read."""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice, product
from math import prod

from .history import FAIL, INVOKE, OK, Event
from .model import Branch, Seen, TableModel, Write
from .rows import Content, Oracle, Row, as_rows, oracle
from .violations import Violation

MOST_COMBINATIONS = 256
"""Of possible contents of a query's tables: writes with unknown outcome are few, so that these are few. Of more, an
answer that fits none of the first ones proves nothing.
"""
DROPPED = frozenset({"TableNotFound", "NotReady", "NoReplica"})
"""What operations may end with whose table may be dropped meanwhile, or is being brought back."""
MOVE_SECONDS = 60
"""So long after a move was asked for, the operator may put the table into its new group, under a load that runs."""
SAVE, RESTORED, ADOPT, SETTLED, QUERY, TRESPASS = "save-etcd", "restored", "adopt", "settled", "query", "trespass"


@dataclass(frozen=True)
class Ended:
    """An operation that is over. ``excuses``: errors that it may end with because of other work."""

    began: Event
    event: Event
    excuses: frozenset[str]


@dataclass
class RowsJudge:
    """Follows the history event by event. ``queries``: answers that were checked; ``unchecked``: the others, of older
    snapshots whose rows no one has seen, or of too many possible contents. ``_restored_at``: when etcd was. ``_early``:
    operations that began while their table may not have been there.
    """

    violations: list[Violation] = field(default_factory=list)
    queries: int = 0
    unchecked: int = 0
    _tables: dict[str, TableModel] = field(default_factory=lambda: defaultdict(TableModel))
    _oracle: Oracle = field(default_factory=oracle)
    _pinned: dict[str, Content] = field(default_factory=dict)
    _running: dict[int, Event] = field(default_factory=dict)
    _crowded: set[int] = field(default_factory=set)
    _early: set[int] = field(default_factory=set)
    _moved: dict[str, float] = field(default_factory=dict)
    _saved: dict[str, frozenset[Branch]] = field(default_factory=dict)
    _restored_at: float = -1.0

    def take(self, event: Event) -> Ended | None:
        """An event; when an operation ends with it, what that was."""
        if event.name == SAVE:
            self._take_save(event)
        elif event.name == RESTORED:
            self._restored_at = event.at_seconds
            for name, table in self._tables.items():
                table.restore(self._saved.get(name, ()))
        elif event.name == ADOPT:
            for table in self._tables.values():
                if event.kind == INVOKE:
                    table.begin_adopt()
                else:
                    table.end_adopt()
        elif event.name == SETTLED:
            self._settle(event)
        elif event.process in ("work", "queries"):
            return self._take_operation(event)
        return None

    def _take_save(self, event: Event) -> None:
        if event.kind == INVOKE:
            for table in self._tables.values():
                table.begin_save()
        elif event.kind == OK:
            self._saved = {name: table.end_save() for name, table in self._tables.items()}

    def _settle(self, event: Event) -> None:
        for table in self._tables.values():
            for number in set(event.detail["numbers"]) & set(table.open):
                table.settle(number)

    def _take_operation(self, event: Event) -> Ended | None:
        if event.kind == INVOKE:
            self._running[event.number] = event
            self._begin(event)
            return None
        began = self._running.pop(event.number)
        return self._end_query(began, event) if event.name == QUERY else self._end_write(began, event)

    def _begin(self, event: Event) -> None:
        if event.name == QUERY:
            for name in set(event.detail["tables"]):
                self._tables[name].begin_read(event.number)
        elif "table" in event.detail:
            table = self._tables[event.detail["table"]]
            if table.open:
                self._crowded |= {event.number, *table.open}
            parts = tuple(event.detail.get("parts", ()))
            write = Write(event.name, event.detail["table"], parts, event.detail.get("batch", 0))
            if None in table.contents():
                self._early.add(event.number)
            table.begin(event.number, write)

    # Writes

    def _end_write(self, began: Event, event: Event) -> Ended:
        """A group may vanish with its last table before its replicas are changed."""
        excuses: set[str] = set()
        if began.name == "replicas":
            excuses.add("TableNotFound")
        if "table" in began.detail:
            table = self._tables[began.detail["table"]]
            if None in table.contents() or event.number in self._early:
                excuses |= DROPPED
            if table.may_have_dropped_nothing(event.number):
                excuses.add("NothingDropped")
            if table.may_be_there_already(event.number):
                excuses.add("TableExists")
            name = began.detail["table"]
            if began.name == "move":
                self._moved[name] = event.at_seconds
            elif began.at_seconds < self._moved.get(name, -math.inf) + MOVE_SECONDS:
                excuses.add("LoadConflict")
            if event.number in self._crowded:
                excuses |= {"LoadConflict", "NotReady", "SchemaMismatch"}
            if event.kind == OK:
                table.happened(event.number)
            elif event.kind == FAIL:
                table.did_not_happen(event.number)
            if not table.branches:
                self._contradiction(began, event, table)
        return Ended(began, event, frozenset(excuses))

    def _contradiction(self, began: Event, event: Event, table: TableModel) -> None:
        """Earlier reads and this outcome cannot both be."""
        said = "succeeded, and its rows were not seen" if event.kind == OK else "failed, and its rows were seen"
        self._say("RowsLost" if event.kind == OK else "FailedWriteHappened", event, f"{began.name} {said}", began)
        table.branches, table.open = {Branch()}, {}

    # Queries

    def _end_query(self, began: Event, event: Event) -> Ended:
        names = list(began.detail["tables"])
        reads = {name: self._tables[name].end_read(event.number) for name in dict.fromkeys(names)}
        excuses: set[str] = set(DROPPED if any(None in seen for seen, _ in reads.values()) else ())
        if began.detail.get("older"):
            excuses.add("SnapshotNotKept")
        if event.kind == OK:
            self.queries += 1
            self._check_version(began, event)
            known = self._check_answer(began, event, names, {name: seen for name, (seen, _) in reads.items()})
            for name, content in known.items():
                if reads[name][1] and not began.detail.get("older"):
                    self._narrow(name, content)
        return Ended(began, event, frozenset(excuses))

    def _check_version(self, began: Event, event: Event) -> None:
        """An older snapshot is the one that has the id: ``{"older": id, "wanted": its manifest, "asked_at": seconds}``.
        After a restored etcd, another one may have it.
        """
        wanted, [name, *_] = began.detail.get("wanted"), began.detail["tables"]
        read = event.detail["manifests"].get(name)
        if wanted and read and read != wanted and began.detail["asked_at"] > self._restored_at:
            said = f"snapshot {began.detail['older']} of {name} is {wanted[:12]}, and {read[:12]} was read"
            self._say("WrongAnswer", event, said, began)

    def _narrow(self, name: str, content: Content) -> None:
        """Only where it is possible: else it has been said already."""
        if content in self._tables[name].contents():
            self._tables[name].narrow(content)

    def _check_answer(
        self, began: Event, event: Event, names: list[str], seen: dict[str, Seen]
    ) -> dict[str, Content]:
        """What the tables held, as far as the answer tells."""
        rows, manifests = as_rows(event.detail["rows"]), event.detail["manifests"]
        candidates = {name: self._candidates(began, event, name, seen[name]) for name in names}
        if not all(candidates.values()):
            self._leave_unchecked()
            return {}
        combinations = product(*(sorted(contents, key=sorted) for contents in candidates.values()))
        chosen = [dict(zip(candidates, one, strict=True)) for one in islice(combinations, MOST_COMBINATIONS)]
        query = began.detail["query"]
        fits = [one for one in chosen if self._oracle.answer(query, tuple(one[name] for name in names)) == rows]
        if not fits and prod(map(len, candidates.values())) > MOST_COMBINATIONS:
            self._leave_unchecked()
            return {}
        if not fits:
            self._wrong_answer(began, event, rows, candidates)
            return {}
        known = {name: fits[0][name] for name in candidates if len({one[name] for one in fits}) == 1}
        for name, content in known.items():
            if manifests.get(name):
                self._pinned.setdefault(manifests[name], content)
        return known

    def _leave_unchecked(self) -> None:
        self.queries -= 1
        self.unchecked += 1

    def _candidates(self, began: Event, event: Event, name: str, seen: Seen) -> set[Content]:
        """The contents that the table may have had for this query; empty: nothing to check, or it was said why not."""
        possible = {content for content in seen if content is not None}
        pinned = self._pinned.get(event.detail["manifests"].get(name) or "")
        if began.detail.get("older"):
            return {pinned} if pinned is not None else set()
        if pinned is not None and pinned not in possible:
            self._say_lost(event, began, name, pinned, possible)
            return set()
        if not possible:
            self._say("WrongAnswer", event, f"a query of {name} was answered, but there is no such table", began)
        return {pinned} if pinned is not None else possible

    def _wrong_answer(
        self, began: Event, event: Event, rows: tuple[Row, ...], candidates: dict[str, set[Content]]
    ) -> None:
        [name, *others] = candidates
        if began.detail["query"] == "content" and not others:
            found = frozenset((int(row[0]), int(row[1])) for row in rows)
            if all(found != content for content in candidates[name]):
                self._say_lost(event, began, name, found, candidates[name])
                return
        said = f"{began.detail['query']} over {', '.join(candidates)}: {len(rows)} rows are no answer of the model's"
        self._say("WrongAnswer", event, said, began)

    def _say_lost(self, event: Event, began: Event, name: str, found: Content, possible: set[Content]) -> None:
        """Which cells every possible content has and this one lacks; or it has some that none should have."""
        lost = frozenset.intersection(*possible) - found if possible else frozenset[tuple[int, int]]()
        alien = found - frozenset().union(*possible)
        if lost:
            self._say("RowsLost", event, f"{name} lacks (partition, batch) {_named(lost)}", began)
        elif alien:
            said = f"{name} has (partition, batch) {_named(alien)}, which it should not have (any more)"
            self._say("RowsFromNowhere", event, said, began)
        else:
            said = f"{name} has {_named(found)}; possible: {'; or '.join(_named(one) for one in list(possible)[:4])}"
            self._say("WrongAnswer", event, said, began)

    def _say(self, check: str, event: Event, message: str, began: Event) -> None:
        about = began.detail.get("tables") or [began.detail.get("table", "")]
        self.violations.append(Violation(check, event.at_seconds, message, tuple(about), event.number))


def _named(content: Content) -> str:
    return ", ".join(map(str, sorted(content)[:12])) + (" …" if len(content) > 12 else "") or "no rows"


