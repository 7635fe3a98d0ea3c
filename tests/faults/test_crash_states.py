"""Killed or without power after any step: what was said to be done is there, what is there is right, and it can be
repeated.
"""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from colocation.clone.pull import PulledFile, Puller, Sources
from colocation.model.clone import CloneSource
from colocation.model.names import RECYCLE_DIRECTORY
from colocation.model.table_manifest import manifest_path
from colocation.storage import publish
from colocation.storage.disk_health import adopt, read_marker
from colocation.storage.inventory import Inventory
from colocation.storage.paths import TablePath
from colocation.storage.publish import IncomingBatch
from colocation.storage.recycling import recycle, recycled_tables, restore
from colocation.storage.root import CLONES, DataRoot
from tests.faults.crash_states import CrashState, Recorder, crash_states
from tests.unit.storage import tables
from tests.unit.storage.tables import data_path, make_table, sha256_hex

CONTENTS = {
    data_path(0): b"first" * 300,
    data_path(1, partition="day=1"): b"second" * 200,
    data_path(1, load="2", partition="day=1"): b"third" * 100,
}
TABLE = make_table(CONTENTS)
WANTED = {**CONTENTS, manifest_path(TABLE.manifest): TABLE.stored}
SUCCESSOR = TablePath(TABLE.path.namespace, "orders-0a1b2c3e")

Acknowledge = Callable[[str], None]
Program = Callable[[DataRoot, Acknowledge], None]


def upload(root: DataRoot, acknowledge: Acknowledge) -> None:
    """What a load sends, file by file, the manifest last."""
    for path, content in WANTED.items():
        tables.publish(root, TABLE.path, path, content)
        acknowledge(path)


def clone_batch(root: DataRoot, acknowledge: Acknowledge) -> None:
    """A clone's small files, all at once."""
    with IncomingBatch(root, TABLE.path, (*CLONES, "clone")) as batch, ThreadPoolExecutor(1) as pool:
        for path, content in WANTED.items():
            batch.add(path, content, sha256_hex(content))
        batch.publish(pool)
    for path in WANTED:
        acknowledge(path)


class OtherNode:
    """An agent that has the whole table, and gives it in small pieces."""

    def active_transfers(self) -> int:
        return 0

    @contextlib.contextmanager
    def get_file(
        self, namespace: str, directory: str, path: str, start: int | None, end: int | None
    ) -> Iterator["OtherNode"]:
        assert (namespace, directory) == tuple(TABLE.path)
        self._rest = WANTED[path][start or 0 : end]
        yield self

    def chunks(self, _: int) -> Iterator[bytes]:
        for position in range(0, len(self._rest), 512):
            yield self._rest[position : position + 512]


def clone_large(root: DataRoot, acknowledge: Acknowledge) -> None:
    """A clone's large files, one by one, on from what an attempt before has received."""
    sources = Sources([CloneSource(node="node-2", url="https://10.0.0.2:8440")], lambda _: OtherNode())  # type: ignore[arg-type, return-value]
    puller = Puller(root, (*CLONES, "clone"), sources, lambda _: None, lambda _: None)
    for path, content in WANTED.items():
        puller.pull(PulledFile(TABLE.path, path, sha256_hex(content), len(content), True))
        acknowledge(path)


