"""The clone Job as a process, pulling from real agents."""

import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from colocation.agent.http_messages import Refusal
from colocation.agent.read_requests import ReadRequests
from colocation.clone.job import CloneJob
from colocation.clone.pull import CloneFailed, PulledFile
from colocation.model.agent import InventoryRequest
from colocation.model.clone import CloneSource, CloneSpec
from colocation.model.conditions import Reason
from colocation.model.table import Column
from colocation.model.table_manifest import DataFile, TableManifest, manifest_path
from colocation.storage.clone_reports import take_announced
from colocation.storage.incoming import IncomingFile
from colocation.storage.paths import table_path
from colocation.storage.root import DataRoot
from tests.support.manifests import encode_manifest
from tests.support.waiting import until
from tests.unit.agent.cutting_proxy import CuttingProxy
from tests.unit.agent.harness import AgentThread, Pki
from tests.unit.storage.tables import Table, damage, data_path, make_table, on_disk, publish_table, sha256_hex

from .scenario import BUCKET, clone_environment, clone_spec, put, report_on, run_clone, start_clone

ORDERS = make_table({data_path(bucket, partition=f"o_year={year}"): f"orders {year} {bucket}".encode() * 1000
                     for bucket in range(4) for year in (1995, 1996)})
LINES = make_table({data_path(bucket): f"lines {bucket}".encode() * 1000 for bucket in range(4)}, name="lineitem")
BIG = make_table({data_path(BUCKET): bytes(range(256)) * 4096 * 8}, name="big")
SERVED_BYTES = "colocation_agent_served_bytes_total"
BIG_FILE = PulledFile(BIG.path, data_path(BUCKET), sha256_hex(BIG.contents[data_path(BUCKET)]), None, True)


def held_files(root: Path, table: Table) -> set[str]:
    """The data files of a table on a node."""
    folder = root / table.path.namespace / table.path.directory
    return {str(path.relative_to(folder)) for path in folder.glob("data/**/*.parquet")}


def test_pulls_the_bucket_of_every_table_and_nothing_else(
    agents: list[AgentThread], pki: Pki, tmp_path: Path
) -> None:
    """A clone completes its bucket for all tables, leaves nothing else, and its files need no second hash."""
    for table in (ORDERS, LINES):
        put(agents[0], table)
    root = tmp_path / "node-3"
    environment = clone_environment(clone_spec([ORDERS, LINES], agents[:1]), root, pki)

    assert run_clone(environment)[0] == 0

    for table in (ORDERS, LINES):
        assert held_files(root, table) == set(table.contents_of(BUCKET))
        report = report_on(root, table)
        assert {bucket: state.state for bucket, state in report.buckets.items()} == {
            0: None, 1: "complete", 2: None, 3: None
        }
    assert list((root / ".incoming" / "clones").iterdir()) == []


def test_every_table_is_announced(agents: list[AgentThread], pki: Pki, tmp_path: Path) -> None:
    """Also by a run that finds everything done: the previous run may have been killed before it announced."""
    for table in (ORDERS, LINES):
        put(agents[0], table)
    root = tmp_path / "node-3"
    environment = clone_environment(clone_spec([ORDERS, LINES], agents[:1]), root, pki)
    for _ in range(2):
        assert run_clone(environment)[0] == 0
        opened = DataRoot(root)
        assert set(take_announced(opened)) == {ORDERS.path, LINES.path}
        assert take_announced(opened) == ()
        opened.close()


def test_large_files_with_the_same_content_arrive_together(
    agents: list[AgentThread], pki: Pki, tmp_path: Path
) -> None:
    """A copy of a table in its group, or rows that were appended twice."""
    contents = {data_path(BUCKET, load=str(load)): bytes(2 << 20) for load in range(4)}
    tables = [make_table(contents, name) for name in ("first", "second")]
    for table in tables:
        put(agents[0], table)
    code, errors = run_clone(clone_environment(clone_spec(tables, agents[:1]), tmp_path / "node-3", pki))
    assert code == 0, errors
    for table in tables:
        assert report_on(tmp_path / "node-3", table).buckets[BUCKET].state == "complete"


