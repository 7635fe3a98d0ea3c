"""``ui``: a web server on this machine's loopback, for one browser. It shows, and changes nothing.

Other users of the machine and other pages in the browser are kept out: paths begin with a random token, the header
``Host`` has to be this address (DNS rebinding), nothing is loaded from elsewhere, and there is no route that acts. The
browser is given another token, which works once: every user of the machine can read a program's arguments.
"""

import json
import os
import secrets
import signal
import sys
import threading
import webbrowser
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from types import FrameType
from typing import Any, NoReturn
from urllib.parse import parse_qs

import click

from ..errors import CommandFailed
from ..terminal.options import (
    Target,
    WholeNumber,
    all_namespaces_option,
    cluster_options,
    operator_namespace_option,
    output_option,
)
from ..terminal.output import Format, write
from .collector import Collector
from .content import Findings, group_page, overview

HOST = "127.0.0.1"
STATIC = {
    "": ("index.html", "text/html; charset=utf-8"),
    "ui.css": ("ui.css", "text/css; charset=utf-8"),
    "ui.js": ("ui.js", "text/javascript; charset=utf-8"),
    "matrix.js": ("matrix.js", "text/javascript; charset=utf-8"),
    "elements.js": ("elements.js", "text/javascript; charset=utf-8"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
IDLE_SECONDS = 30
ALLOWED_SITES = ("same-origin", "none")
"""Of the header ``Sec-Fetch-Site``: this page, or the address typed by hand."""


class UiServer(ThreadingHTTPServer):
    """Answers until the process ends; open connections do not keep it from ending.

    Args:
        findings: asked for every answer; raises CommandFailed when there is no answer.
        port: 0 takes a free one.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, findings: Callable[[], Findings], port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.findings = findings
        self.token = secrets.token_urlsafe(24)
        self._first_token = secrets.token_urlsafe(24)
        self._lock = threading.Lock()
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that closes its connection amid an answer is no error; the rest is printed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """The address to open in the browser; anyone who knows it sees what the user may see."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    @property
    def first_url(self) -> str:
        """For the browser's command line: leads to ``url``, the first time."""
        return f"http://{HOST}:{self.server_port}/{self._first_token}/"

    def take_first_token(self, token: bytes) -> bool:
        """Whether it is the token that works once, and was not used before."""
        with self._lock:
            is_right = secrets.compare_digest(token, self._first_token.encode())
            if is_right:
                self._first_token = secrets.token_urlsafe(24)
            return is_right


class _Handler(BaseHTTPRequestHandler):
    server: UiServer
    protocol_version = "HTTP/1.1"
    server_version = "colocation-ui"
    sys_version = ""
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self.server.hosts:
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "open the address that `colocation ui` printed")
        if self.headers.get("Sec-Fetch-Site", "none") not in ALLOWED_SITES:
            return self._refuse(HTTPStatus.FORBIDDEN, "other pages may not ask for this")
        path, _, query = self.path.partition("?")
        _, token, *rest = [*path.split("/", 2), ""]
        if self.server.take_first_token(token.encode()):
            return self._answer(HTTPStatus.SEE_OTHER, STATIC[""][1], b"", Location=self.server.url)
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            return self._refuse(HTTPStatus.NOT_FOUND, "open the address that `colocation ui` printed")
        path = rest[0]
        if path in STATIC:
            name, kind = STATIC[path]
            return self._answer(HTTPStatus.OK, kind, files(__package__).joinpath("static", name).read_bytes())
        if path in ("api/overview", "api/group"):
            return self._send_findings(path, parse_qs(query))
        return self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no HTTP, and every method but GET: there is nothing to change here."""
        self.close_connection = True
        self._refuse(HTTPStatus(code), message or HTTPStatus(code).phrase)

    def _send_findings(self, path: str, query: dict[str, list[str]]) -> None:
        try:
            findings = self.server.findings()
        except CommandFailed as error:
            return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        if path == "api/overview":
            return self._send_json(HTTPStatus.OK, overview(findings))
        namespace, name = query.get("namespace", [""])[0], query.get("name", [""])[0]
        page = group_page(findings, (namespace, name))
        if page is None:
            return self._refuse(HTTPStatus.NOT_FOUND, f"there is no group {namespace}/{name}")
        return self._send_json(HTTPStatus.OK, page)

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self._send_json(status, {"error": message})

    def _send_json(self, status: HTTPStatus, value: dict[str, Any]) -> None:
        self._answer(status, "application/json; charset=utf-8", json.dumps(value, separators=(",", ":")).encode())

    def _answer(self, status: HTTPStatus, kind: str, body: bytes, **more: str) -> None:
        self.send_response(status)
        for name, text in {**HEADERS, **more}.items():
            self.send_header(name, text)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the lines would hold the token."""


@click.command()
@click.option("--port", type=WholeNumber(0, 65535), default=0, help="Port on this machine; default: a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address; open no browser.")
@all_namespaces_option
@cluster_options
@operator_namespace_option
@output_option
def ui(
    port: int, no_browser: bool, everywhere: bool, target: Target, operator_namespace: str, output: Format
) -> None:
    """Show groups, nodes and tables live in the browser.

    The page runs on this machine with your own rights, changes nothing, and listens on 127.0.0.1 only. Anyone who has
    the printed address and can reach this machine's loopback sees what you can see. Ctrl-C or SIGTERM ends it.
    """
    try:
        server = UiServer(Collector(target.open(), operator_namespace, everywhere).findings, port)
    except OSError as error:
        raise click.ClickException(f"port {port} cannot be used: {error.strerror}; choose another --port") from error
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    write({"url": server.url}, server.url, output)
    if not no_browser:
        webbrowser.open(server.first_url)
    server.serve_forever(poll_interval=1)  # a signal just before a poll does not end it


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """End at once, also in the background of a shell, where SIGINT was ignored, and amid answers.

    Nothing is left to tidy up. An interpreter that ends in order would stumble over the threads of open connections.
    """
    os._exit(0)