@pytest.fixture
def no_announcements(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent to the agent next door may be lost: it looks at the folders itself."""
    monkeypatch.setattr(publish, "announce", lambda *_: None)


def states_of(
    program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch, before: dict[str, bytes] | None = None
) -> Iterator[tuple[CrashState, Path]]:
    """The states after a crash anywhere in the program, each laid out in a folder of its own."""
    original = folder / "original"
    original.mkdir()
    for path, content in (before or {}).items():
        (original / path).parent.mkdir(parents=True, exist_ok=True)
        (original / path).write_bytes(content)
    root = DataRoot(original)
    held = {
        str(path.relative_to(original)): path.read_bytes() if path.is_file() else None
        for path in original.rglob("*")
        if not str(path.relative_to(original)).startswith(".ledger")
    }
    recorder = Recorder(original)
    with monkeypatch.context() as patch:
        recorder.install(patch)
        program(root, recorder.acknowledge)
    root.close()
    assert any(step.what == "acknowledge" for step in recorder.steps)
    for number, state in enumerate(crash_states(held, recorder.steps)):
        laid_out = folder / str(number)
        laid_out.mkdir()
        state.lay_out(laid_out)
        yield state, laid_out


def held(folder: Path, table: TablePath = TABLE.path) -> dict[str, bytes]:
    """What is stored under its path of the table."""
    base = folder / table.namespace / table.directory
    return {str(path.relative_to(base)): path.read_bytes() for path in base.rglob("*") if path.is_file()}


def repeated(program: Program, folder: Path) -> None:
    """Run the program again, as a load or a clone Job is run again, until it ends."""
    root = DataRoot(folder)
    program(root, lambda _: None)
    root.close()


@pytest.mark.parametrize("program", [upload, clone_batch, clone_large])
def test_a_file_is_whole_or_not_there(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_announcements: None
) -> None:
    """Nothing that is there is wrong, nothing that was acknowledged is missing, and a repetition ends well."""
    for state, folder in states_of(program, tmp_path, monkeypatch):
        found = held(folder)
        assert found.items() <= WANTED.items(), state.name
        assert state.acknowledged <= found.keys(), state.name
        repeated(program, folder)
        assert held(folder) == WANTED, state.name


def test_a_damaged_file_is_replaced_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_announcements: None
) -> None:
    """The damaged one or the right one is there, never nothing and never a third one."""
    damaged = {f"shop/{TABLE.path.directory}/{path}": b"damaged" for path in WANTED}
    for state, folder in states_of(clone_large, tmp_path, monkeypatch, damaged):
        found = held(folder)
        assert found.keys() == WANTED.keys(), state.name
        assert all(found[path] in (b"damaged", WANTED[path]) for path in WANTED), state.name
        assert all(found[path] == WANTED[path] for path in state.acknowledged), state.name
        repeated(clone_large, folder)
        assert held(folder) == WANTED, state.name


def drop(root: DataRoot, acknowledge: Acknowledge) -> None:
    recycle(Inventory(root), TABLE.path, keep_seconds=3600)
    acknowledge("dropped")


def recover(root: DataRoot, acknowledge: Acknowledge) -> None:
    restore(Inventory(root), TABLE.path, SUCCESSOR)
    acknowledge("recovered")


@pytest.mark.parametrize("program", [drop, recover, lambda root, say: (drop(root, say), recover(root, say))])
def test_a_dropped_table_is_never_lost(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_announcements: None
) -> None:
    """Its files lie in its folder, in the bin or in its successor's, whole, in one of them; what was said holds."""
    before = {f"shop/{TABLE.path.directory}/{path}": content for path, content in WANTED.items()}
    for state, folder in states_of(program, tmp_path, monkeypatch, before):
        root = DataRoot(folder)
        in_bin = {one.name for one in recycled_tables(root)}
        root.close()
        places = {
            "table": held(folder), "successor": held(folder, SUCCESSOR),
            **{name: held(folder, TablePath(RECYCLE_DIRECTORY, name)) for name in in_bin},
        }  # fmt: skip
        found = {place for place, files in places.items() if files}
        assert len(found) == 1 and places[next(iter(found))] == WANTED, state.name
        if "recovered" in state.acknowledged:
            assert found == {"successor"}, state.name
        elif "dropped" in state.acknowledged:
            assert "table" not in found, state.name


def test_what_a_successor_lacks_is_never_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_announcements: None
) -> None:
    """It has a folder already: each file is in one of both, whole, and a repetition ends well."""
    late = data_path(2, partition="day=1")
    before = {f"shop/{TABLE.path.directory}/{path}": content for path, content in WANTED.items()}
    before |= {f"shop/{SUCCESSOR.directory}/{late}": b"late"}
    for state, folder in states_of(recover, tmp_path, monkeypatch, before):
        left, given = held(folder), held(folder, SUCCESSOR)
        assert not left.keys() & given.keys(), state.name
        assert left | given == WANTED | {late: b"late"}, state.name
        assert not left or "recovered" not in state.acknowledged, state.name
        repeated(recover, folder)
        assert held(folder, SUCCESSOR) == WANTED | {late: b"late"}, state.name


def test_a_disk_is_adopted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its marker is whole or not there; once it was said to be adopted the marker stays."""
    given: list[str] = []

    def adopted(root: DataRoot, acknowledge: Acknowledge) -> None:
        given.append(adopt(root.descriptor, "node-1").id)
        acknowledge("adopted")

    for state, folder in states_of(adopted, tmp_path, monkeypatch):
        root = DataRoot(folder)
        marker = read_marker(root.descriptor)
        root.close()
        assert marker is None or marker.id == given[0], state.name
        assert marker is not None or "adopted" not in state.acknowledged, state.name