def test_names_that_a_killed_run_has_not_synced_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are there, but their names may not be on the disk."""
    root, synced = DataRoot(tmp_path, owns_ledger=False), set[int]()
    publish_table(root, ORDERS)
    original = os.fsync

    def noted(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        original(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    sources = (CloneSource(node="node-1", url="https://127.0.0.1:1"),)
    spec = CloneSpec(
        namespace="shop", group="sales", bucket=BUCKET, target="node-3", tables=(ORDERS.reference,), sources=sources
    )
    assert CloneJob(spec, root, Mock()).run() == 0
    paths = [*ORDERS.contents_of(BUCKET), manifest_path(ORDERS.manifest)]
    assert {on_disk(root, ORDERS.path, path).parent.stat().st_ino for path in paths} <= synced
    root.close()


def test_checked_files_count_as_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifests of many tables, and existing files, may take minutes before the first byte is copied."""
    root, steps = DataRoot(tmp_path, owns_ledger=False), []
    for table in (ORDERS, LINES):
        publish_table(root, table)
    monkeypatch.setattr("colocation.clone.job.INTERVAL_SECONDS", 0)
    monkeypatch.setattr("colocation.clone.job.write_progress", lambda _root, progress: steps.append(progress.steps))
    sources = (CloneSource(node="node-1", url="https://127.0.0.1:1"),)
    tables = (ORDERS.reference, LINES.reference)
    spec = CloneSpec(namespace="shop", group="sales", bucket=BUCKET, target="node-3", tables=tables, sources=sources)
    assert CloneJob(spec, root, Mock()).run() == 0
    assert {1, 2, 3, 4, 5} <= set(steps)
    root.close()


def spec_of(table: Table) -> CloneSpec:
    """A clone of one table, from a source that is never asked."""
    sources = (CloneSource(node="node-1", url="https://127.0.0.1:1"),)
    return CloneSpec(
        namespace="shop", group="sales", bucket=BUCKET, target="node-3", tables=(table.reference,), sources=sources
    )


