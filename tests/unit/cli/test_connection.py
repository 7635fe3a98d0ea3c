"""The commands and an API server that has just begun: it refuses what is allowed until it has read the roles."""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from kubernetes.config import kube_config
from urllib3.exceptions import InsecureRequestWarning

from colocation.cli import connection
from colocation.cli.cluster import Cluster
from colocation.cli.doctor import command
from colocation.cli.errors import CommandFailed

from .conftest import KUBECONFIG, Run, group_object

OK, UNAUTHORIZED, REFUSED, NO_ROLE_READ, NOT_READY = 200, 401, 403, 403, 500
INSECURE = KUBECONFIG.replace('server: "http://', 'insecure-skip-tls-verify: true, server: "https://')
REVIEW = "selfsubjectaccessreviews"


@dataclass
class Starting:
    """An API server: its answers, and those to ``/readyz``, in their order; the last one stays."""

    answers: list[int]
    readiness: list[int]
    asked: list[str] = field(default_factory=list)
    credentials: list[bool] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, object]:
        """HTTP status and body; a review is always answered with whether the caller may."""
        path, _, query = path.partition("?")
        what = path.rsplit("/", 1)[-1]
        self.asked.append(what)
        self.queries.append(query)
        answers = self.readiness if what == "readyz" else self.answers
        status = answers.pop(0) if len(answers) > 1 else answers[0]
        if what == REVIEW:
            return 201, {"spec": {}, "status": {"allowed": status == OK}}
        return status, {"items": [group_object()]} if status == OK else {"message": "refused"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    starting: Starting


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.starting.credentials.append("Authorization" in self.headers)
        status, answered = self.server.starting.answer(self.path)
        body = json.dumps(answered).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name is http.server's

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Starting], Starting]]:
    """The API server that the kubeconfig names; no request waits long for it."""
    server = _Server(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    (tmp_path / "kubeconfig").write_text(KUBECONFIG % server.server_port)
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "kubeconfig"))
    monkeypatch.setattr(connection, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(connection, "READING_ROLES_SECONDS", 0.1)
    monkeypatch.setattr(connection, "STARTING_SECONDS", 0.2)

    def start(starting: Starting) -> Starting:
        server.starting = starting
        return starting

    yield start
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("refused", [REFUSED, UNAUTHORIZED])
@pytest.mark.parametrize(
    "readiness",
    [
        pytest.param([OK], id="ready meanwhile"),
        pytest.param([NO_ROLE_READ, NO_ROLE_READ, NOT_READY, OK], id="no role read, then not ready"),
        pytest.param([429, OK], id="busy"),
    ],
)
def test_a_refusal_by_a_server_that_has_just_begun_is_asked_again(
    run: Run, serve: Callable[[Starting], Starting], readiness: list[int], refused: int
) -> None:
    """The command does what was asked and prints nothing of the retry. The server refuses good tokens, too."""
    serve(Starting([refused, OK], readiness))
    done = run("groups")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "sales" in done.stdout


@pytest.mark.parametrize(
    ("readiness", "asked_about_readiness"),
    [
        pytest.param([OK], 1, id="ready"),
        pytest.param([404], 1, id="a proxy that does not know the path"),
        pytest.param([NO_ROLE_READ], None, id="never answers whether it is ready"),
    ],
)
def test_a_refusal_by_a_server_that_is_ready_counts(
    run: Run, serve: Callable[[Starting], Starting], readiness: list[int], asked_about_readiness: int | None
) -> None:
    """It was asked twice."""
    server = serve(Starting([REFUSED], readiness))
    done = run("groups")
    assert (done.exit_code, "the cluster refuses it: refused" in done.stderr) == (1, True)
    assert server.asked.count("colocationgroups") == 2
    assert asked_about_readiness in (None, server.asked.count("readyz"))


def test_a_server_that_tells_no_one_is_waited_for_once(serve: Callable[[Starting], Starting]) -> None:
    """And not with every refusal of a long command or the page."""
    server = serve(Starting([REFUSED], [NO_ROLE_READ]))
    connected = connection.connect(None)
    connected.wait_until_ready()
    server.asked.clear()
    connected.wait_until_ready()
    assert server.asked == []


def test_a_server_that_does_not_become_ready_is_not_believed(run: Run, serve: Callable[[Starting], Starting]) -> None:
    """No message about a missing right is printed."""
    serve(Starting([REFUSED], [NOT_READY]))
    done = run("groups")
    assert done.exit_code == 1
    assert "is not ready: it answers 500 to /readyz" in done.stderr
    assert "you may not" not in done.stderr


def test_credentials_that_have_expired_are_said_so(run: Run, serve: Callable[[Starting], Starting]) -> None:
    """With what to do, and at once: whether the server is ready is asked without them."""
    server = serve(Starting([UNAUTHORIZED], [OK]))
    done = run("groups")
    assert (done.exit_code, server.asked) == (1, ["colocationgroups", "readyz", "colocationgroups"])
    assert server.credentials == [True, False, True]
    assert "does not accept your credentials: refused; they may have expired: log in again, choose" in done.stderr


def test_doctor_finds_no_right_missing_that_the_server_has_not_read(serve: Callable[[Starting], Starting]) -> None:
    """Its questions are answered with no, not refused."""
    serve(Starting([REFUSED, OK], [NOT_READY, OK]))
    rights = command.gather_rights(connection.connect(None), "shop", "colocation-system")
    assert rights and all(right.allowed for right in rights)


def test_groups_that_may_not_be_listed_are_a_gap_that_is_said(serve: Callable[[Starting], Starting]) -> None:
    """Those of the namespace are there; what is missing is said with what to do."""
    serve(Starting([REFUSED, REFUSED, OK], [OK]))
    groups, gap = Cluster(None, None).groups_everywhere()
    assert [group["metadata"]["name"] for group in groups] == ["sales"]
    assert "groups of other namespaces than 'shop' could not be listed" in gap
    assert "colocation recover TABLE --group NAMESPACE/NAME" in gap
    serve(Starting([OK], [OK]))
    assert Cluster(None, None).groups_everywhere().gap == ""


def test_a_trial_of_a_creation_is_a_dry_run_on_the_server(serve: Callable[[Starting], Starting]) -> None:
    """By Kubernetes' own parameter, else it would be no trial."""
    server = serve(Starting([OK], [OK]))
    body = {"kind": "ColocationGroup", "metadata": {"namespace": "shop", "name": "sales"}}
    assert Cluster(None, None).create(body, dry_run=True)
    assert Cluster(None, None).create(body)
    assert server.queries == ["dryRun=All", ""]


def test_a_refused_creation_has_the_reason_alone(serve: Callable[[Starting], Starting]) -> None:
    """And not the server's whole answer."""
    serve(Starting([REFUSED, REFUSED], [OK]))
    body = {"kind": "ColocationGroup", "metadata": {"namespace": "shop", "name": "sales"}}
    with pytest.raises(CommandFailed, match=r"^ColocationGroup shop/sales: the cluster refuses it: refused$"):
        Cluster(None, None).create(body)


def test_a_server_that_never_answers_is_given_up(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The client's own requests would wait without end."""
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kubeconfig_file = tmp_path / "silent"
        kubeconfig_file.write_text(KUBECONFIG % listener.getsockname()[1])
        monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig_file))
        done = run("groups")
    assert done.exit_code == 1
    assert re.search(r"cannot be reached: .*timed out.*; check the network", done.stderr), done.stderr


def test_a_kubeconfig_that_does_not_verify_is_not_warned_about(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its owner knows; two lines with each request would hide the answer."""
    asked: list[type[Warning]] = []
    monkeypatch.setattr(connection.urllib3, "disable_warnings", asked.append)
    for text, silenced in ((KUBECONFIG, []), (INSECURE, [InsecureRequestWarning])):
        file = tmp_path / "kubeconfig"
        file.write_text(text % 1)
        monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(file))
        assert run("groups").exit_code == 1
        assert asked == silenced
