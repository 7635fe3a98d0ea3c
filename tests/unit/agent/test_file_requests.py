"""GET, HEAD and PUT of files over real TLS."""

import hashlib
from pathlib import Path

import pytest

from colocation.agent import file_requests
from colocation.agentclient import BadRequest, Conflict, DigestMismatch, InsufficientStorage, NotFound
from colocation.model.agent import InventoryRequest
from colocation.model.file_transfer import content_digest
from colocation.storage import memory_limits
from colocation.storage.root import PROBE_FILE
from colocation.storage.table_inventory import TableInventory
from tests.support.waiting import until
from tests.unit.storage.tables import damage, data_path, make_table, on_disk, sha256_hex

from .harness import AgentThread

PATH = data_path(3, partition="o_comment=a%2Fb größer")
CONTENT = bytes(range(256)) * 20_000
TABLE = make_table({PATH: CONTENT})
TARGET = f"/v1/files/shop/orders-0a1b2c3d/{data_path(3)}"


def test_a_put_file_can_be_read(agent: AgentThread) -> None:
    """Bytes, size and digest survive the round trip; a second PUT changes nothing."""
    with agent.client() as client:
        published = client.put_file(*TABLE.path, PATH, CONTENT)
        assert (published.bytes, published.sha256) == (len(CONTENT), sha256_hex(CONTENT))
        assert client.put_file(*TABLE.path, PATH, CONTENT) == published
        assert client.head_file(*TABLE.path, PATH) == (len(CONTENT), sha256_hex(CONTENT))
        with client.get_file(*TABLE.path, PATH) as stream:
            assert (stream.length, stream.total_bytes, stream.sha256) == (
                len(CONTENT), len(CONTENT), sha256_hex(CONTENT)
            )
            assert stream.read() == CONTENT


def test_puts_a_local_file(agent: AgentThread, tmp_path: Path) -> None:
    """A file is sent from the disk, without a copy in memory."""
    (tmp_path / "local").write_bytes(CONTENT)
    with agent.client() as client:
        client.put_file(*TABLE.path, PATH, tmp_path / "local")
    assert on_disk(agent.settings.data_root, TABLE.path, PATH).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        pytest.param(0, 10, CONTENT[:10], id="head"),
        pytest.param(100, 5_000_000, CONTENT[100:5_000_000], id="several blocks"),
        pytest.param(5_000_000, None, CONTENT[5_000_000:], id="to the end"),
        pytest.param(len(CONTENT) - 1, None, CONTENT[-1:], id="last byte"),
        pytest.param(5, 10**9, CONTENT[5:], id="past the end"),
    ],
)
def test_ranges(agent: AgentThread, start: int, end: int | None, expected: bytes) -> None:
    """A range is exactly the requested bytes, cut to the file."""
    with agent.client() as client:
        client.put_file(*TABLE.path, PATH, CONTENT)
        with client.get_file(*TABLE.path, PATH, start, end) as stream:
            assert stream.read() == expected
            assert (stream.length, stream.total_bytes, stream.sha256) == (len(expected), len(CONTENT), None)


@pytest.mark.parametrize(
    ("header", "status", "content_range"),
    [
        pytest.param("bytes=-5", 206, "bytes 5-9/10", id="suffix"),
        pytest.param("bytes=-50", 206, "bytes 0-9/10", id="suffix longer than the file"),
        pytest.param("bytes=10-", 416, "bytes */10", id="after the end"),
        pytest.param("bytes=-0", 416, "bytes */10", id="empty suffix"),
        pytest.param("bytes=5-4", 416, "bytes */10", id="backwards"),
        pytest.param("bytes=0-1,4-5", 400, None, id="several"),
        pytest.param("bytes=-", 400, None, id="nothing"),
        pytest.param("lines=1-2", 400, None, id="another unit"),
    ],
)
def test_range_headers(agent: AgentThread, header: str, status: int, content_range: str | None) -> None:
    """Ranges as in RFC 9110; anything but a single range is refused with what is allowed."""
    with agent.client() as client:
        client.put_file(*TABLE.path, data_path(3), b"0123456789")
    response = agent.raw_request("GET", TARGET, {"Range": header})
    assert (response.status, response.headers.get("Content-Range")) == (status, content_range)