def test_files_that_do_not_stay_as_they_were_published_fail_the_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that loses writes holds no replica, whatever the transfers report."""
    root = DataRoot(tmp_path, owns_ledger=False)
    publish_table(root, LINES)
    on_disk(root, LINES.path, data_path(BUCKET)).unlink()
    monkeypatch.setattr("colocation.clone.job.Transfers", Mock())
    with pytest.raises(CloneFailed, match="1 files are damaged again"):
        CloneJob(spec_of(LINES), root, Mock()).run()
    root.close()


@pytest.mark.parametrize(("free_bytes", "fits"), [(10, True), (9, False)])
def test_a_resumed_file_needs_room_for_its_rest_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int, fits: bool
) -> None:
    """Ten bytes of it are missing."""
    root, content = DataRoot(tmp_path, owns_ledger=False), LINES.contents[data_path(BUCKET)]
    publish_table(root, LINES)
    on_disk(root, LINES.path, data_path(BUCKET)).unlink()
    file = PulledFile(LINES.path, data_path(BUCKET), sha256_hex(content), len(content), True)
    with IncomingFile(root, (".incoming", "clones", "shop.sales.00001", "files"), file.incoming_name) as incoming:
        incoming.write(content[:-10])
    monkeypatch.setattr(root, "disk", lambda: Mock(free_bytes=free_bytes))
    transfers = Mock()
    monkeypatch.setattr("colocation.clone.job.Transfers", transfers)
    with pytest.raises(CloneFailed) as failure:
        CloneJob(spec_of(LINES), root, Mock()).run()
    assert (failure.value.reason is not Reason.INSUFFICIENT_SPACE) == fits
    asked = [call.args[0] for call in transfers.return_value.run.call_args_list]
    assert asked == [[], [file]][: 1 + fits]
    root.close()


def test_a_table_that_was_never_loaded_needs_nothing(agents: list[AgentThread], pki: Pki, tmp_path: Path) -> None:
    """A table without a manifest has no files to clone."""
    spec = clone_spec([ORDERS], agents[:1])
    unloaded = spec.model_copy(update={"tables": (spec.tables[0].model_copy(update={"manifest": None}),)})
    assert run_clone(clone_environment(unloaded, tmp_path / "node-3", pki))[0] == 0


def test_replaces_only_damaged_files(agents: list[AgentThread], pki: Pki, tmp_path: Path) -> None:
    """The others keep their inode, so nothing else was pulled."""
    put(agents[0], ORDERS)
    root = tmp_path / "node-3"
    environment = clone_environment(clone_spec([ORDERS], agents[:1]), root, pki)
    assert run_clone(environment)[0] == 0
    good, bad = (on_disk(root, ORDERS.path, path) for path in ORDERS.contents_of(BUCKET))
    inode = good.stat().st_ino
    damage(bad)
    assert report_on(root, ORDERS).buckets[BUCKET].state == "partial"  # not yet hashed, so it does not count

    assert run_clone(environment)[0] == 0

    assert report_on(root, ORDERS).buckets[BUCKET].state == "complete"
    assert good.stat().st_ino == inode


def test_continues_with_the_next_source_after_a_failure(
    agents: list[AgentThread], pki: Pki, tmp_path: Path
) -> None:
    """A source that lost a file, or serves other content, costs an attempt and not the clone."""
    for agent in agents:
        put(agent, ORDERS)
    first, second = sorted(ORDERS.contents_of(BUCKET))
    on_disk(agents[0].settings.data_root, ORDERS.path, first).unlink()
    damage(on_disk(agents[0].settings.data_root, ORDERS.path, second))
    environment = clone_environment(clone_spec([ORDERS], agents), tmp_path / "node-3", pki)
    assert run_clone(environment)[0] == 0
    assert report_on(tmp_path / "node-3", ORDERS).buckets[BUCKET].state == "complete"


def test_many_small_files_come_together(agents: list[AgentThread], pki: Pki, tmp_path: Path) -> None:
    """Including two of one content, a damaged one, and one that the first source lacks; each is pulled once."""
    contents = {data_path(BUCKET, load=str(number)): str(number // 2).encode() * 99 for number in range(300)}
    table = make_table(contents, name="small")
    for agent in agents:
        put(agent, table)
    damaged, missing = sorted(contents)[:2]
    damage(on_disk(agents[0].settings.data_root, table.path, damaged))
    on_disk(agents[0].settings.data_root, table.path, missing).unlink()
    root = tmp_path / "node-3"

    assert run_clone(clone_environment(clone_spec([table], agents), root, pki))[0] == 0

    assert held_files(root, table) == set(contents)
    assert report_on(root, table).buckets[BUCKET].state == "complete"
    assert (root / ".incoming/clones/shop.sales.00001").exists() is False
    requests = [agent.running.node.metrics.registry.get_sample_value(
        "colocation_agent_requests_total", {"verb": "get", "code": "200"}) for agent in agents]
    assert sum(requests) < 10


def test_an_agent_of_an_older_release_is_asked_for_each_file(
    agents: list[AgentThread], pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During an upgrade: it has no request for many files."""

    async def unknown(*_arguments: object) -> None:
        raise Refusal(404, "NoSuchRequest", "no request of this API")

    put(agents[0], ORDERS)
    monkeypatch.setattr("colocation.agent.file_requests.get_files", unknown)
    root = tmp_path / "node-3"
    assert run_clone(clone_environment(clone_spec([ORDERS], agents[:1]), root, pki))[0] == 0
    assert held_files(root, ORDERS) == set(ORDERS.contents_of(BUCKET))


def test_fails_in_one_line_when_no_source_has_a_file(agents: list[AgentThread], pki: Pki, tmp_path: Path) -> None:
    """Exit code 1 and a JSON line with the file and each source's error."""
    put(agents[0], ORDERS)
    path = sorted(ORDERS.contents_of(BUCKET))[0]
    on_disk(agents[0].settings.data_root, ORDERS.path, path).unlink()
    code, errors = run_clone(clone_environment(clone_spec([ORDERS], agents[:1]), tmp_path / "node-3", pki))
    failure = json.loads(errors.splitlines()[-1])
    assert code == 1
    assert failure["error"] == "CloneFailed"
    assert path in failure["message"] and "node-1" in failure["message"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("", id="empty"),
        pytest.param("{}", id="no fields"),
        pytest.param('{"namespace": "shop", "bucket": "one"}', id="wrong type"),
    ],
)
def test_refuses_a_wrong_spec(spec: str, pki: Pki, tmp_path: Path) -> None:
    """A wrong CLONE_SPEC gives exit code 1 with a reason, and changes nothing."""
    code, errors = run_clone(clone_environment(spec, tmp_path / "node-3", pki))
    assert code == 1
    assert json.loads(errors.splitlines()[-1])["error"] == "InvalidSpec"
    assert list((tmp_path / "node-3").iterdir()) == []


