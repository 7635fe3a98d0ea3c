"""Property: whatever is sent to a real agent behind its front, no internal error, no access to another namespace, no
lost file.

A state machine sends well-formed, wrong and nonsensical requests in any order; a dictionary holds the expected files.
"""

import hashlib
import http.client
import itertools
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from colocation.model.file_transfer import content_digest
from colocation.model.names import AGENT_TLS_SERVER_NAME
from tests.unit.storage.tables import data_path, make_table

from .harness import SHOP_LOADER_TOKEN, AgentThread, FakeAuthorizer, Pki, RawResponse

VICTIM = make_table({data_path(0): b"classified"}, namespace="bank")
OWN_PATHS = tuple(data_path(bucket) for bucket in range(3))
CONTENTS = (b"", b"a", b"content", bytes(range(256)) * 300)
FAILURES = {500, 502, 504}
NUMBERS = itertools.count()

SEGMENTS = st.sampled_from(
    ("..", ".", "%2e%2e", "%2E%2e%2f", "..%2f..", "%252e%252e", "%00", "a%00b", "%c0%ae", "%ff", "%", "%zz", "", "//",
     "\\..", "etc", "passwd", "disk", "cold", "error", ".incoming", ".ledger", "verified.sqlite", "bank", "shop", "v1",
     "files", "tables", "data", "manifests", "orders-0a1b2c3d", "ä", "\u2025", "/etc/passwd", ";x", "?x=/../", "#",
     "part-1_00000.c000.zstd.parquet", "x" * 300, "a=b", "a=%2F..%2F..")
)  # fmt: skip
TOKENS = st.one_of(
    st.sampled_from(("", "Bearer", "Bearer ", "Basic c2hvcDp4", "bearer token-of-admin", "Bearer token-of-admin,x")),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60).map(lambda text: f"Bearer {text}."),
)
RANGES = st.one_of(
    st.none(),
    st.tuples(st.integers(0, 90_000), st.integers(0, 90_000)).map(lambda ends: f"bytes={min(ends)}-{max(ends)}"),
    st.integers(0, 90_000).map(lambda first: f"bytes={first}-"),
    st.integers(0, 90_000).map(lambda last: f"bytes=-{last}"),
)
WRONG_RANGES = st.sampled_from(
    ("bytes=0-1,3-4", "bytes=-", "bytes=a-b", "lines=0-1", "bytes=" + "9" * 22 + "-", "bytes=0-" + "9" * 5000, "bytes",
     "=")
)  # fmt: skip
ACTIONS = st.sampled_from(
    ("verify", "damage", "files", "collect", "recycle", "restore", "buckets/0/drop", "buckets/-1/drop",
     f"buckets/{'9' * 5000}/drop", "manifests", "nonsense")
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(("manifest", "manifests", "paths", "path", "proof", "deep", "x")), inner, max_size=4
    ),
    max_leaves=10,
)  # fmt: skip
BODIES = st.one_of(st.binary(max_size=100), JSON.map(lambda value: json.dumps(value).encode()))
METHODS = st.sampled_from(("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "get"))


def contents_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class HostileClient(RuleBasedStateMachine):
    """May read and write in namespace shop, and tries everything else."""

    agent: AgentThread

    def __init__(self) -> None:
        super().__init__()
        self.directory = f"orders-{next(NUMBERS):08x}"
        self.held: dict[str, bytes] = {}
        context = ssl.create_default_context(cafile=self.agent.pki.ca)
        self._context = context

    def send(
        self, method: str, target: str, headers: dict[str, str], body: bytes = b"", authorization: str | None = None
    ) -> RawResponse:
        """One request over a connection of its own, exactly as given."""
        authorization = f"Bearer {SHOP_LOADER_TOKEN}" if authorization is None else authorization
        lines = {"Host": "agent", "Authorization": authorization, "Connection": "close"} | headers
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        assert self.agent.running is not None
        with (
            socket.create_connection(("127.0.0.1", self.agent.running.port), timeout=60) as plain,
            self._context.wrap_socket(plain, server_hostname=AGENT_TLS_SERVER_NAME) as connection,
        ):
            connection.sendall(head.encode() + b"\r\n" + body)
            response = http.client.HTTPResponse(connection, method=method)
            response.begin()
            answer = RawResponse(response.status, dict(response.headers.items()), response.read())
        assert answer.status not in FAILURES, (method, target, headers, body, answer)
        assert b"classified" not in answer.body
        if answer.status >= 400 and method != "HEAD":
            assert set(json.loads(answer.body)) >= {"error", "message"}, (method, target, answer)
        return answer

    def target(self, path: str) -> str:
        """The target of a file of its own table."""
        return f"/v1/files/shop/{self.directory}/{path}"

    @rule(path=st.sampled_from(OWN_PATHS), content=st.sampled_from(CONTENTS), honest=st.booleans())
    def upload(self, path: str, content: bytes, honest: bool) -> None:
        """New content is accepted, other content is a conflict, a wrong digest is detected."""
        sha256 = hashlib.sha256(content if honest else content + b"!").hexdigest()
        headers = {"Content-Length": str(len(content)), "Content-Digest": content_digest(sha256)}
        status = self.send("PUT", self.target(path), headers, content).status
        before = self.held.get(path)
        if not honest:
            assert status in (409, 422)
        elif before is None:
            assert status == 201
            self.held[path] = content
        else:
            assert status == (200 if before == content else 409)

    @rule(
        path=st.sampled_from(OWN_PATHS),
        length=st.sampled_from(("", "-1", "1e3", "0x10", "99999999999999999999", "5, 5")),
    )
    def upload_of_no_length(self, path: str, length: str) -> None:
        """An invalid length is refused; nothing is stored."""
        headers = {"Content-Length": length, "Content-Digest": content_digest("0" * 64)}
        assert 400 <= self.send("PUT", self.target(path), headers).status < 500

    @rule(path=st.sampled_from(OWN_PATHS), method=st.sampled_from(("GET", "HEAD")), wanted=RANGES)
    def read(self, path: str, method: str, wanted: str | None) -> None:
        """Returns the uploaded content, or the requested part."""
        answer = self.send(method, self.target(path), {"Range": wanted} if wanted else {})
        content = self.held.get(path)
        if content is None:
            assert answer.status == 404
            return
        expected = _part(content, wanted)
        assert answer.status == (416 if expected is None else 206 if wanted else 200)
        if method == "GET" and expected is not None:
            assert answer.body == expected

    @rule(path=st.sampled_from(OWN_PATHS), wanted=WRONG_RANGES)
    def read_a_wrong_range(self, path: str, wanted: str) -> None:
        """Refused, whether or not the file is there."""
        assert self.send("GET", self.target(path), {"Range": wanted}).status in (400, 404, 416)

    @rule(method=METHODS, prefix=st.sampled_from(("/", "/v1/files/", "/v1/files/shop/", "/v1/tables/", "/disk/", "")),
          segments=st.lists(SEGMENTS, max_size=8), body=BODIES)  # fmt: skip
    def escape(self, method: str, prefix: str, segments: list[str], body: bytes) -> None:
        """No name leads out of the table."""
        target = prefix + "/".join(segments) or "*"
        headers = {"Content-Length": str(len(body)), "Content-Digest": content_digest(hashlib.sha256(body).hexdigest())}
        assert 400 <= self.send(method, target, headers, body).status < 500

    @rule(method=st.sampled_from(("GET", "PUT")), authorization=TOKENS)
    def forge(self, method: str, authorization: str) -> None:
        """Only tokens that the API server knows are accepted."""
        answer = self.send(method, self.target(OWN_PATHS[0]), {"Content-Length": "0"}, authorization=authorization)
        assert answer.status in (400, 401)

    @rule(method=st.sampled_from(("GET", "HEAD", "PUT")))
    def trespass(self, method: str) -> None:
        """Another namespace's file is neither read nor written, and no answer reveals whether it exists."""
        target = f"/v1/files/{VICTIM.path.namespace}/{VICTIM.path.directory}/{data_path(0)}"
        assert self.send(method, target, {"Content-Length": "0"}).status == 403
        assert self.send(method, target.replace("part-1", "part-2"), {"Content-Length": "0"}).status == 403

    @rule(action=ACTIONS, body=BODIES, own=st.booleans(), method=METHODS)
    def act(self, action: str, body: bytes, own: bool, method: str) -> None:
        """A loader's orders and questions that are wrong or not allowed."""
        namespace, directory = ("shop", self.directory) if own else VICTIM.path
        target = f"/v1/tables/{namespace}/{directory}/{action}"
        status = self.send(method, target, {"Content-Length": str(len(body))}, body).status
        assert 400 <= status < 500 or (own and action == "files" and status == 200) or (own and action == "damage")

    @rule(body=BODIES)
    def ask(self, body: bytes) -> None:
        """Only the operator may ask what a node holds."""
        assert self.send("POST", "/v1/inventory", {"Content-Length": str(len(body))}, body).status == 403

    @invariant()
    def others_are_untouched(self) -> None:
        """Neither the other namespace nor anything outside the data root has changed."""
        root = self.agent.settings.data_root
        victim = contents_of(root / "bank")
        assert victim == {f"{VICTIM.path.directory}/{data_path(0)}": b"classified"}
        assert (root.parent / "secret").read_bytes() == b"classified"
        own = contents_of(root / "shop" / self.directory)
        assert own == self.held


def _part(content: bytes, wanted: str | None) -> bytes | None:
    """The bytes of a range; None if there are none."""
    if wanted is None:
        return content
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    part = (
        content[int(first) : int(last) + 1 if last else None] if first else content[max(len(content) - int(last), 0) :]
    )
    return part if part and (first or int(last)) else None


@pytest.fixture
def attacked(tmp_path: Path, pki: Pki) -> Iterator[AgentThread]:
    """An agent that holds a file of another namespace, and has a secret outside its data root."""
    agent = AgentThread(tmp_path / "root", pki, FakeAuthorizer()).start()
    (tmp_path / "secret").write_bytes(b"classified")
    with agent.client() as client:
        client.put_file(*VICTIM.path, data_path(0), b"classified")
    yield agent
    agent.stop()


def test_hostile_requests(attacked: AgentThread) -> None:
    """Uploads, reads, escapes, forged tokens, orders and nonsense in any order."""
    machine = type("Machine", (HostileClient,), {"agent": attacked})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=15, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.mark.parametrize("target", ["/v1/files", "/v1/files/../files", "/v1/./files?x"])
def test_the_prefix_of_all_files_is_no_address(attacked: AgentThread, target: str) -> None:
    """nginx would redirect the caller to another one."""
    client = type("Machine", (HostileClient,), {"agent": attacked})()
    assert client.send("GET", target, {}).status == 404