def test_an_empty_file(agent: AgentThread) -> None:
    """Zero bytes are a file, too."""
    with agent.client() as client:
        client.put_file(*TABLE.path, PATH, b"")
        with client.get_file(*TABLE.path, PATH) as stream:
            assert stream.read() == b""


def test_errors_of_uploads(agent: AgentThread) -> None:
    """A wrong digest and other content are refused, each with its own class; they publish nothing."""
    with agent.client() as client:
        with pytest.raises(DigestMismatch, match="DigestDiffers"):
            client.put_file(*TABLE.path, PATH, b"content", sha256_hex(b"another"))
        with pytest.raises(NotFound):
            client.head_file(*TABLE.path, PATH)
        client.put_file(*TABLE.path, PATH, b"content")
        with pytest.raises(Conflict, match="use a new file name"):
            client.put_file(*TABLE.path, PATH, b"another")
    assert on_disk(agent.settings.data_root, TABLE.path, PATH).read_bytes() == b"content"


@pytest.mark.parametrize(
    ("headers", "body", "status", "reason"),
    [
        pytest.param({}, b"", 411, "LengthRequired", id="no length"),
        pytest.param({"Content-Length": "1"}, b"x", 400, "DigestRequired", id="no digest"),
        pytest.param(
            {"Content-Length": "1", "Content-Digest": "sha-256=:AAAA:"}, b"x", 400, "InvalidDigest", id="short digest"
        ),
        pytest.param(
            {"Content-Length": "1", "Content-Digest": "md5=:AAAA:"}, b"x", 400, "InvalidDigest", id="another algorithm"
        ),
        pytest.param(
            {"Content-Length": str(1 << 50), "Content-Digest": content_digest("00" * 32)}, b"", 413, "FileTooLarge",
            id="too large",
        ),
    ],
)
def test_headers_of_uploads(
    agent: AgentThread, headers: dict[str, str], body: bytes, status: int, reason: str
) -> None:
    """An upload without length or digest is refused before a byte is stored."""
    response = agent.raw_request("PUT", TARGET, headers, body)
    assert (response.status, response.reason) == (status, reason)
    assert list((agent.settings.data_root / ".incoming" / "uploads").iterdir()) == []


def test_an_interrupted_upload_leaves_nothing(agent: AgentThread, caplog: pytest.LogCaptureFixture) -> None:
    """When the caller disconnects in the middle, the partial file is removed."""
    digest = content_digest(sha256_hex(b"x" * 100))
    agent.send_and_hang_up("PUT", TARGET, {"Content-Length": "100", "Content-Digest": digest}, b"x" * 50)
    with agent.client() as client:
        until(lambda: client.status().active_transfers == 0)
    assert list((agent.settings.data_root / ".incoming" / "uploads").iterdir()) == []
    assert not on_disk(agent.settings.data_root, TABLE.path, data_path(3)).exists()
    assert "Error handling request" not in caplog.text


def test_no_room(agent: AgentThread) -> None:
    """A file that would violate the headroom is refused with the numbers, before it is sent."""
    agent.stop()
    full = AgentThread(agent.settings.data_root, agent.pki, agent.authorizer).start(disk_headroom_fraction=0.9999999)
    try:
        with full.client() as client, pytest.raises(InsufficientStorage, match="1000000 bytes announced, 0 available"):
            client.put_file(*TABLE.path, PATH, bytes(1_000_000))
    finally:
        full.stop()