@pytest.mark.parametrize("kill", [pytest.param(True, id="SIGKILL"), pytest.param(False, id="SIGTERM")])
def test_resumes_after_a_kill(agents: list[AgentThread], pki: Pki, tmp_path: Path, kill: bool) -> None:
    """A clone killed in the middle of a file publishes nothing; the next run requests only the rest."""
    put(agents[0], BIG)
    root = tmp_path / "node-3"
    slow = clone_environment(clone_spec([BIG], agents[:1], bandwidth=0.2), root, pki)
    partial = root / ".incoming/clones/shop.sales.00001/files" / BIG_FILE.incoming_name
    with start_clone(slow) as process:
        until(lambda: partial.exists() and partial.stat().st_size > 0)
        process.kill() if kill else process.terminate()
        process.communicate()
    received_bytes = partial.stat().st_size
    until(lambda: agents[0].metric("colocation_agent_active_transfers") == 0)
    assert process.returncode != 0
    assert 0 < received_bytes < len(BIG.contents[data_path(BUCKET)])
    assert held_files(root, BIG) == set()
    served_before = agents[0].metric(SERVED_BYTES)

    assert run_clone(clone_environment(clone_spec([BIG], agents[:1]), root, pki))[0] == 0

    assert report_on(root, BIG).buckets[BUCKET].state == "complete"
    assert agents[0].metric(SERVED_BYTES) - served_before == len(BIG.contents[data_path(BUCKET)]) - received_bytes


