"""The client of the session's driver: answers, errors, and what is known of requests without an answer."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import yaml

from colocation.manifests.spark_pods import SparkPlacement, driver_pod_template
from demo.shell import CommandFailed

from . import session as module
from .history import History
from .programs import session_server
from .queries import Queries, read_from
from .session import NoAnswer, Session, SessionError, driver_pod
from .work import Work


class Driver(BaseHTTPRequestHandler):
    """Answers as given, a list one by one; ``silent`` operations hang until the test ends."""

    answers: dict[int, Any] = {}
    running: set[int] = set()
    over = threading.Event()

    def do_GET(self) -> None:
        self._say({"running": sorted(self.running)})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = self.answers.get(asked["operation"])
        if isinstance(answer, list):
            answer = answer.pop(0)
        if answer is None:
            self.over.wait(20)
            return
        self._say(answer)

    def _say(self, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session whose driver is in this process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Driver)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setattr(module, "PORT", server.server_address[1])
    made = Session(History())
    made._address = "127.0.0.1"
    yield made
    Driver.over.set()
    server.shutdown()
    server.server_close()


def test_answers_and_errors(session: Session) -> None:
    """What the session reports, and what it reports went wrong."""
    Driver.answers = {1: {"ok": {"rows": []}}, 2: {"error": "LoadConflict: lost"}}
    assert session.is_alive() and session.ask(1, 5, do="query") == {"rows": []}
    with pytest.raises(SessionError, match=r"^LoadConflict: lost$"):
        session.ask(2, 5, do="load")


def test_a_request_without_an_answer_is_settled_when_the_session_knows_no_more_of_it(session: Session) -> None:
    """Not while it still runs there."""
    Driver.answers, Driver.running = {}, {7}
    with pytest.raises(NoAnswer, match="NoAnswerInTime"):
        session.ask(7, 0.2, do="load")
    session.settle_finished()
    assert session._history.events == []
    Driver.running = set()
    session.settle_finished()
    session.settle_finished()
    assert [(event.name, event.detail) for event in session._history.events] == [("settled", {"numbers": [7]})]


def test_a_request_that_may_be_repeated_is_until_its_outcome_is_known(session: Session) -> None:
    """An outcome that was unknown once stays so when the last attempt fails: the first may have done it."""
    unknown, failed = {"error": "WriteException: CommitUnknown: …"}, {"error": "ReplicasMissing: …"}
    Driver.answers = {1: [unknown, {"ok": 5}], 2: [unknown, failed], 3: [unknown, unknown], 4: [failed, {"ok": 5}]}
    assert session.ask(1, 60, attempts=2, do="write") == 5
    with pytest.raises(NoAnswer, match="ReplicasMissing"):
        session.ask(2, 60, attempts=2, do="write")
    with pytest.raises(NoAnswer, match="CommitUnknown"):
        session.ask(3, 60, attempts=2, do="write")
    with pytest.raises(SessionError, match="ReplicasMissing"):
        session.ask(4, 60, attempts=2, do="write")


def test_a_repeated_request_is_settled_when_no_driver_can_do_it_any_more(session: Session) -> None:
    """The one that knows nothing of it is silent about the one before, which may still run."""
    session._unknown = {7: {0, 1}, 8: {0}}
    session._settle({0})
    assert session._history.events[-1].detail == {"numbers": [8]}
    session._asking = {7}
    session._settle({1})
    assert len(session._history.events) == 1
    session._asking = set()
    session._settle({1})
    assert session._history.events[-1].detail == {"numbers": [7]}


def test_a_driver_whose_token_is_refused_is_given_up(session: Session) -> None:
    """Its pod is not known any more, so nothing that it is asked can be done."""
    refused = "AnalysisException: ColocatedTable chaos/t: the API server does not accept this application's token (401)"
    Driver.answers = {1: {"error": "AnalysisException: [TABLE_OR_VIEW_NOT_FOUND]"}, 2: {"error": refused}}
    queries = Queries(session._history, session, Work(session._history, session, seed=1))
    assert queries.one("content", ["t"]) and session.is_alive()
    assert not queries.one("content", ["t"]) and not session.is_alive()


def test_a_driver_that_is_ended_is_not_asked_again(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was cut off for a while, and the API server went away before another could be started."""

    def away(*_words: str) -> None:
        raise CommandFailed("refused")

    monkeypatch.setattr(module, "kubectl", away)
    with pytest.raises(CommandFailed):
        session._replace(threading.Event())
    assert not session.is_alive()


def test_a_lost_session_gives_no_answer() -> None:
    """No one listens."""
    session = Session(History())
    with pytest.raises(NoAnswer, match="SessionLost"):
        session.ask(1, 5, do="query")
    assert not session.is_alive()


@dataclass
class FailingSession:
    """Every query fails with these words."""

    words: str
    alive: bool

    def query(self, statement: str) -> None:
        raise RuntimeError(self.words)

    def is_alive(self) -> bool:
        return self.alive


@pytest.mark.parametrize(
    ("alive", "said"),
    [(True, "RuntimeError: the pool is shut"), (False, "SessionLost: RuntimeError: the pool is shut")],
)
def test_whatever_a_stopping_spark_reports_the_session_is_lost(alive: bool, said: str) -> None:
    """Seed 861445: ``SparkContext has been shutdown`` is one of many such words."""
    session: Any = FailingSession("the pool is shut", alive)
    assert session_server.answer_of(session, {"do": "query", "statement": "SELECT 1"}) == {"error": said}


def test_the_driver_is_made_from_the_operators_template() -> None:
    """With its token and CA, our program, and the memory of users' drivers."""
    template = driver_pod_template(SparkPlacement(namespace="chaos", group="base"))
    pod = driver_pod("session-1", {"driver-pod-template.yaml": yaml.safe_dump(template)})
    [container] = pod["spec"]["containers"]
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["spec"]["volumes"]}
    assert {"colocation-access", "program", "recipe"} <= {one["name"] for one in pod["spec"]["volumes"]}
    assert "spark.driver.memory=1g" in container["args"] and pod["spec"]["serviceAccountName"] == "spark"


def test_what_a_query_read_is_reported_by_its_locations() -> None:
    """A manifest for each table, and whose files they are."""
    locations = ["coloc://chaos/orders-0a1b2c3d/ab12", "coloc://chaos/table-3-11223344/cd34"]
    assert read_from(locations, ["orders", "table-3"]) == {
        "manifests": {"orders": "ab12", "table-3": "cd34"},
        "namespaces": {"orders": ["chaos"], "table-3": ["chaos"]},
        "namespace": "chaos",
    }
