"""The session's queries, one after the other, as long as the run goes on."""

import itertools
import threading
from collections.abc import Sequence
from random import Random
from typing import Any

from .fault_kinds import matches
from .history import FAIL, INFO, OK, History
from .judge_rows import TRESPASS
from .rows import QUERIES, TABLES_OF
from .scene import FOREIGN, FOREIGN_TABLE, NAMESPACE
from .session import NoAnswer, Session, SessionError
from .work import Work

QUERY_SECONDS = 240
PAUSE_SECONDS = (0.2, 2.0)
LONG_SECONDS = 100.0
"""Between planning and run of a query that a burst of commits overtakes; see ``Work._burst``."""
QUERIES_BETWEEN_TRESPASSES = 20
OLDER = 3
"""So many older snapshots are asked for; each a third as often as the newest."""


class Queries:
    """Mixed queries over the tables that may be there."""

    def __init__(self, history: History, session: Session, work: Work) -> None:
        self._history, self._session, self._work = history, session, work
        self._random = Random(f"queries {work.seed}")
        self.answered = 0

    def run(self, stop: threading.Event) -> None:
        """Until ``stop``. A lost session is replaced."""
        for number in itertools.count():
            if stop.wait(self._random.uniform(*PAUSE_SECONDS)):
                return
            if number % QUERIES_BETWEEN_TRESPASSES == 0:
                self._trespass()
            tables = list(self._work.tables)
            query = self._random.choice([*QUERIES, "content"])
            chosen = [self._random.choice(tables) for _ in range(TABLES_OF[query])] if tables else []
            kept = self._work.history_of.get(chosen[0]) if chosen and TABLES_OF[query] == 1 else None
            older = self._random.choice([*[None] * OLDER, *([*kept.manifests][:OLDER] if kept else ())])
            wanted: dict[str, Any] = {}
            if kept and older:
                wanted = {"wanted": kept.manifests[older], "asked_at": kept.asked_at}
            if chosen and not self.one(query, chosen, older, **wanted):
                self._session.revive(stop)
            self._session.settle_finished()

    def _trespass(self) -> None:
        """Ask for a table of a namespace in which the session may do nothing."""
        number = self._history.invoke("queries", TRESPASS, namespace=FOREIGN, tables=[FOREIGN_TABLE])
        statement = f"SELECT count(*) FROM `{FOREIGN}`.`{FOREIGN_TABLE}`"
        try:
            answer = self._session.ask(number, QUERY_SECONDS, do="query", statement=statement)
        except NoAnswer as error:
            self._history.note("queries", INFO, TRESPASS, number, error=str(error))
        except SessionError as error:
            self._history.note("queries", FAIL, TRESPASS, number, error=str(error))
        else:
            self._history.note("queries", OK, TRESPASS, number, rows=answer["rows"])

    def long_one(self, table: str) -> None:
        """A query that is planned now and runs much later, next to the others."""
        self.one("content", [table], pause_seconds=LONG_SECONDS)

    def one(
        self, query: str, tables: Sequence[str], older: int | None = None, pause_seconds: float = 0, **wanted: Any
    ) -> bool:
        """Ask one query; whether the session goes on: it answered, be it with an error that does not say otherwise.

        ``older``: the snapshot's id, if it is to be another than the newest; ``wanted``: its manifest, and when the
        list was asked for that reports it (see ``RowsJudge``). ``pause_seconds``: between its planning and its run.
        """
        number = self._history.invoke("queries", "query", query=query, tables=list(tables), older=older, **wanted)
        version = f" VERSION AS OF {older}" if older else ""
        statement = QUERIES[query].format(*(f"`{table}`{version}" for table in tables))
        try:
            answer = self._session.ask(
                number, QUERY_SECONDS, do="query", statement=statement, pause_seconds=pause_seconds
            )
        except NoAnswer as error:
            self._history.note("queries", INFO, "query", number, error=str(error))
            return False
        except SessionError as error:
            self._history.note("queries", FAIL, "query", number, error=str(error))
            if matches("TokenRefused", str(error)):
                self._session.give_up()  # as its error asks: "start the application again"
                return False
            return True
        self.answered += 1
        read = read_from(answer["locations"], tables)
        self._history.note("queries", OK, "query", number, rows=answer["rows"], **read)
        return True


def read_from(locations: Sequence[str], tables: Sequence[str]) -> dict[str, Any]:
    """Of each table the manifest that was read, and the namespaces that its files are of.

    A location is ``coloc://<namespace>/<table>-<uid8>/<manifest>``.
    """
    manifests: dict[str, str] = {}
    namespaces: dict[str, list[str]] = {}
    for location in locations:
        namespace, folder, manifest = location.removeprefix("coloc://").split("/")[:3]
        table = folder.rpartition("-")[0]
        if table in tables:
            manifests[table] = manifest
        namespaces.setdefault(table, []).append(namespace)
    return {"manifests": manifests, "namespaces": namespaces, "namespace": NAMESPACE}