def test_resumes_after_cut_connections(agents: list[AgentThread], pki: Pki, tmp_path: Path) -> None:
    """Three connections in a row end in the middle of the file; each attempt requests only the rest."""
    put(agents[0], BIG)
    root = tmp_path / "node-3"
    length = len(BIG.contents[data_path(BUCKET)])
    served_before = agents[0].metric(SERVED_BYTES)
    with CuttingProxy(agents[0].running.port, cut_after_bytes=length // 4, cuts=3) as proxy:
        spec = clone_spec([BIG], agents[:1])
        flaky = spec.model_copy(update={"sources": (CloneSource(node="node-1", url=proxy.url),)})
        assert run_clone(clone_environment(flaky, root, pki))[0] == 0
    assert report_on(root, BIG).buckets[BUCKET].state == "complete"
    assert (root / ".incoming/clones/shop.sales.00001").exists() is False
    # The whole rest may be in flight at a cut: 1 + 3/4 + 1/2 + 1/4 of the file, and a little; restarts would make it 4.
    assert agents[0].metric(SERVED_BYTES) - served_before < 3 * length


def test_reports_its_progress_to_the_target_agent(
    agents: list[AgentThread], pki: Pki, tmp_path: Path
) -> None:
    """While a clone runs, the agent of its node reports finished and total bytes."""
    put(agents[0], BIG)
    root = tmp_path / "node-3"
    slow = clone_environment(clone_spec([BIG], agents[:1], bandwidth=0.2), root, pki)
    target = AgentThread(root, pki, agents[0].authorizer, "node-3").start()
    try:
        with start_clone(slow) as process, target.client() as client:
            clones = until(lambda: [clone for clone in client.status().clones if clone.bytes_total])
            process.kill()
            process.communicate()
    finally:
        target.stop()
    assert [(clone.group, clone.bucket, clone.bytes_total) for clone in clones] == [
        ("sales", BUCKET, len(BIG.contents[data_path(BUCKET)]))
    ]


def test_retained_snapshots_are_cloned_if_they_exist(
    agents: list[AgentThread], pki: Pki, tmp_path: Path
) -> None:
    """Running queries may still read their files; a retained manifest that is gone fails nothing."""
    old = make_table({data_path(BUCKET, load="old"): b"old"}, snapshot=0)
    for table in (ORDERS, old):
        put(agents[0], table)
    spec = clone_spec([ORDERS], agents[:1])
    reference = spec.tables[0].model_copy(update={"retained_manifests": (old.manifest, "00" * 32)})
    root = tmp_path / "node-3"
    environment = clone_environment(spec.model_copy(update={"tables": (reference,)}), root, pki)
    assert run_clone(environment)[0] == 0
    assert held_files(root, ORDERS) == set(ORDERS.contents_of(BUCKET)) | set(old.contents)


def test_a_clone_repairs_damage_that_the_scrub_finds(agents: list[AgentThread], pki: Pki, tmp_path: Path) -> None:
    """A bit flips on node-3 without a visible change: its agent reads it, reports the bucket corrupt, and complete
    again after the clone.
    """
    put(agents[0], LINES)
    root = tmp_path / "node-3"
    environment = clone_environment(clone_spec([LINES], agents[:1]), root, pki)
    assert run_clone(environment)[0] == 0
    target = AgentThread(root, pki, agents[0].authorizer, "node-3").start(scrub_interval_seconds=0.5)
    request = InventoryRequest(changed=(LINES.asked,))
    try:
        with target.client() as client:

            def state() -> str | None:
                return client.inventory(request).tables[0].buckets[BUCKET].state

            until(lambda: state() == "complete")
            file = on_disk(root, LINES.path, data_path(BUCKET))
            before = file.stat()
            damage(file)
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
            until(lambda: state() == "corrupt")
            assert run_clone(environment)[0] == 0
            until(lambda: state() == "complete")
    finally:
        target.stop()


def test_a_disk_without_room_fails_before_anything_is_pulled(
    agents: list[AgentThread], pki: Pki, tmp_path: Path
) -> None:
    """Exit code 1 with the missing and the free bytes; nothing is received."""
    huge = DataFile(path=data_path(BUCKET), bucket=BUCKET, rows=1, bytes=1 << 52, sha256="00" * 32)
    manifest = TableManifest(
        namespace="shop", table="huge", uid="0a1b2c3d", snapshot_id=1,
        columns=(Column(name="key", type="bigint"),), bucketed_by=("key",), buckets=4, files=(huge,),
    )  # fmt: skip
    sha256, stored = encode_manifest(manifest)
    table = Table(table_path("shop", "huge-0a1b2c3d"), {}, sha256, stored)
    put(agents[0], table)
    root = tmp_path / "node-3"
    code, errors = run_clone(clone_environment(clone_spec([table], agents[:1]), root, pki))
    failure = json.loads(errors.splitlines()[-1])
    assert (code, failure["error"]) == (1, "InsufficientSpace")
    assert str(1 << 52) in failure["message"]
    assert held_files(root, table) == set()


def test_nothing_is_copied_onto_another_disk(agents: list[AgentThread], pki: Pki, tmp_path: Path) -> None:
    """The operator names the target's disk; a folder below an unmounted disk is left unchanged."""
    put(agents[0], ORDERS)
    root = tmp_path / "node-3"
    root.mkdir()
    spec = clone_spec([ORDERS], agents[:1]).model_copy(update={"disk_id": "0" * 16})
    code, errors = run_clone(clone_environment(spec, root, pki))
    assert (code, json.loads(errors.splitlines()[-1])["error"]) == (1, "DiskMissing")
    assert list(root.iterdir()) == []
    spec = spec.model_copy(update={"disk_id": agents[1].running.node.health.disk_id})
    assert run_clone(clone_environment(spec, agents[1].settings.data_root, pki))[0] == 0


def test_a_source_whose_file_is_shortened_gives_no_replica(
    agents: list[AgentThread], pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shortened just before the front sends it: the content does not match, and the next source sends the file."""
    for agent in agents:
        put(agent, BIG)
    path = data_path(BUCKET)
    allowed, shortened = ReadRequests._allowed, on_disk(agents[0].settings.data_root, BIG.path, path)

    def shortening(requests: ReadRequests, *arguments: object) -> bytes:
        answer = allowed(requests, *arguments)  # type: ignore[arg-type]
        os.truncate(shortened, len(BIG.contents[path]) // 2)
        return answer

    monkeypatch.setattr(ReadRequests, "_allowed", shortening)
    code, errors = run_clone(clone_environment(clone_spec([BIG], agents), tmp_path / "node-3", pki))
    assert code == 0 and "node-1: the content that arrived is" in errors
    assert on_disk(tmp_path / "node-3", BIG.path, path).read_bytes() == BIG.contents[path]
