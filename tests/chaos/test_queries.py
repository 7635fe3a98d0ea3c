"""What queries ask for."""

import threading
from typing import Any

import pytest

from . import queries
from .history import INVOKE, OK, History
from .queries import Queries
from .rows import TABLES_OF
from .session import Session
from .work import Work

KEPT = {"id": 3, "manifest": "sha256:aa"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Queries of a table with an older snapshot, as the history tells them. The list was asked for at 4 seconds."""
    history, stop = History(), threading.Event()
    session = Session(history)
    work = Work(history, session, 1, tables=["t"])
    work.sync([{"metadata": {"name": "t"}, "spec": {}, "status": {"history": [KEPT]}}], [], 4.0)

    def answer(*_words: Any, **_more: Any) -> dict[str, Any]:
        if len(history.events) > 200:
            stop.set()
        return {"rows": [], "locations": []}

    monkeypatch.setattr(session, "ask", answer)
    monkeypatch.setattr(session, "settle_finished", lambda: None)
    monkeypatch.setattr(queries, "PAUSE_SECONDS", (0.0, 0.0))
    Queries(history, session, work).run(stop)
    return [dict(event.detail) for event in history.events if event.kind == INVOKE and event.name == "query"]


def test_a_long_query_is_planned_long_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the session, so that it is planned on the snapshot of now; it is judged as any other."""
    history, requests = History(), list[dict[str, Any]]()
    session = Session(history)

    def answer(*_words: object, **request: Any) -> dict[str, Any]:
        requests.append(request)
        return {"rows": [], "locations": []}

    monkeypatch.setattr(session, "ask", answer)
    Queries(history, session, Work(history, session, 1, tables=["t"])).long_one("t")
    assert [request["pause_seconds"] for request in requests] == [queries.LONG_SECONDS]
    assert queries.LONG_SECONDS < queries.QUERY_SECONDS / 2
    assert [event.kind for event in history.events if event.name == "query"] == [INVOKE, OK]


def test_a_query_of_an_older_snapshot_reports_which_manifest_it_wants(asked: list[dict[str, Any]]) -> None:
    """By the table's status, and when that was asked for; others want none."""
    wanted = [{key: one.get(key) for key in ("older", "wanted", "asked_at")} for one in asked]
    older = {"older": 3, "wanted": "aa", "asked_at": 4.0}
    newest = dict.fromkeys(older)
    assert older in wanted and newest in wanted
    assert all(one in (older, newest) for one in wanted)
    assert all(TABLES_OF[one["query"]] == 1 for one in asked if one["older"])
