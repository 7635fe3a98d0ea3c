"""The agent's background work takes a bounded share of a processor, however much is on the disk."""

import errno
from pathlib import Path
from unittest.mock import Mock

import pytest

from colocation.agent.metrics import Metrics
from colocation.agent.settings import Settings
from colocation.agent.upkeep import Upkeep
from colocation.storage import incoming, recycling
from colocation.storage.ages import Ages
from colocation.storage.disk_health import DiskHealth
from colocation.storage.inventory import SCRUB_BATCH_FILES, Backlog, Inventory, Scrubbed
from colocation.storage.paths import TablePath
from colocation.storage.quarantine import QuarantinePurge
from colocation.storage.root import DataRoot


@pytest.fixture
def upkeep(tmp_path: Path) -> Upkeep:
    """The background work of an agent that has not started."""
    settings = Settings("node-1", tmp_path, tmp_path, tmp_path)
    root = DataRoot(tmp_path)
    return Upkeep(settings, Inventory(root), Metrics(), lambda _table: False, DiskHealth(root, "node-1"))


@pytest.mark.parametrize(
    ("name", "took_seconds", "pause_seconds"),
    [
        pytest.param("look", 0.001, 2.0, id="few folders"),
        pytest.param("look", 20.0, 2000.0, id="very many folders"),
        pytest.param("sweep", 0.1, 60.0, id="few files"),
        pytest.param("sweep", 80.0, 8000.0, id="very many files"),
    ],
)
def test_looks_and_sweeps_cost_at_most_one_percent(
    upkeep: Upkeep, name: str, took_seconds: float, pause_seconds: float
) -> None:
    """A longer one is followed by a longer pause."""
    [task] = [task for task in upkeep.tasks if task.name == name]
    assert task.pause_after(took_seconds) == pause_seconds


def test_each_cleaner_runs_even_if_others_fail(
    upkeep: Upkeep, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One bad place on the disk must not keep the recycle bin from being emptied; the step fails nevertheless."""
    caplog.set_level("INFO")
    for module, function in ((incoming, "remove_stale"), (QuarantinePurge, "run")):
        monkeypatch.setattr(module, function, Mock(side_effect=OSError(errno.EUCLEAN, f"in {function}")))
    monkeypatch.setattr(recycling.Purge, "run", lambda _: [TablePath("shop", "orders-0a1b2c3d")])
    [clean] = [task for task in upkeep.tasks if task.name == "clean"]
    with pytest.raises(OSError, match="in remove_stale"):
        clean.step()
    assert "purge" in caplog.text


def test_a_long_scrub_counts_its_backlog_once_a_minute(upkeep: Upkeep, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting a large backlog takes long."""
    batches = [Scrubbed(SCRUB_BATCH_FILES, 1)] * 5 + [Scrubbed(0, 0)]
    count_backlog = Mock(return_value=Backlog(7, 70))
    monkeypatch.setattr("colocation.agent.upkeep.scrub_batch", Mock(side_effect=batches * 2))
    monkeypatch.setattr("colocation.agent.upkeep.scrub_backlog", count_backlog)
    now = 1000.0
    monkeypatch.setattr(upkeep._root, "monotonic", lambda: now)
    [scrub] = [task for task in upkeep.tasks if task.name == "scrub"]
    scrub.step()
    assert count_backlog.call_count == 1
    assert upkeep._metrics.registry.get_sample_value("colocation_agent_scrub_backlog_files") == 7
    now += 61
    scrub.step()
    assert count_backlog.call_count == 2


def test_each_cleaning_records_the_nodes_own_clock(upkeep: Upkeep) -> None:
    """A killed agent loses at most a minute of garbage's age."""
    upkeep._root.ages._started -= 3600.0
    next(task for task in upkeep.tasks if task.name == "clean").step()
    killed = Ages(upkeep._root.ledger, lambda: 0.0)
    assert killed.now >= 3600.0
