"""Nodes with so many partitions that a look at their folders takes long: it is rare then, and nothing is missed."""

import pytest

from colocation.storage import removal
from colocation.storage.inventory import Inventory
from colocation.storage.root import DataRoot

from .tables import data_path, publish, publish_table
from .test_inventory import TABLE, report_on, states


@pytest.fixture
def inventory(root: DataRoot) -> Inventory:
    """The inventory of a node that holds ``TABLE``."""
    publish_table(root, TABLE)
    return Inventory(root)


class SlowLook:
    """A clock by which a report that looks at the folders takes ``seconds``."""

    def __init__(self, inventory: Inventory, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.now = 0.0
        self.looks = 0
        table = inventory.table(TABLE.path)
        refresh = table._contents.refresh

        def counted(sweep: bool = False) -> None:
            self.looks += 1
            self.now += seconds
            refresh(sweep)

        monkeypatch.setattr(inventory, "_clock", lambda: self.now)
        monkeypatch.setattr(inventory, "_look_at", 0.0)
        monkeypatch.setattr(table._contents, "refresh", counted)


def test_long_looks_are_rare(inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where looking at all folders takes a second, it is done again fifty seconds later, not with every report."""
    slow = SlowLook(inventory, monkeypatch, seconds=1)
    assert states(report_on(inventory)) == states(report_on(inventory)) == {0: "complete", 1: "complete"}
    assert slow.looks == 1
    slow.now += 50
    report_on(inventory)
    assert slow.looks == 2


def test_longest_looks_are_not_put_off_for_ever(inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done by hand is found within minutes, however much there is to look at."""
    slow = SlowLook(inventory, monkeypatch, seconds=60)
    report_on(inventory)
    slow.now += 300
    report_on(inventory)
    assert slow.looks == 2


def test_quick_looks_come_with_every_report(inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done to the files by hand shows at once, where that costs little."""
    slow = SlowLook(inventory, monkeypatch, seconds=0.01)
    report_on(inventory)
    report_on(inventory)
    assert slow.looks == 2


def test_removals_show_at_once_however_long_a_look_takes(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator that takes a removed replica for a held one could lose the last."""
    SlowLook(inventory, monkeypatch, seconds=1)
    report_on(inventory)
    removal.delete_bucket(root, inventory, TABLE.path, 0, removal.Live((TABLE.manifest,), 0))
    assert states(report_on(inventory)) == {0: None, 1: "complete"}


def test_published_files_show_at_once_however_long_a_look_takes(
    root: DataRoot, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a load is seen to be where it is."""
    SlowLook(inventory, monkeypatch, seconds=1)
    before = report_on(inventory).surplus_bytes
    publish(root, TABLE.path, data_path(0, load="2"), b"new")
    assert report_on(inventory).surplus_bytes == before + len(b"new")
