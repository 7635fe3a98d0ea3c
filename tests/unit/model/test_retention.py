"""Replaced snapshots stay for the table's retention, by time and number."""

import datetime

import pytest

from colocation.model.table import Retention, TableSnapshot, retained_history

NOW = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)


def snapshot(number: int, committed_at: str) -> TableSnapshot:
    return TableSnapshot(id=number, manifest=f"sha256:{number:064d}", committed_at=committed_at)


COMMITTED = snapshot(4, "2026-11-21T11:59:00Z")
HISTORY = (
    snapshot(3, "2026-11-21T11:50:00Z"), snapshot(2, "2026-11-21T11:00:00Z"), snapshot(1, "2026-11-20T11:00:00Z"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        pytest.param(Retention(), [3, 2, 1], id="one-day-and-ten-snapshots-keep-all"),
        pytest.param(Retention(snapshots=2), [3, 2], id="the-newest-two"),
        pytest.param(Retention(snapshots=0), [], id="none-by-number"),
        pytest.param(Retention(seconds=0), [], id="none-by-time"),
        pytest.param(Retention(seconds=60), [], id="replaced-exactly-that-long-ago"),
        pytest.param(Retention(seconds=61), [3], id="age-counts-from-the-replacement-not-from-the-commit"),
        pytest.param(Retention(seconds=3600), [3, 2], id="replaced-an-hour-ago"),
    ],
)
def test_retained_history(retention: Retention, kept: list[int]) -> None:
    """Whichever of the two limits is reached first."""
    assert [entry.id for entry in retained_history(COMMITTED, HISTORY, retention, NOW)] == kept


def test_nothing_was_replaced() -> None:
    """A table's first snapshot has no history."""
    assert retained_history(COMMITTED, (), Retention(), NOW) == ()


def test_what_commits_changed_stays_when_history_is_written() -> None:
    """The operator writes the history that it has parsed."""
    given = {"id": 7, "manifest": f"sha256:{7:064d}", "committedAt": "2026-11-21T00:00:00Z", "operation": "merge",
             "partitions": 1, "files": 2, "rows": 3, "bytes": 4, "rowsInserted": 0, "rowsUpdated": 2, "rowsDeleted": 1,
             "filesAdded": 1, "filesRemoved": 1}  # fmt: skip
    assert TableSnapshot.model_validate(given).to_json_dict() == given
