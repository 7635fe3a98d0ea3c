"""The page's server: who gets in, what it serves, and that it changes nothing."""

import http.client
import json
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from colocation.cli.errors import CommandFailed
from colocation.cli.ui.content import Findings
from colocation.cli.ui.server import STATIC, UiServer

from . import scenes

Answer = tuple[int, http.client.HTTPMessage, bytes]


@pytest.fixture(scope="module")
def server() -> Iterator[UiServer]:
    """On a free port, in a thread of this process."""
    found = scenes.stable()
    made = UiServer(lambda: found)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def ask(server: UiServer, path: str, method: str = "GET", **headers: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("path", list(STATIC))
def test_static_files(server: UiServer, path: str) -> None:
    """Under the token, each with its type, and a policy that lets in nothing from elsewhere."""
    status, headers, body = ask(server, f"/{server.token}/{path}")
    assert (status, headers["Content-Type"]) == (200, STATIC[path][1])
    assert body
    assert "default-src 'none'; script-src 'self'" in headers["Content-Security-Policy"]
    assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
    assert "Access-Control-Allow-Origin" not in headers


def test_what_is_true_now(server: UiServer) -> None:
    """The overview, and a group by namespace and name."""
    assert [one["name"] for one in json.loads(ask(server, f"/{server.token}/api/overview")[2])["groups"]] == [
        "sales", "returns",
    ]  # fmt: skip
    found = json.loads(ask(server, f"/{server.token}/api/group?namespace=shop&name=sales")[2])
    assert len(found["rows"]) == 5
    assert ask(server, f"/{server.token}/api/group?namespace=shop&name=none")[0] == 404
    assert ask(server, f"/{server.token}/api/group")[0] == 404


@pytest.mark.parametrize("path", ["/", "/ui.js", "/api/overview", "/wrong/", "/wrong/api/overview", "//", "/%00/"])
def test_no_one_gets_in_without_the_token(server: UiServer, path: str) -> None:
    """Not even to the page, from which one could tell what runs here."""
    status, _, body = ask(server, path)
    assert status == 404
    assert server.token.encode() not in body


def test_the_address_on_the_browsers_command_line_works_once(server: UiServer) -> None:
    """A process that reads it there later gets nothing."""
    path = urlsplit(server.first_url).path
    status, headers, body = ask(server, path)
    assert (status, headers["Location"], body) == (303, server.url, b"")
    assert ask(server, path)[0] == 404
    assert server.token not in server.first_url


@pytest.mark.parametrize("path", ["../server.py", "static/../../server.py", "%2e%2e/server.py", "api/", "api/plan"])
def test_there_is_nothing_else(server: UiServer, path: str) -> None:
    """Files are those of a fixed list."""
    assert ask(server, f"/{server.token}/{path}")[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80", ""])
def test_other_names_of_this_address_are_refused(server: UiServer, host: str) -> None:
    """DNS rebinding: a page of another name that resolves to this machine reads nothing."""
    assert ask(server, f"/{server.token}/api/overview", Host=host)[0] == 421


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
def test_other_pages_in_the_browser_are_refused(server: UiServer, site: str, status: int) -> None:
    """The browser's header has the origin of a request."""
    assert ask(server, f"/{server.token}/api/overview", Sec_Fetch_Site=site)[0] == status


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_there_is_no_route_that_acts(server: UiServer, method: str) -> None:
    """Whatever is not GET is refused before it is looked at."""
    status, headers, _ = ask(server, f"/{server.token}/api/overview", method)
    assert status == 501
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_it_listens_on_this_machine_alone(server: UiServer) -> None:
    """The loopback's address, and a token that cannot be guessed."""
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/{server.token}/"
    assert len(server.token) >= 32


def test_what_cannot_be_read_is_said(server: UiServer) -> None:
    """503 with the reason, which the page shows with what it has."""

    def fail() -> Findings:
        raise CommandFailed("the API server does not answer")

    other = UiServer(fail)
    thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        status, _, body = ask(other, f"/{other.token}/api/overview")
        assert (status, json.loads(body)) == (503, {"error": "the API server does not answer"})
    finally:
        other.shutdown()
        other.server_close()


@pytest.mark.parametrize(("error", "is_printed"), [(BrokenPipeError(), False), (ValueError("a defect"), True)])
def test_a_browser_that_goes_is_no_error(
    server: UiServer, capsys: pytest.CaptureFixture[str], error: Exception, is_printed: bool
) -> None:
    """A tab that is closed amid an answer prints no traceback on the terminal; a defect does."""
    try:
        raise error
    except (BrokenPipeError, ValueError):
        server.handle_error(None, ("127.0.0.1", 1))
    assert ("Traceback" in capsys.readouterr().err) == is_printed