def test_folders_of_unknown_tables_are_bounded(
    agent: AgentThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every report on the node names each. A node that takes another one's files has some for a while."""
    monkeypatch.setattr(file_requests, "MAX_UNKNOWN_FOLDERS", 2)
    with agent.client() as client:
        client.inventory(InventoryRequest(session="one", number=1, changed=(TABLE.asked,)))
        for directory in ("a-0a1b2c3d", "b-0a1b2c3d", TABLE.path.directory):
            client.put_file("shop", directory, PATH, CONTENT)
        with pytest.raises(InsufficientStorage, match="namespace shop has 2 folders here of tables that the operator"):
            client.put_file("shop", "c-0a1b2c3d", PATH, CONTENT)
        client.put_file("shop", "a-0a1b2c3d", data_path(2), CONTENT)
        client.put_file("lake", "c-0a1b2c3d", PATH, CONTENT)


def test_files_that_no_snapshot_names_are_bounded(agent: AgentThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes the agent's memory. Committed files no longer count; another namespace has its own limit."""
    monkeypatch.setattr(memory_limits, "MAX_OF_NAMESPACE", 2)
    question = InventoryRequest(session="one", number=1, changed=(TABLE.asked,))
    with agent.client() as client:
        client.put_file(*TABLE.path, PATH, CONTENT)
        client.put_manifest(*TABLE.path, TABLE.stored, TABLE.manifest)
        with pytest.raises(InsufficientStorage, match=r"TooManyFiles: namespace shop has 2 files here that"):
            client.put_file("shop", "lines-0a1b2c3d", PATH, CONTENT)
        client.put_file(*TABLE.path, PATH, CONTENT)
        client.put_file("lake", "lines-0a1b2c3d", PATH, CONTENT)
        client.inventory(question)
        client.put_file("shop", "lines-0a1b2c3d", PATH, CONTENT)
        with pytest.raises(InsufficientStorage, match="TooManyFiles"):
            client.put_file("shop", "lines-0a1b2c3d", data_path(2), CONTENT)


def test_a_damaged_file_is_not_served(agent: AgentThread) -> None:
    """Once the agent knows that a file is wrong, it answers with an error."""
    with agent.client() as client:
        client.put_file(*TABLE.path, PATH, CONTENT)
        client.put_manifest(*TABLE.path, TABLE.stored, TABLE.manifest)
        client.inventory(InventoryRequest(session="one", number=1, changed=(TABLE.asked,)))
        damage(on_disk(agent.settings.data_root, TABLE.path, PATH))
        report = client.verify(*TABLE.path, TABLE.manifest)
        assert report.buckets[3].state == "corrupt"
        with pytest.raises(NotFound, match="ReplicaCorrupt"):
            client.get_file(*TABLE.path, PATH)
        client.put_file(*TABLE.path, PATH, CONTENT)
        assert client.verify(*TABLE.path, TABLE.manifest).buckets[3].state == "complete"


ESCAPES = [
    pytest.param("/v1/files/shop/orders-0a1b2c3d/data/../../../../secret", id="dots"),
    pytest.param("/v1/files/shop/../shop/data/part-1_1.parquet", id="dots for a directory"),
    pytest.param("/v1/files/../../etc/passwd", id="dots for a namespace"),
    pytest.param("/v1/files/shop/orders-0a1b2c3d/%2e%2e/%2e%2e/secret", id="encoded dots"),
    pytest.param("/v1/files/shop/orders-0a1b2c3d/%252e%252e/%252e%252e/secret", id="double encoded dots"),
    pytest.param("/v1/files/shop/orders-0a1b2c3d/data%2f..%2f..%2fsecret", id="encoded slashes"),
    pytest.param("/v1/files/shop/orders-0a1b2c3d//etc/passwd", id="absolute"),
    pytest.param("/v1/files/shop/orders-0a1b2c3d/%2fetc%2fpasswd", id="encoded absolute"),
    pytest.param("/v1/files/shop/orders-0a1b2c3d/data/a=1%00/part-1_1.parquet", id="NUL"),
    pytest.param("/v1/files/shop/orders-0a1b2c3d/data/%c0%ae%c0%ae/part-1_1.parquet", id="overlong UTF-8"),
    pytest.param("/v1/files/shop/orders-0a1b2c3d/data/%zz/part-1_1.parquet", id="no hex"),
    pytest.param("/v1/files/shop/orders-0a1b2c3d/data/linked=1/part-1_1.parquet", id="link to a folder"),
    pytest.param("/v1/files/shop/orders-0a1b2c3d/data/linked_00001.parquet", id="link to a file"),
    pytest.param("/v1/files/.incoming/uploads/data/x", id="incoming"),
    pytest.param("/v1/files/.ledger/verified/verified.sqlite", id="ledger"),
]


@pytest.fixture
def with_links(agent: AgentThread, tmp_path: Path) -> AgentThread:
    """An agent below whose root links to a secret were planted."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "part-1_1.parquet").write_bytes(b"classified")
    data = agent.settings.data_root / "shop" / "orders-0a1b2c3d" / "data"
    data.mkdir(parents=True)
    (data / "linked=1").symlink_to(secret)
    (data / "linked_00001.parquet").symlink_to(secret / "part-1_1.parquet")
    return agent


def contents(folder: Path) -> dict[Path, bytes]:
    """All files below a folder, without those that the agent writes by itself."""
    names = (path for path in folder.rglob("*") if path.name != PROBE_FILE and ".ledger" not in path.parts)
    return {path: path.read_bytes() for path in names if path.is_file()}


@pytest.mark.parametrize("target", ESCAPES)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_nothing_leads_out_of_the_root(with_links: AgentThread, tmp_path: Path, method: str, target: str) -> None:
    """Neither reads nor writes leave the table's folder: 400, and the disk outside is unchanged."""
    before = contents(tmp_path)
    body = b"evil" if method == "PUT" else b""
    digest = content_digest(hashlib.sha256(body).hexdigest())
    response = with_links.raw_request(
        method, target, {"Content-Length": str(len(body)), "Content-Digest": digest}, body
    )
    assert (response.status, response.reason) == (400, "InvalidPath")
    assert b"classified" not in response.body
    assert contents(tmp_path) == before


def test_the_agents_message_reaches_the_caller(agent: AgentThread) -> None:
    """The error for a wrong name states what is allowed."""
    with agent.client() as client, pytest.raises(BadRequest, match="allowed: a Kubernetes namespace"):
        client.put_file("Shop", TABLE.path.directory, PATH, b"content")


def test_reported_damage_is_checked(agent: AgentThread) -> None:
    """The agent reads the file; a damaged one is no longer served, and a false report changes nothing."""
    good, bad = data_path(0, load="7"), data_path(1, load="7")
    table = make_table({good: b"good", bad: b"content"})
    with agent.client() as client:
        for path, content in table.contents.items():
            client.put_file(*table.path, path, content)
        client.put_file(*table.path, f"manifests/{table.manifest}.json.zst", table.stored)
        client.inventory(InventoryRequest(session="s", number=1, changed=(table.asked,)))
        damage(on_disk(agent.settings.data_root, table.path, bad))
        assert client.report_damage(*table.path, bad)
        assert not client.report_damage(*table.path, good)
        assert client.get_file(*table.path, good).read() == b"good"
        with pytest.raises(NotFound):
            client.get_file(*table.path, bad)
        with pytest.raises(BadRequest):
            client.report_damage(*table.path, "../../etc/passwd")


def test_reports_of_damage_cost_one_read(agent: AgentThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a file is reported."""
    read: list[str] = []
    monkeypatch.setattr(TableInventory, "check", lambda _table, path: bool(read.append(path)))
    with agent.client() as client:
        client.put_file(*TABLE.path, PATH, CONTENT)
        for _ in range(5):
            assert not client.report_damage(*TABLE.path, PATH)
    assert read == [PATH]
