"""Property: whatever happens to the files, the report matches the disk."""

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from colocation.storage import removal
from colocation.storage.inventory import Inventory, hash_unverified, sweep
from colocation.storage.quarantine import quarantined
from colocation.storage.root import DataRoot
from colocation.storage.verification import unlimited

from .tables import damage, data_path, make_table, on_disk, publish, publish_table, sha256_hex

TABLE = make_table(
    {
        data_path(bucket, load=load, partition=partition): f"{bucket} {load} {partition}".encode()
        for bucket in (0, 1)
        for load in ("1", "2")
        for partition in ("", "o_year=1995")
    }
)
WANTED = st.sampled_from(sorted(TABLE.contents))
GARBAGE = st.builds(data_path, st.integers(0, 2), st.just("garbage"), st.sampled_from(["", "o_year=1996"]))


class NodeMachine(RuleBasedStateMachine):
    """A node whose files change, through its storage and without its knowledge."""

    @initialize()
    def start(self) -> None:
        """An empty data root."""
        self.folder = Path(tempfile.mkdtemp())
        self.root = DataRoot(self.folder)
        self.inventory = Inventory(self.root)
        publish(self.root, TABLE.path, f"manifests/{TABLE.manifest}.json.zst", TABLE.stored)

    @rule()
    def load(self) -> None:
        """Publish all files that are not there with other content."""
        self.remove_damaged()
        publish_table(self.root, TABLE)

    @rule(path=WANTED)
    def publish_one(self, path: str) -> None:
        """Publish one file."""
        if not self.place(path).exists():
            publish(self.root, TABLE.path, path, TABLE.contents[path])

    @rule(path=GARBAGE)
    def publish_garbage(self, path: str) -> None:
        """A load that never commits."""
        publish(self.root, TABLE.path, path, path.encode())

    @rule(path=WANTED)
    def damage_one(self, path: str) -> None:
        """Write to a file in place."""
        if self.place(path).exists() and self.place(path).stat().st_size:
            damage(self.place(path))

    @rule(path=WANTED, length=st.integers(0, 3))
    def truncate_one(self, path: str, length: int) -> None:
        """Cut off a file's end."""
        if self.place(path).exists():
            os.truncate(self.place(path), length)

    @rule(path=WANTED)
    def swap_one(self, path: str) -> None:
        """Replace a file by another of the same size."""
        if self.place(path).exists():
            other = self.folder / "other"
            other.write_bytes(b"?" * len(TABLE.contents[path]))
            other.rename(self.place(path))

    @rule(path=WANTED)
    def remove_one(self, path: str) -> None:
        """Remove a file by hand."""
        self.place(path).unlink(missing_ok=True)

    @rule(bucket=st.integers(0, 2))
    def delete_bucket(self, bucket: int) -> None:
        """The operator drops a replica."""
        live = removal.LiveManifests((TABLE.manifest,), 60)
        removal.delete_bucket(self.inventory, TABLE.path, bucket, live)

    @rule()
    def collect(self) -> None:
        """The operator collects garbage."""
        removal.collect_garbage(self.inventory, TABLE.path, removal.LiveManifests((TABLE.manifest,), 0))

    @rule(keep_ledger=st.booleans())
    def restart(self, keep_ledger: bool) -> None:
        """The agent restarts, with or without its ledger."""
        self.root.close()
        if not keep_ledger:
            shutil.rmtree(self.folder / ".ledger")
        self.root = DataRoot(self.folder)
        self.inventory = Inventory(self.root)

    @invariant()
    def the_report_is_the_truth(self) -> None:
        """After a sweep no wrong file counts as held; after hashing, report and disk agree file by file."""
        sweep(self.inventory)
        before_hashing = self.inventory.report([TABLE.reference])[0]
        hash_unverified(self.inventory, unlimited)
        report = self.inventory.report([TABLE.reference])[0]
        for bucket, state in report.buckets.items():
            assert before_hashing.buckets[bucket].files_held <= state.files_held
            wanted = TABLE.contents_of(bucket)
            there = {path for path in wanted if self.place(path).exists()}
            right = {path for path in there if self.place(path).read_bytes() == wanted[path]}
            assert state.files_held == len(right)
            assert state.bytes_held == sum(len(wanted[path]) for path in right)
            assert there == right  # wrong files are out of the readers' path
            assert set(state.corrupt_files) == (quarantined(self.root, TABLE.path) & set(wanted)) - there
        surplus = [path for path in self.data_files() if path not in TABLE.contents]
        assert report.surplus_bytes == sum(self.place(path).stat().st_size for path in surplus)

    def teardown(self) -> None:
        """Remove the data root."""
        self.root.close()
        shutil.rmtree(self.folder)

    def remove_damaged(self) -> None:
        """Make room for good files, as a repair does."""
        for path, content in TABLE.contents.items():
            if self.place(path).exists() and sha256_hex(self.place(path).read_bytes()) != sha256_hex(content):
                self.place(path).unlink()

    def place(self, path: str) -> Path:
        """The location of a file."""
        return on_disk(self.root, TABLE.path, path)

    def data_files(self) -> list[str]:
        """All existing data files."""
        folder = self.folder / TABLE.path.namespace / TABLE.path.directory
        return [str(path.relative_to(folder)) for path in folder.glob("data/**/*.parquet")]


NodeMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
TestReportIsTruth = NodeMachine.TestCase
